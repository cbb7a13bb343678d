"""Real servers' catalogs, replayed all at once behind one aggregator: is every tool there, whole, and callable?

Which tool a listed name stands for is not worked out from the name: it is called, and the replayed server says who it
is. So a name that leads to the wrong tool shows.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from benchmarks.host import Host, HttpHost, StdioHost, list_tools
from benchmarks.memory import resident
from benchmarks.report import Table
from benchmarks.sample import arguments
from benchmarks.systems import aggregator_over_http, aggregator_over_stdio, python_server, write_config

SHOWN: Final = 20
_COMPATIBLE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CANONICAL: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

Tool = tuple[str, str]


@dataclass(slots=True)
class Seen:
    """The tools and answers seen through one frontend."""

    first: str = ""
    complete: float = 0.0
    pages: list[int] = field(default_factory=list)
    listed: dict[str, dict[str, Any]] = field(default_factory=dict)
    doubled: int = 0
    stands_for: dict[str, Tool] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    resident: float = 0.0


def measure(folder: Path, catalogs: Path) -> str:
    """The whole report.

    Raises:
        RuntimeError: the folder holds no catalogs, or not exactly one script.
    """
    originals = _read(catalogs)
    script = str(replay_script(catalogs))
    servers = sorted({server for server, _ in originals})
    config = write_config(folder, {name: python_server("-S", "-E", script, name) for name in servers})
    log = folder / "aggregator.log"
    http = _over_http(config, log)
    stdio = _over_stdio(config, len(http.listed))
    notes = _notes(log)
    texts = [str(_table(len(servers), len(originals), http, stdio))]
    for frontend, seen in (("HTTP", http), ("stdio", stdio)):
        texts += _section(f"{frontend}: calls that failed", seen.failed)
        texts += _section(f"{frontend}: names out of order", _misnamed(frontend, seen))
        texts += _section(f"{frontend}: tools without a name of their own", _unlisted(originals, seen, notes))
        texts += _section(f"{frontend}: definitions that differ", _different(originals, seen, notes))
    return "\n".join(texts)


def replay_script(catalogs: Path) -> Path:
    """The program that replays the catalogs of this folder.

    Raises:
        RuntimeError: the folder holds no catalogs, or not exactly one script.
    """
    scripts = sorted(catalogs.glob("*.py"))
    if len(scripts) != 1 or not any(catalogs.glob("*.json")):
        raise RuntimeError(f"{catalogs} must hold NAME.json catalogs and one script that replays them")
    return scripts[0].resolve()


def _read(catalogs: Path) -> dict[Tool, dict[str, Any]]:
    found: dict[Tool, dict[str, Any]] = {}
    for path in sorted(catalogs.glob("*.json")):
        for tool in json.loads(path.read_text()).get("tools", ()):
            found[path.stem, tool["name"]] = tool
    return found


def _over_http(config: Path, log: Path) -> Seen:
    began = time.perf_counter()
    with aggregator_over_http(config, log) as (url, pid):
        host = HttpHost(url)
        host.initialize()
        answers = []
        ready = False
        while not ready:
            ready = _ready(url)
            tools, _ = list_tools(host)
            answers.append((time.perf_counter() - began, len(tools)))
        seen = _seen(host, began, answers)
        seen.resident = resident(pid)
        _call_all(host, seen)
        host.close()
    return seen


def _over_stdio(config: Path, expected: int) -> Seen:
    began = time.perf_counter()
    with StdioHost(aggregator_over_stdio(config)) as host:
        host.initialize()
        answers: list[tuple[float, int]] = []
        while not answers or (answers[-1][1] < expected and answers[-1][0] < 60):
            tools, _ = list_tools(host)
            answers.append((time.perf_counter() - began, len(tools)))
        seen = _seen(host, began, answers)
        seen.resident = resident(host.process.pid)
        _call_all(host, seen)
    return seen


def _seen(host: Host, began: float, answers: list[tuple[float, int]]) -> Seen:
    tools, pages = list_tools(host)
    seen = Seen(pages=pages, listed={tool["name"]: tool for tool in tools})
    seen.doubled = len(tools) - len(seen.listed)
    seen.first = f"{answers[0][0]:.2f} s ({answers[0][1]} tools)"
    seen.complete = next((at for at, count in answers if count == len(tools)), time.perf_counter() - began)
    return seen


def _ready(url: str) -> bool:
    try:
        with urlopen(url.replace("/mcp", "/readyz"), timeout=10) as response:  # noqa: S310
            return bool(response.status == 200)
    except HTTPError:
        return False


def _call_all(host: Host, seen: Seen) -> None:
    for name, tool in seen.listed.items():
        answer = host.ask("tools/call", {"name": name, "arguments": arguments(tool["inputSchema"])})
        result = answer.get("result")
        if not isinstance(result, dict):
            outcome = "protocol error"
        elif result.get("isError"):
            outcome = "isError"
        else:
            tool_reached = _reached(result)
            outcome = "ok" if tool_reached else "unreadable"
            if tool_reached:
                seen.stands_for[name] = tool_reached
        seen.outcomes[outcome] += 1
        if outcome != "ok":
            seen.failed.append(f"{name}: {json.dumps(answer, ensure_ascii=False)[:200]}")


def _reached(result: Mapping[str, Any]) -> Tool | None:
    """The tool that says it answered."""
    try:
        said = json.loads(result["content"][0]["text"])
        return str(said["server"]), str(said["tool"])
    except (ValueError, KeyError, IndexError, TypeError):
        return None


def _table(servers: int, tools: int, http: Seen, stdio: Seen) -> Table:
    def row(what: str, of: Any) -> list[str]:
        return [what, str(of(http)), str(of(stdio))]

    rows = [
        row("first `tools/list` answered", lambda seen: seen.first),
        row("first complete `tools/list`", lambda seen: f"{seen.complete:.2f} s"),
        row("tools listed", lambda seen: len(seen.listed)),
        row("upstream tools reached", lambda seen: len(set(seen.stands_for.values()))),
        row("names listed twice", lambda seen: seen.doubled),
        row("tools with two names", lambda seen: len(seen.stands_for) - len(set(seen.stands_for.values()))),
        row(
            "names equal once `.` is `_`",
            lambda seen: len(seen.listed) - len({n.replace(".", "_") for n in seen.listed}),
        ),
        row("longest name", lambda seen: max(map(len, seen.listed), default=0)),
        row("calls", lambda seen: ", ".join(f"{count} {what}" for what, count in seen.outcomes.items())),
        row("list, bytes", lambda seen: f"{sum(seen.pages):,}"),
        row("pages", lambda seen: f"{len(seen.pages)} (largest {max(seen.pages):,} bytes)"),
        row("aggregator RSS", lambda seen: f"{seen.resident:.1f} MiB"),
    ]
    return Table(f"{servers} catalogs, {tools} tools", ("what", "HTTP, dotted names", "stdio, `__` names"), rows)


def _folded(names: Iterable[str]) -> set[str]:
    return {name.replace(".", "_") for name in names}


def _misnamed(frontend: str, seen: Seen) -> list[str]:
    allowed = _CANONICAL if frontend == "HTTP" else _COMPATIBLE
    return [name for name in seen.listed if not allowed.fullmatch(name)]


def _unlisted(originals: Mapping[Tool, Any], seen: Seen, notes: Mapping[Tool, str]) -> Iterator[str]:
    names = Counter(seen.stands_for.values())
    for tool in originals:
        if names[tool] != 1:
            yield f"{'.'.join(tool)}: {names[tool]} names; {notes.get(tool, 'no reason in the log')}"


def _different(originals: Mapping[Tool, Any], seen: Seen, notes: Mapping[Tool, str]) -> Iterator[str]:
    for name, tool in seen.stands_for.items():
        original, shown = originals[tool], {**seen.listed[name], "name": tool[1]}
        keys = [key for key in {**original, **shown} if original.get(key) != shown.get(key)]
        # Equal objects may still differ as text: in the order of keys, or 1.0 for 1.
        if not keys and json.dumps(original) != json.dumps(shown):
            keys = ["only the order of keys, or how a number is written"]
        if keys:
            yield f"{name}: {', '.join(keys)}; {notes.get(tool, 'no reason in the log')}"


def _notes(log: Path) -> dict[Tool, str]:
    """Return the log messages about single tools, by tool."""
    notes: dict[Tool, str] = {}
    for line in log.read_text().splitlines():
        found = re.search(r"(\S+): tool '([^']*)' (?:is|was) (.*)", line)
        if found:
            notes[found[1], found[2]] = found[3]
    return notes


def _section(title: str, lines: Any) -> list[str]:
    lines = list(lines)
    if not lines:
        return []
    more = [f"- ... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [f"### {title}: {len(lines)}", "", *(f"- {line}" for line in lines[:SHOWN]), *more, ""]
