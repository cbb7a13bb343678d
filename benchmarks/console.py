"""The console at size: how soon each page begins to come, what a first load weighs, what people who look on cost calls.

The database has a million rows of calls by 200 agents, written once by the product's own writer and kept in the folder
for temporary files; thirty servers have 3,000 tools together.
"""

import gzip
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from aggregator.identity.keys import new_key, policy_line
from aggregator.storage.tables import REVISION
from benchmarks import history
from benchmarks.calls import Loader
from benchmarks.pinned import on_core, processor_time, two_cores
from benchmarks.report import Table
from benchmarks.systems import AGGREGATOR, HERE, ROOT, System, aggregator_over_http, echo_server, python_server

AGENTS: Final = tuple(f"agent-{number:03}" for number in range(200))
CALLER: Final = AGENTS[7]
_SERVERS: Final = 30
_DAYS: Final = 30.0
_KEPT_FOR: Final = 12 * 3600.0
# The viewers that are measured, in turns.
VIEWERS: Final = (0, 1, 50)
LIVE: Final = "/live"
_IN_FLIGHT: Final = 16
_WARM_UP: Final = 2.0
_DIFF: Final = "/policies/diff"
_ROLES: Final = (
    "roles:\n"
    "  everybody:\n    allow: ['s?.*', echo.echo]\n"
    '    deny:\n      - "*.delete_*"\n'
    "  reader: { roles: [everybody], allow: ['s1?.*'], confirm: ['s1?.tool_9?'] }\n"
    "  writer: { roles: [reader], allow: ['s2?.*'], limits: { 's*': { per_minute: 600 } } }\n"
)
_TOKEN: Final = re.compile(rb'name="csrf" value="([0-9a-f]+)"')
_ASSET: Final = re.compile(rb'(?:href|src)="([^"]+/static/[^"]+)"')


class Answered(NamedTuple):
    """An answer: the seconds until its first byte, its body, and the bytes that came in all."""

    took: float
    body: bytes
    size: int


@dataclass(slots=True)
class Browser:
    """One connection to the console of a person who is signed in."""

    address: str
    cookie: str = ""
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def sign_in(self, config: Path) -> Self:
        """Sign in as `aggregator console` has it: by a link, whose button is pressed."""
        command = [*AGGREGATOR, "console", "--config", str(config), "--url", f"http://{self.address}", "--no-browser"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        path = urlsplit(done.stdout.strip()).path
        connection = http.client.HTTPConnection(self.address, timeout=60)
        origin = {"Origin": f"http://{self.address}", "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", path, b"", {**origin, "Content-Type": "application/x-www-form-urlencoded"})
        response = connection.getresponse()
        self.cookie = (response.headers["set-cookie"] or "").partition(";")[0]
        response.read()
        connection.close()
        return self

    def get(self, target: str) -> Answered:
        """Fetch a page.

        Raises:
            RuntimeError: there is no such page, or it fails.
        """
        return self._ask("GET", target, b"", {})

    def post(self, target: str, fields: Mapping[str, str]) -> Answered:
        """Send a form of a page.

        Raises:
            RuntimeError: it was not taken.
        """
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{self.address}"}
        return self._ask("POST", target, urlencode(fields).encode(), headers)

    def _ask(self, method: str, target: str, sent: bytes, headers: Mapping[str, str]) -> Answered:
        if self._connection is None:
            self._connection = http.client.HTTPConnection(self.address, timeout=60)
            self._connection.connect()
        began = time.perf_counter()
        common = {"Cookie": self.cookie, "Accept-Encoding": "gzip", "Sec-Fetch-Site": "same-origin"}
        self._connection.request(method, target, sent, {**common, **headers})
        response = self._connection.getresponse()
        took = time.perf_counter() - began
        data = response.read()
        size = len(data) + sum(len(name) + len(value) + 4 for name, value in response.getheaders()) + 17
        body = gzip.decompress(data) if response.headers.get("content-encoding") == "gzip" else data
        if response.status != 200:
            raise RuntimeError(f"{method} {target} answered {response.status}: {body[:500]!r}")
        return Answered(took, body, size)


def measure(folder: Path, rows: int, tools: int, rounds: int, seconds: float) -> Iterator[Table]:
    """Measure the pages one after another, then calls beside people who look on."""
    config, key = _prepared(folder, rows, tools)
    here, there = two_cores()
    with on_core(here):
        started = aggregator_over_http(config)
        url, pid = started.__enter__()
    try:
        with on_core(there):
            address = urlsplit(url).netloc
            _wait_until_ready(address)
            browser = Browser(address).sign_in(config)
            yield _pages(browser, pid, rows, tools, max(20, rounds * 5))
            yield _beside_viewers(System("console", "echo.echo", url=url, key=key), pid, browser, rounds, seconds)
    finally:
        started.__exit__(None, None, None)


# -- what is served


def _prepared(folder: Path, rows: int, tools: int) -> tuple[Path, str]:
    """Write the configuration, the policies and the database; returns the configuration's path and the caller's key."""
    each = tools // _SERVERS
    servers = {f"s{at}": python_server("-I", "-S", str(HERE / "large_stdio.py"), str(each)) for at in range(_SERVERS)}
    database = folder / "aggregator.db"
    shutil.copyfile(_database(rows, each), database)
    policies = folder / "policies"
    policies.mkdir()
    key = new_key(CALLER, now=time.time())
    (policies / "roles.yaml").write_text(_ROLES)
    lines = ["agents:"]
    for number, agent in enumerate(AGENTS):
        lines += [
            f"  {agent}:",
            f"    roles: [{('everybody', 'reader', 'writer')[number % 3]}]",
            f"    deny: [s3.tool_{number % each}]",
        ]
        if agent == CALLER:
            lines.append(f"    keys: ['{policy_line(key.record)}']")
    (policies / "agents.yaml").write_text("\n".join(lines) + "\n")
    config = folder / "aggregator.json"
    made = {
        "mcpServers": {**servers, "echo": echo_server()},
        "policies": str(policies),
        "storage": f"sqlite+aiosqlite:///{database}",
    }
    config.write_text(json.dumps(made))
    return config, key.text


def _database(rows: int, each: int) -> Path:
    """Return the database with the rows; a kept one where it is not too old."""
    kept = Path(tempfile.gettempdir()) / "aggregator-benchmarks" / f"audit-{rows}-{each}-{REVISION}.db"
    if kept.exists() and kept.stat().st_mtime > time.time() - _KEPT_FOR:
        return kept
    kept.parent.mkdir(exist_ok=True)
    making = kept.with_suffix(".new")
    making.unlink(missing_ok=True)
    print(f"writing {rows:,} rows to {kept} ...", file=sys.stderr, flush=True)
    names = [(f"s{at}", f"s{at}.tool_{number}") for at in range(_SERVERS) for number in range(each)]
    past = history.past_calls(rows, AGENTS, names, time.time(), _DAYS * 86400)
    history.write(f"sqlite+aiosqlite:///{making}", past)
    os.replace(making, kept)
    return kept


def _wait_until_ready(address: str) -> None:
    """Wait until every server was tried once: then all tools are there."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
        connection.close()
        if status == 200:
            return
        time.sleep(0.2)
    raise RuntimeError("the gateway does not become ready")


# -- pages


def targets(rows: int, each: int) -> Sequence[str]:
    """Return the pages to measure, below the console's path; those of one thing, and searches, included."""
    tool, agent = f"s4.tool_{each // 2}", AGENTS[11]
    return (
        "/",
        "/calls",
        f"/calls?before={rows // 2}",
        "/calls?q=" + quote("status:denied"),
        "/calls?q=" + quote(f"agent:{agent} took:>1s"),
        "/calls?q=" + quote(f"tool:{tool}"),
        "/calls?q=" + quote("a-word-in-no-row"),
        f"/calls/{rows - 40}",
        "/approvals",
        "/tools",
        "/tools?q=" + quote("read a record of the archive"),
        f"/tools?as={agent}",
        f"/tools/{tool}",
        f"/tools/{tool}/versions",
        "/servers",
        "/servers/s4",
        "/agents",
        f"/agents/{agent}",
        "/policies",
        f"/policies?agent={agent}&tool={tool}",
        "/health",
        "/events",
    )


def _pages(browser: Browser, pid: int, rows: int, tools: int, times: int) -> Table:
    table = []
    for target in targets(rows, tools // _SERVERS):
        # The first one loads what is loaded when it is first needed.
        first = browser.get(f"/console{target}")
        used = processor_time(pid)
        taken = [browser.get(f"/console{target}").took for _ in range(times)]
        used = (processor_time(pid) - used) / times
        assets = sorted({one.decode() for one in _ASSET.findall(first.body)})
        load = first.size + sum(browser.get(asset).size for asset in assets)
        table.append(_row(target, first, taken, used, f"{load / 1e3:.1f}"))
    csrf = _TOKEN.search(browser.get(f"/console{_DIFF}?name=roles.yaml").body)
    assert csrf is not None
    edited = {"csrf": csrf[1].decode(), "name": "roles.yaml", "text": _ROLES.replace("*.delete_*", "*.tool_1?")}
    used = processor_time(pid)
    posted = [browser.post(f"/console{_DIFF}", edited) for _ in range(5)]
    used = (processor_time(pid) - used) / len(posted)
    table.append(_row(f"POST {_DIFF}", posted[0], [one.took for one in posted], used, "-"))
    heads = ("page", "first byte, ms", f"worst of {times}", "the very first", "CPU, ms", "page, kB", "first load, kB")
    return Table(f"Pages, {rows:,} rows, {tools:,} tools, {len(AGENTS)} agents", heads, table)


def _row(target: str, first: "Answered", taken: Sequence[float], used: float, load: str) -> list[str]:
    numbers = (statistics.median(taken) * 1e3, max(taken) * 1e3, first.took * 1e3, used * 1e3)
    return [target, *(f"{one:.1f}" for one in numbers), f"{first.size / 1e3:.1f}", load]


# -- calls, with people who look on


@contextmanager
def _viewers(browser: Browser) -> Iterator["_Viewers"]:
    command = [sys.executable, "-m", "benchmarks.viewers", browser.address, browser.cookie, f"/console{LIVE}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield _Viewers(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


class _Viewers:
    """The process of the viewers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def resize(self, count: int) -> int:
        """Have so many streams open; returns the bytes that came since the last time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the live page could not be opened")
        came: int = json.loads(line)["bytes"]
        return came


@dataclass(slots=True)
class _Taken:
    """One round: calls a second, seconds of half the calls, processor seconds a call, bytes to each viewer a second."""

    rate: float
    p50: float
    processor: float
    streamed: float = 0.0


def _beside_viewers(system: System, pid: int, browser: Browser, rounds: int, seconds: float) -> Table:
    loader = Loader(replace(system, era="modern"))
    taken: dict[int, list[_Taken]] = {count: [] for count in VIEWERS}
    try:
        with _viewers(browser) as viewers:
            loader.round(_IN_FLIGHT, _WARM_UP)
            for number in range(rounds):
                # Each way round in turn: what comes first is not always what comes after a pause.
                for count in VIEWERS if number % 2 == 0 else VIEWERS[::-1]:
                    viewers.resize(count)
                    taken[count].append(_round(loader, viewers, pid, count, seconds))
    finally:
        loader.close()
    table = []
    median = statistics.median
    for count in VIEWERS:
        own = taken[count]
        rates = [one.rate / base.rate for one, base in zip(own, taken[0], strict=True)]
        costs = [one.processor / base.processor for one, base in zip(own, taken[0], strict=True)]
        table.append([
            str(count),
            f"{median(one.rate for one in own):,.0f}",
            f"{min(one.rate for one in own):,.0f}-{max(one.rate for one in own):,.0f}",
            f"{median(one.p50 for one in own) * 1e3:.2f}",
            f"{median(one.processor for one in own) * 1e6:.0f}",
            f"{median(rates):.3f}",
            f"{median(costs):.3f}",
            f"{median(one.streamed for one in own) / 1e3:.1f}",
        ])  # fmt: skip
    heads = ("viewers", "calls/s", "spread", "p50 ms", "CPU µs", "calls/s of none", "CPU of none", "kB/s each")
    return Table(f"Calls beside live pages, {_IN_FLIGHT} in flight ({rounds} rounds of {seconds:g} s)", heads, table)


def _round(loader: Loader, viewers: _Viewers, pid: int, count: int, seconds: float) -> _Taken:
    used = processor_time(pid)
    said = loader.round(_IN_FLIGHT, seconds)
    used = processor_time(pid) - used
    came = viewers.resize(count) / max(1, count) / said["seconds"]
    return _Taken(said["calls"] / said["seconds"], said["p50"], used / said["calls"], came)
