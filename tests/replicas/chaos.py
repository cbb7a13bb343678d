"""Chaos over three replicas: `python -m tests.replicas.chaos [--seed N] [--calls N] [--faults N]`; ends with 1 if a law
was broken.

Hosts of both eras call through a balancer while replicas are killed, frozen, cut off from the database and given a
clock that is five minutes off, and the database is restarted or replaced by its standby. The laws: a call whose
connection stood is answered, once; none is made twice; each answer has one row in the audit; the log verifies.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from sqlalchemy import select

from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.call_log import USER_KEY
from aggregator.storage.database import open_database
from aggregator.storage.tables import mcp_tool_call_log
from tests.end_to_end.programs import environment
from tests.end_to_end.server_harness import ROOT
from tests.peers.serving import serving
from tests.postgres.cluster import Cluster, running_cluster
from tests.postgres.programs import NOT_RUN, find_programs
from tests.replicas.balancer import Balancer, balancer
from tests.replicas.breakable_relay import BreakableRelay

Json = dict[str, Any]

FAULTS: Final = ("kill", "freeze", "long freeze", "hold", "cut", "restart database", "replace database")
SKEWS: Final = (0, 300, -300)
# Sets the wall clock off, as `$CHAOS_SKEW` says.
_SKEWED: Final = Path(__file__).with_name("skewed")
_ADDRESS: Final = re.compile(r"Streamable HTTP at (http://\S+)/mcp")
_PATIENCE: Final = 90.0
MODERN: Final = "2026-07-28"
_HELLO: Final[Json] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "0"}}
_ACCEPT: Final = {"accept": "application/json, text/event-stream"}


@dataclass(slots=True)
class ChaosOutcome:
    """The calls of a run and how they ended. `broken` are the laws that were broken."""

    made: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answered: dict[str, str] = field(default_factory=dict)
    cut_off: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


class CountingServer:
    """A server over Streamable HTTP that counts how often each call was made."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        parts = []
        while True:
            event = await receive()
            parts.append(event.get("body", b""))
            if event["type"] != "http.request" or not event.get("more_body"):
                break
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await self._respond(send, 405, b"")
            return
        message = json.loads(b"".join(parts))
        if "id" not in message:
            await self._respond(send, 202, b"")
            return
        body = {"jsonrpc": "2.0", "id": message["id"], **self._answer(message)}
        await self._respond(send, 200, json.dumps(body).encode())

    def _answer(self, message: Json) -> Json:
        match message["method"]:
            case "initialize":
                given = message["params"]["protocolVersion"]
                info = {"name": "counting", "version": "1"}
                return {"result": {"protocolVersion": given, "capabilities": {"tools": {}}, "serverInfo": info}}
            case "tools/list":
                return {"result": {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}}
            case "tools/call":
                said = message["params"]["arguments"]["say"]
                self.made[said] += 1
                return {"result": {"content": [{"type": "text", "text": said}]}}
            case "ping":
                return {"result": {}}
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}

    async def _respond(self, send: Any, status: int, body: bytes) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class ChaosReplica:
    """One process, with its own way to the database and its own clock."""

    def __init__(self, number: int, folder: Path, relay: BreakableRelay, storage: str) -> None:
        self.number = number
        self.relay = relay
        self.url = ""
        self.frozen = False
        self._folder = folder
        self._storage = storage
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    async def start(self) -> None:
        """Start the process, and wait until it listens."""
        self._starts += 1
        skew = SKEWS[self.number % len(SKEWS)]
        environ = environment(CHAOS_STORAGE=self._storage, CHAOS_SKEW=str(skew))
        environ["PYTHONPATH"] = os.pathsep.join((str(_SKEWED), environ["PYTHONPATH"]))
        log = self._folder / f"replica-{self.number}-{self._starts}.log"
        command = [
            sys.executable,
            "-m",
            "aggregator",
            "serve",
            "-c",
            str(self._folder / "aggregator.json"),
            "--port",
            "0",
        ]
        with log.open("wb") as file:
            self._process = await asyncio.to_thread(
                subprocess.Popen, command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, stderr=file
            )

        def found() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, log.read_text()[-3000:]
            named = _ADDRESS.search(log.read_text())
            self.url = named[1] if named is not None else ""
            return named is not None

        await _until(found, f"replica {self.number} listens")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        assert self._process is not None
        self.frozen = number == signal.SIGSTOP
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    async def end(self) -> None:
        """Ask the process to end; kill it if it does not."""
        if self._process is None or self._process.poll() is not None:
            return
        self.send(signal.SIGCONT)
        self._process.terminate()
        try:
            await _until(lambda: self._process is not None and self._process.poll() is not None, "it ends")
        finally:
            self.kill()


async def _until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        await asyncio.sleep(0.02)


class Chaos:
    """One run."""

    def __init__(self, seed: int, calls: int, faults: int, folder: Path, long_freeze: float) -> None:
        self.outcome = ChaosOutcome()
        self._chance = random.Random(seed)  # noqa: S311
        self._calls = calls
        self._wanted_faults = faults
        self._folder = folder
        self._long_freeze = long_freeze
        self._replicas: list[ChaosReplica] = []
        self._server = CountingServer()
        self._names = iter(range(calls))

    async def run(self) -> ChaosOutcome:
        """Make the calls while things go wrong, then hold what came of it against the laws."""
        programs = find_programs()
        assert programs is not None, NOT_RUN
        async with AsyncExitStack() as stack:
            cluster = stack.enter_context(running_cluster(programs))
            url = await stack.enter_async_context(serving(self._server))
            front = stack.enter_context(balancer(self._folder / "nginx", next_upstream="error"))
            await stack.enter_async_context(self._started(cluster, url, front))
            await self._rush(front, cluster, stack)
            for replica in self._replicas:
                replica.relay.heal()
            await self._settled()
            # What waits to be written is written on the way out.
            for replica in self._replicas:
                await replica.end()
            await self._judge()
        return self.outcome

    @asynccontextmanager
    async def _started(self, cluster: Cluster, url: str, front: Balancer) -> AsyncIterator[None]:
        database = cluster.new_database()
        servers = {"web": {"type": "http", "url": f"{url}/mcp"}}
        content = {"mcpServers": servers, "storage": "${CHAOS_STORAGE}", "expose": "all"}
        content |= {"audit": {"durability": "strict"}}
        (self._folder / "aggregator.json").write_text(json.dumps(content))
        (self._folder / "aggregator.json").chmod(0o600)
        async with AsyncExitStack() as stack:
            for number in range(3):
                relay = await stack.enter_async_context(BreakableRelay(cluster.port))
                storage = cluster.url(database).replace(f":{cluster.port}/", f":{relay.port}/")
                replica = ChaosReplica(number, self._folder, relay, storage)
                self._replicas.append(replica)
                stack.push_async_callback(replica.end)
            await asyncio.gather(*(replica.start() for replica in self._replicas))
            front.use([replica.url for replica in self._replicas])
            await self._settled()
            yield

    # -- calls

    async def _rush(self, front: Balancer, cluster: Cluster, stack: AsyncExitStack) -> None:
        timeout = aiohttp.ClientTimeout(total=_PATIENCE)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as http:
            workers = [asyncio.create_task(self._work(http, front.url, modern=number % 2 == 0)) for number in range(12)]
            trouble = asyncio.create_task(self._trouble(front, cluster, stack))
            await asyncio.wait([*workers, trouble], return_when=asyncio.FIRST_EXCEPTION)
            for task in (*workers, trouble):
                if task.done():
                    task.result()
            await asyncio.gather(*workers)
            trouble.cancel()
            await asyncio.gather(trouble, return_exceptions=True)

    async def _work(self, http: aiohttp.ClientSession, url: str, *, modern: bool) -> None:
        headers = dict(_ACCEPT)
        for number in self._names:
            name = f"call-{number}"
            self.outcome.made += 1
            try:
                if not modern and "mcp-session-id" not in headers:
                    await self._greet(http, url, headers)
                self._note(name, *await self._call(http, url, headers, name, modern=modern))
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                # Its replica was killed or frozen, so that the connection is over.
                self.outcome.cut_off.add(name)
                self.outcome.ends[f"cut off: {type(error).__name__}"] += 1

    async def _greet(self, http: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> None:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO}
        async with http.post(f"{url}/mcp", json=hello, headers=headers) as answer:
            if answer.status == 200:
                headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with http.post(f"{url}/mcp", json=note, headers=headers):
            pass

    async def _call(
        self, http: aiohttp.ClientSession, url: str, headers: dict[str, str], name: str, *, modern: bool
    ) -> tuple[int, Json]:
        meta: Json = {USER_KEY: name}
        if modern:
            meta |= {META_VERSION: MODERN, META_CLIENT_CAPABILITIES: {}}
            headers = {**headers, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "web.do"}
        params = {"name": "web.do", "arguments": {"say": name}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}
        began = time.monotonic()
        async with http.post(f"{url}/mcp", json=message, headers=headers) as answer:
            body = await answer.read()
        self.outcome.waits.append(time.monotonic() - began)
        if answer.content_type == "text/event-stream":
            datas = re.findall(rb"^data: ([^\r\n]+)\r?$", body, re.MULTILINE)
            found = [one for one in map(json.loads, datas) if one.get("id") == name]
            if not found:
                raise aiohttp.ClientPayloadError("the stream ended without an answer")
            return answer.status, found[-1]
        return answer.status, json.loads(body) if answer.content_type == "application/json" else {}

    def _note(self, name: str, status: int, message: Json) -> None:
        result = message.get("result")
        if status in (502, 504):
            self.outcome.cut_off.add(name)
            end = f"nginx: {status}"
        elif result is None:
            end = f"{status} {json.dumps(message.get('error'))[:100]}"
            self.outcome.answered[name] = end
        elif result.get("isError"):
            end = str(((result.get("_meta") or {}).get("aggregator/error") or {}).get("code"))
            self.outcome.answered[name] = end
        else:
            end = "result"
            self.outcome.answered[name] = end
            if result["content"][0]["text"] != name:
                self.outcome.broken.append(f"{name} got the answer of another call: {result}")
        self.outcome.ends[end] += 1

    # -- what goes wrong

    async def _trouble(self, front: Balancer, cluster: Cluster, stack: AsyncExitStack) -> None:
        share = max(1, self._calls // (self._wanted_faults + 1))
        standby: Cluster | None = None
        for number in range(self._wanted_faults):
            await _until(lambda at=(number + 1) * share: self.outcome.made >= at, "calls go on")
            kind, replica = FAULTS[number % len(FAULTS)], self._chance.choice(self._replicas)
            self.outcome.faults[kind] += 1
            print(f"{self.outcome.made:>7} calls: {kind}, replica {replica.number}", flush=True)
            match kind:
                case "kill":
                    replica.kill()
                    await replica.start()
                    front.use([one.url for one in self._replicas])
                case "freeze" | "long freeze":
                    # The balancer is told, as its health checks would: what was under way there is cut off.
                    replica.send(signal.SIGSTOP)
                    front.use([one.url for one in self._replicas if one is not replica])
                    await asyncio.sleep(self._long_freeze if kind == "long freeze" else 0.2 + self._chance.random() * 4)
                    replica.send(signal.SIGCONT)
                    front.use([one.url for one in self._replicas])
                case "hold":
                    replica.relay.hold()
                    await asyncio.sleep(0.5 + self._chance.random() * 6)
                    replica.relay.heal()
                case "cut":
                    replica.relay.cut()
                case "restart database":
                    await asyncio.to_thread(cluster.restart)
                case "replace database" if standby is None:
                    standby = stack.enter_context(cluster.standby())
                    await asyncio.to_thread(cluster.stop, signal.SIGQUIT)
                    await asyncio.to_thread(standby.promote)
                    for one in self._replicas:
                        one.relay.target = standby.port
                        one.relay.cut()
                    cluster = standby

    async def _settled(self) -> None:
        """Wait until every replica is ready and its audit is written."""

        async def ready() -> bool:
            async with aiohttp.ClientSession() as http:
                for replica in self._replicas:
                    async with http.get(f"{replica.url}/readyz") as answer:
                        details = await answer.json()
                        if answer.status != 200 or {"audit", "keys"} & details.keys():
                            return False
            return True

        deadline = time.monotonic() + _PATIENCE
        while not await ready():
            assert time.monotonic() < deadline, "in vain: every replica is ready"
            await asyncio.sleep(0.1)

    # -- the laws

    async def _judge(self) -> None:
        storage = self._replicas[0]._storage
        rows = Counter(await self._rows(storage))
        broken = self.outcome.broken
        for name, end in self.outcome.answered.items():
            if rows[name] != 1 and not end.startswith(("4", "5")):
                broken.append(f"{name} ({end}) has {rows[name]} rows in the audit")
        broken += [f"{name} was cut off and has {rows[name]} rows" for name in self.outcome.cut_off if rows[name] > 1]
        broken += [f"{name} was made {count} times" for name, count in self._server.made.items() if count > 1]
        results = {name for name, end in self.outcome.answered.items() if end == "result"}
        lost = [name for name in results if not self._server.made[name]]
        broken += [f"{name} has a result and was never made" for name in lost]
        command = ("-m", "aggregator", "audit", "verify", "-c", str(self._folder / "aggregator.json"))
        verified = await asyncio.to_thread(
            subprocess.run, (sys.executable, *command), cwd=ROOT, env=environment(CHAOS_STORAGE=storage),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if verified.returncode != 0:
            broken.append(f"the audit does not verify: {verified.stdout[-500:]} {verified.stderr[-500:]}")

    async def _rows(self, storage: str) -> list[str]:
        async with open_database(storage) as database, database.engine.read() as connection:
            return list((await connection.execute(select(mcp_tool_call_log.c.user_id))).scalars())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.replicas.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--faults", type=int, default=14)
    parser.add_argument("--long-freeze", type=float, default=60.0, help="seconds of the longest freeze")
    return parser.parse_args()


def main() -> int:
    """Run it once, and say what came of it."""
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
    began = time.monotonic()
    outcome = asyncio.run(Chaos(options.seed, options.calls, options.faults, folder, options.long_freeze).run())
    waits = sorted(outcome.waits)
    print(f"{outcome.made} calls in {time.monotonic() - began:.0f} s, longest {waits[-1]:.1f} s; files in {folder}")
    print(f"faults: {dict(outcome.faults)}")
    print(f"ends: {dict(outcome.ends.most_common())}")
    for broken in outcome.broken[:50]:
        print(f"BROKEN: {broken}")
    print(f"{len(outcome.broken)} laws broken")
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
