"""A chaos run of the whole application, by a seed that fixes the faults, their times and the calls.

Each round is first calm and then stormy: the same calls of the same hosts, the second time with upstreams that die,
hang, lie, flood and come back. So what the storm costs those who have nothing to do with it shows within one run.
"""

import asyncio
import gc
import os
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import HealthConfig
from aggregator.config.settings import HttpConfig
from aggregator.frontends.server import WebServer, listening_socket, serve_web
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.process import process
from aggregator.upstream.sessions import negotiate
from aggregator.upstream.transports import http as http_transport
from aggregator.upstream.transports import sse as sse_transport
from aggregator.upstream.transports import stdio as stdio_transport
from aggregator.upstream.upstream import Upstream
from tests.chaos.call_history import CallHistory
from tests.chaos.faulty_web import FaultyHttpServer, FaultySseServer
from tests.chaos.hosts import BOUND, Host, hosts
from tests.faults.raw_http import RawHttpServer

SCRIPT: Final = Path(__file__).with_name("faulty_stdio.py")
FAULTS: Final = (
    "slow", "slow", "hang", "die", "close", "garbage", "garble", "wrong_id",
    "twice", "huge", "notes", "notes", "stderr", "ask", "error",
)  # fmt: skip
STEADY: Final = ("steady_pipe", "steady_web", "steady_local")
WILD: Final = ("wild_pipe", "wild_web", "wild_modern", "wild_sse", "wild_local")
LARGEST: Final = 2 * 2**20
_GIVEN_UP: Final = 0.05
_WORKERS: Final = 2
_LOOK: Final = 0.01

# Waiting times, shortened: every upstream has to come back within a short run. The ratios stay.
_IMPATIENCE: Final = (
    (sse_transport, "HEARTBEAT", 1.0),
    (backoff, "FIRST", 0.02),
    (backoff, "CAP", 0.3),
    (backoff, "REFUSED_FIRST", 0.1),
    (backoff, "REFUSED_CAP", 0.3),
    (negotiate, "PROBE_TIMEOUT", 0.5),
    (process, "TERM_GRACE", 0.5),
    (http_transport, "RETRY_DELAY", 0.02),
    (stdio_transport, "NOISE_PAUSE", 0.02),
)


@dataclass(slots=True)
class IdleState:
    """The resources in use between two rounds, when no call runs."""

    objects: Counter[str]
    tasks: int
    descriptors: int
    memory: int
    busy: list[str]


@dataclass(slots=True)
class Outcome:
    """The outcome of a run. Latencies are in seconds, of calls of the upstreams without faults."""

    seed: int
    ledger: CallHistory = field(default_factory=CallHistory)
    calm: list[float] = field(default_factory=list)
    stormy: list[float] = field(default_factory=list)
    quiets: list[IdleState] = field(default_factory=list)
    answered: dict[str, bool] = field(default_factory=dict)
    rows: Counter[str] = field(default_factory=Counter)
    back: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)

    def quantiles(self, part: float) -> tuple[float, float]:
        """Return the latency that `part` of the calls do not exceed (0.5: the median), without and with faults."""
        return quantile(self.calm, part), quantile(self.stormy, part)

    def unrecorded(self) -> list[str]:
        """Calls without exactly one row in the audit; one that was given up may not have come in at all."""
        return [name for name, answered in self.answered.items() if not answered <= self.rows[name] <= 1]


def quantile(values: list[float], part: float) -> float:
    """The value that `part` of them do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class ChaosRun:
    """One application, its upstreams, and the faults."""

    def __init__(self, seed: int, folder: Path, calls: int) -> None:
        self.outcome = Outcome(seed)
        self._folder = folder
        self._calls = calls
        self._upstreams: list[Upstream] = []
        self._webs: dict[str, RawHttpServer] = {
            "steady_web": FaultyHttpServer(modern=False),
            "wild_web": FaultyHttpServer(modern=False),
            "wild_modern": FaultyHttpServer(modern=True),
            "wild_sse": FaultySseServer(),
        }

    async def run(self, enough: Callable[[int], bool]) -> Outcome:
        """Rounds until `enough` says so of their number."""
        with _impatient(), _only_ours():
            async with AsyncExitStack() as stack:
                for web in self._webs.values():
                    await web.start()
                    stack.push_async_callback(web.stop)
                app, url = await stack.enter_async_context(self._product())
                self._upstreams = list(app.upstreams.values())
                async with hosts(app, url, self.outcome.ledger) as everybody:
                    await self._half(app, everybody, "first", [], wild=False)
                    done = 0
                    while not enough(done):
                        for taken, wild in ((self.outcome.calm, False), (self.outcome.stormy, True)):
                            quiet = await self._half(app, everybody, str(done), taken, wild=wild)
                        self.outcome.quiets.append(quiet)
                        done += 1
                    await self._all_back(app, everybody[0])
                    self.outcome.quiets.append(await self._quiet(app))
        self._read_rows()
        return self.outcome

    @asynccontextmanager
    async def _product(self) -> AsyncIterator[tuple[App, str]]:
        config = Config(servers=tuple(self._servers()), startup_wait=1, http=HttpConfig(port=0))
        app = build_app(config, None, f"sqlite+aiosqlite:///{self._folder / 'storm.db'}", keeps_records=True)
        web = WebServer(app.gateway, config, app.access, app.report)
        stopping = asyncio.Event()
        with listening_socket("127.0.0.1", 0) as bound:
            async with app.running():
                serving = asyncio.create_task(serve_web(web, bound, stopping))
                await app.supervisor.wait_all_tried(BOUND)
                try:
                    yield app, f"http://127.0.0.1:{bound.getsockname()[1]}"
                finally:
                    stopping.set()
                    await serving

    def _servers(self) -> Iterator[ServerConfig]:
        for name in (*STEADY, *WILD):
            fields: dict[str, Any] = {"id": name, "key": name, "prefix": name}
            limits: dict[str, Any] = {"max_message_bytes": LARGEST}
            if name in STEADY:
                fields["timeout"], limits["connect_timeout"] = BOUND, BOUND
            else:
                fields["timeout"] = 0.4
                limits |= {"connect_timeout": 2, "reconnect_wait": 0.3}
                fields["health"] = HealthConfig(interval=0.5, timeout=0.5)
            if name in self._webs:
                fields |= {"type": "sse" if name == "wild_sse" else "http", "url": self._webs[name].url}
            elif name.endswith("pipe"):
                env = {"WILD_PIDS": str(self._folder / name)}
                fields |= {"type": "stdio", "command": sys.executable, "args": ("-I", "-S", str(SCRIPT)), "env": env}
            else:
                fields |= {"type": "local", "target": "tests.chaos.faulty_local:build"}
            yield ServerConfig(**fields, limits=limits)

    # -- half a round

    async def _half(
        self, app: App, everybody: tuple[Host, ...], part: str, taken: list[float], *, wild: bool
    ) -> IdleState:
        """The calls of all hosts, and the quiet after them."""
        weather = asyncio.create_task(self._weather(part)) if wild else None
        workers = [self._work(host, f"{part}/{one}", taken, wild) for host in everybody for one in range(_WORKERS)]
        await asyncio.gather(*workers)
        if weather is not None:
            weather.cancel()
            await asyncio.gather(weather, return_exceptions=True)
            await self._clear_up()
        quiet = await self._quiet(app)
        self.outcome.answered |= self.outcome.ledger.close()
        return quiet

    async def _work(self, host: Host, part: str, taken: list[float], wild: bool) -> None:
        """The calls of one worker: the same ones in both halves of a round, but for what goes wrong."""
        chance = random.Random(f"{self.outcome.seed}/{host.frontend}/{part}")  # noqa: S311
        for _ in range(self._calls):
            steady, fault = chance.random() < 0.5, chance.choice(FAULTS)
            server = chance.choice(STEADY if steady else WILD)
            seconds, leaves, patience = chance.random() / 20, chance.random() < _GIVEN_UP, chance.random() / 50
            # Few workers, so that calls do not only wait for each other.
            await asyncio.sleep(chance.random() / 20)
            fault_now = fault if wild and not steady else None
            name = self.outcome.ledger.open(host.frontend, server, fault_now)
            arguments = {"say": name, "fault": fault_now, "seconds": seconds} if fault_now else {"say": name}
            began = time.perf_counter()
            call = asyncio.create_task(host.call(name, f"{server}.do", arguments))
            await asyncio.wait([call], timeout=patience if leaves else BOUND)
            if not call.done():
                if not leaves:
                    self._hangs(name)
                call.cancel()
            await asyncio.wait([call])
            if not call.cancelled() and (error := call.exception()) is not None:
                self.outcome.ledger.problems.append(f"{name} ended for its host with {error!r}")
            elif steady and not leaves:
                taken.append(time.perf_counter() - began)

    def _hangs(self, name: str) -> None:
        """Record what runs instead of a call without an answer."""
        upstreams = ", ".join(f"{upstream} {upstream._idle.uses}" for upstream in self._upstreams)
        tasks = "; ".join(sorted(str(task.get_coro()) + str(task.get_stack(limit=1)) for task in asyncio.all_tasks()))
        called = self.outcome.ledger.calls[name]
        self.outcome.ledger.problems.append(f"{name} has no answer: {called}; {upstreams}; {tasks}")

    async def _weather(self, part: str) -> None:
        """Disturb the faulty upstreams from outside until cancelled."""
        chance = random.Random(f"{self.outcome.seed}/weather/{part}")  # noqa: S311
        while True:
            await asyncio.sleep(0.02 + chance.random() / 10)
            kind = chance.choice(("down", "down", "killed", "frozen"))
            self.outcome.ledger.faults[kind] += 1
            if kind == "down":
                web = self._webs[chance.choice(("wild_web", "wild_modern", "wild_sse"))]
                await web.stop()
                await asyncio.sleep(chance.random() / 10)
                await web.start()
            elif pids := self._pids("wild_pipe"):
                await self._hit(pids[-1], kind, chance.random() / 5)

    async def _clear_up(self) -> None:
        """Restore every upstream, wherever the disturbance was interrupted."""
        for pid in self._pids("wild_pipe"):
            _signal(pid, signal.SIGCONT)
        for web in self._webs.values():
            if web._server is None or not web._server.is_serving():
                await web.start()

    async def _hit(self, pid: int, kind: str, seconds: float) -> None:
        if kind == "killed":
            _signal(pid, signal.SIGKILL)
        else:
            _signal(pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            _signal(pid, signal.SIGCONT)

    def _pids(self, name: str) -> list[int]:
        path = self._folder / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    # -- between and after the rounds

    async def _all_back(self, app: App, host: Host) -> None:
        """Call every wild upstream until it answers."""
        ledger = self.outcome.ledger
        for server in WILD:
            upstream, until = app.upstreams[server], time.monotonic() + BOUND
            while server not in self.outcome.back and time.monotonic() < until:
                name = ledger.open(host.frontend, server, None)
                await host.call(name, f"{server}.do", {"say": name})
                result = ledger.calls[name].answers[0].get("result")
                if result is not None and not result.get("isError"):
                    self.outcome.back.append(server)
                else:
                    await asyncio.sleep(0.02)
            if server not in self.outcome.back:
                ledger.problems.append(f"{server} does not come back: {upstream}")
        self.outcome.answered |= ledger.close()

    async def _quiet(self, app: App) -> IdleState:
        """Wait until nothing is under way, and look at what there is."""
        audit = app.telemetry.audit
        assert audit is not None
        for _ in range(int(BOUND / _LOOK)):
            busy = _busy(app)
            if not busy and not audit.report()["waiting"]:
                break
            await asyncio.sleep(_LOOK)
        gc.collect()
        # asyncio keeps up to a hundred timers that were cancelled, until it is worth its while to drop them.
        living = (one for one in gc.get_objects() if not (type(one) is asyncio.TimerHandle and one.cancelled()))
        objects = Counter(
            f"{kind.__module__}.{kind.__qualname__}"
            for kind in map(type, living)
            if str(kind.__module__).startswith(("aggregator.", "asyncio", "_asyncio"))
        )
        return IdleState(objects, len(asyncio.all_tasks()), descriptors(), resident(), busy)

    def _read_rows(self) -> None:
        self.outcome.pids = [pid for name in ("steady_pipe", "wild_pipe") for pid in self._pids(name)]
        with closing(sqlite3.connect(self._folder / "storm.db")) as database:
            for name, count in database.execute("SELECT user_id, COUNT(*) FROM mcp_tool_call_log GROUP BY user_id"):
                self.outcome.rows[name] = count


def _busy(app: App) -> list[str]:
    """Return the parts that still have work, as texts."""
    busy = [f"{name}: {upstream.in_flight} in flight" for name, upstream in app.upstreams.items() if upstream.in_flight]
    return busy + [f"{app.gateway.admission}"] * (app.gateway.admission.in_use["pending"] > 0)


@contextmanager
def _impatient() -> Iterator[None]:
    before = [(module, name, getattr(module, name)) for module, name, _ in _IMPATIENCE]
    try:
        for module, name, value in _IMPATIENCE:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@contextmanager
def _only_ours() -> Iterator[None]:
    """Keep objects from before the run out of garbage collection: scanning them is slow and says nothing."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def descriptors() -> int:
    """Return the number of open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def resident() -> int:
    """Return the resident memory of this process in bytes; 0 where the system does not say."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0
