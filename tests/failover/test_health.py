"""Servers that fall silent, are slow, or are busy: real ones, asked by the product itself."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest

from aggregator.config.server_parts import HealthConfig
from aggregator.domain.errors import (
    ERROR_META_KEY,
    HostError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamRpcError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.domain.missing import LoginRequired
from aggregator.upstream.credentials import NoTokenNow
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.health import health
from aggregator.upstream.health.health import KEPT, WINDOW, Health, LatencyWindow, is_silence
from tests.faults.app_harness import (
    BOUND,
    AppHarness,
    Json,
    code_of,
    lines_of,
    raw_stdio,
    running_app,
    server_config,
    text_of,
)
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, never, raw_http
from tests.peers.back_channel import FakeBackChannel
from tests.polling import until

QUICK: Final = HealthConfig(interval=0.05, timeout=0.15, failures=2)


def pid(log: Path) -> int:
    """The process of a raw server that was started last."""
    return int([line for line in lines_of(log) if line.startswith("start")][-1].split()[1])


@contextmanager
def stopped(number: int) -> Iterator[None]:
    """A process hangs inside: it neither answers nor ends."""
    os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGCONT)


async def silent(harness: AppHarness, name: str) -> None:
    await until(lambda: not harness.upstream(name).health.answers, f"{name} is found out")


async def answers(harness: AppHarness, name: str) -> None:
    await until(lambda: harness.upstream(name).health.answers, f"{name} answers again")


async def test_a_server_that_hangs_is_found_out_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: C18, D7. Nobody has to call it for that; calls are then answered at once, and it is told when it is
    tried again. The others do not notice."""
    monkeypatch.setattr(health, "TRIALS", 1_000_000)
    log = tmp_path / "log"
    async with running_app(raw_stdio("maps", log=log, health=QUICK), raw_stdio("time")) as harness:
        noted: list[str] = []
        monkeypatch.setattr(
            harness.app.telemetry, "record_event", lambda kind, said, **more: noted.append(f"{kind}: {said}")
        )
        await harness.check_echo("maps.echo")
        with stopped(pid(log)):
            await silent(harness, "maps")
            refusal = await harness.call("maps.echo", say="now")
            await harness.check_echo("time.echo")
            assert code_of(refusal) == "upstream_unavailable"
            details = refusal["_meta"][ERROR_META_KEY]
            assert details["retryable"] is True
            assert details["retry_after"] >= 1
            assert "maps does not answer: 2 requests in a row got no answer" in refusal["content"][0]["text"]
            assert "maps.echo" in harness.tools(), "it is connected, so its tools stay"
            listed = text_of(await harness.call("list_servers"))
            assert "maps (ready" in listed
            assert "[it does not answer; " in listed
            report = harness.app.report()[1]["servers"]
            assert report["maps"]["health"]["circuit"] != "closed"
            assert report["time"]["health"]["circuit"] == "closed"
        await works(harness, "maps")
        assert len([line for line in lines_of(log) if line.startswith("start")]) == 1, "it is the same process"
        assert noted[0].startswith("upstream_state: maps is silent: it does not answer; ")
        assert "upstream_state: maps is ready" in noted
    told = [record.message for record in caplog.records if "maps" in record.message]
    assert any("server maps does not answer (2 requests in a row)" in line for line in told)


async def test_a_connection_that_stays_silent_is_made_anew() -> None:
    """Proves: C18, C4. A process that hangs, or a session that is stuck, does not come back by itself."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url, health=QUICK)) as harness:
        before = raw.count("initialize")
        raw.on["ping"] = never
        await until(lambda: raw.count("initialize") > before, "there is another session")
        raw.on.clear()
        await works(harness, "web")


async def test_a_call_under_way_is_not_taken_away(tmp_path: Path) -> None:
    """Proves: C18. A server that works on something, and answers nothing meanwhile, is left to it."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("maps", log=log, health=QUICK, timeout=1.2)) as harness:
        with stopped(pid(log)):
            result = await harness.call("maps.echo", say="it takes its time")
            assert code_of(result) == "upstream_timeout"
            assert harness.upstream("maps").health.circuit.trials >= health.TRIALS
            assert harness.upstream("maps").reconnects == 0


async def works(harness: AppHarness, name: str) -> None:
    """Wait until calls of the server are answered; on a busy machine it may have been found silent again."""
    async with asyncio.timeout(BOUND):
        while "isError" in await harness.call(f"{name}.echo", say="hello"):
            await answers(harness, name)


async def _progress(seen: ReceivedRequest, reply: ReplyWriter) -> None:
    """Reports progress for longer than a silent server would be given."""
    token = seen.message["params"]["_meta"]["progressToken"]
    await reply.stream()
    for step in range(18):
        params = {"progressToken": token, "progress": step}
        await reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await pause(0.05)
    await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": {"content": []}})


async def pause(seconds: float) -> None:
    """The raw server takes its time."""
    await asyncio.sleep(seconds)


async def test_a_busy_server_is_not_a_dead_one() -> None:
    """Proves: C18, D7. Checks that it has no time for do not count while a call makes progress."""
    async with raw_http() as raw:
        raw.on |= {"ping": never, "tools/call": _progress}
        often = HealthConfig(interval=0.02, timeout=0.3, failures=2)
        web = server_config("web", type="http", url=raw.url, health=often)
        async with running_app(web) as harness:
            asked = {"name": "web.echo", "arguments": {}, "_meta": {"progressToken": "p"}}
            assert "isError" not in await harness.ask("tools/call", asked)
            assert raw.count("ping") > 0
            assert harness.upstream("web").health.circuit.opened == -inf, "it never opened"


class SlowAnsweringHost(FakeBackChannel):
    """A host whose person takes their time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.ready = asyncio.Event(), asyncio.Event()

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.set()
        await self.ready.wait()
        return {"action": "decline"}


async def test_one_that_waits_for_a_person_is_tried_when_that_has_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C18, C4. Though it answers no call meanwhile; the trial that is due then costs the others nothing."""
    monkeypatch.setattr(health, "PERSON", 0.02)
    cut = HealthConfig(failures=1)
    async with running_app(raw_stdio("maps", health=cut, timeout=0.2), raw_stdio("time")) as harness:
        harness.host.capabilities = {"elicitation": {}}
        person, circuit = SlowAnsweringHost(), harness.upstream("maps").health.circuit
        form = {"message": "Which town?", "requestedSchema": {"type": "object", "properties": {}}}
        question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}
        call = asyncio.create_task(harness.call("maps.ask", person, questions=[question]))
        async with asyncio.timeout(BOUND):
            await person.asked.wait()
        assert code_of(await harness.call("maps.hang")) == "upstream_timeout"
        await until(lambda: circuit.due(monotonic()), "a trial is due")
        for _ in range(5):
            await pause(0.01)
            await harness.check_echo("time.echo")
        assert circuit.position == "open"
        person.ready.set()
        assert "decline" in text_of(await call)
        await works(harness, "maps")


async def test_what_stands_before_a_server_is_not_the_server() -> None:
    """Proves: C18. 503 to everything: calls are answered at once after a few, and go through once it is over."""

    async def away(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(503, "no backend")

    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url, health=QUICK)) as harness:
        raw.on |= {"ping": away, "tools/call": away}
        await silent(harness, "web")
        before = raw.count("tools/call")
        assert code_of(await harness.call("web.echo")) == "upstream_unavailable"
        assert raw.count("tools/call") == before, "no call is the trial"
        raw.on.clear()
        await works(harness, "web")


async def test_a_server_of_2026_is_asked_what_it_knows() -> None:
    """Proves: C18. That era has no ping."""
    async with raw_http() as raw:
        raw.modern = True
        async with running_app(server_config("web", type="http", url=raw.url, health=QUICK)) as harness:
            before = raw.count("server/discover")
            await until(lambda: raw.count("server/discover") > before + 1, "it is asked")
            assert harness.upstream("web").health.ping is not None
            raw.on["server/discover"] = never
            await silent(harness, "web")
            assert raw.count("ping") == 0


async def test_without_checks_one_call_is_the_trial() -> None:
    """Proves: C18. Where the operator wants no checks, calls alone tell how a server is."""
    async with raw_http() as raw:
        off = HealthConfig(enabled=False, failures=2)
        async with running_app(server_config("web", type="http", url=raw.url, health=off, timeout=0.1)) as harness:
            raw.on["tools/call"] = never
            for _ in range(2):
                assert code_of(await harness.call("web.echo")) == "upstream_timeout"
            circuit = harness.upstream("web").health.circuit
            assert not harness.upstream("web").health.answers
            await until(lambda: circuit.due(monotonic()), "a trial is due")
            assert code_of(await harness.call("web.echo")) == "upstream_timeout"
            assert raw.count("tools/call") == 3
            raw.on.clear()
            await until(lambda: circuit.due(monotonic()), "the next one is due")
            await harness.check_echo("web.echo")
            assert harness.upstream("web").health.answers
            assert raw.count("ping") == 0


async def test_a_trial_that_its_host_gave_up_leaves_room_for_the_next() -> None:
    """Proves: C18. Where calls alone are trials, one that was cancelled has told nothing, and must not be the last."""
    async with raw_http() as raw:
        off = HealthConfig(enabled=False, failures=1)
        async with running_app(server_config("web", type="http", url=raw.url, health=off, timeout=0.2)) as harness:
            raw.on["tools/call"] = never
            assert code_of(await harness.call("web.echo")) == "upstream_timeout"
            circuit = harness.upstream("web").health.circuit
            await until(lambda: circuit.due(monotonic()), "a trial is due")
            trial = asyncio.create_task(harness.call("web.echo"))
            await until(lambda: raw.count("tools/call") == 2, "the trial was sent")
            trial.cancel()
            await asyncio.wait([trial])
            raw.on.clear()
            await harness.check_echo("web.echo")
            assert harness.upstream("web").health.answers


ERRORS: dict[str, tuple[BaseException, bool | None]] = {
    "time-out": (UpstreamTimeout("a", "late"), True),
    "connection": (UpstreamLost("a", "gone"), True),
    "unreachable": (UpstreamUnavailable("a", "nobody"), True),
    "502": (UpstreamHttpStatus("a", "502", status=502), True),
    "500": (UpstreamHttpStatus("a", "500", status=500), False),
    "429": (UpstreamHttpStatus("a", "429", status=429), False),
    "its own error": (UpstreamRpcError("a", -32000, "no"), False),
    "refused": (UpstreamRefused("a", "401"), False),
    "nonsense": (UpstreamBadAnswer("a", "<html>"), False),
    "ours": (HostError(-32602, "too deep"), None),
    "given up": (KeyboardInterrupt(), None),
    # Of the server of its tokens; nothing was sent to it.
    "no token now": (NoTokenNow("a", "its issuer is away"), None),
    "no account": (LoginRequired("a", "connect one"), None),
}


@pytest.mark.parametrize("what", ERRORS)
def test_what_counts_as_silence(what: str) -> None:
    """Proves: C18. Errors that a server answers with are answers."""
    error, silence = ERRORS[what]
    assert is_silence(error) is silence


class Clock:
    """The clock of the health module, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(health, "monotonic", lambda: self.now)


def made(**fields: Any) -> Health:
    config = server_config("maps", type="stdio", command="true", health=HealthConfig(**fields))
    return Health(CurrentConfig(config), lambda: None)


async def test_who_answers_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C18. Every answer puts the next check off by the interval, a little more or less; silence brings it."""
    clock, watched = Clock(monkeypatch), made(interval=30)
    for _ in range(20):
        clock.now += 20
        watched.answered(watched.begin())
        assert watched.due is not None
        assert 0.75 * 30 <= watched.due - clock.now <= 1.25 * 30
    began = watched.begin()
    clock.now += 20
    watched.failed(began, UpstreamTimeout("maps", "late"))
    assert watched.due is not None
    assert watched.due - clock.now < 1
    assert made(enabled=False).due is None


async def test_slow_is_told_apart_from_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C18, D7. Calls that take too long, of a server that answers otherwise, do not cut it off."""
    clock, watched = Clock(monkeypatch), made(failures=1)
    for number in range(10):
        began = watched.begin()
        clock.now += 2
        watched.on_message()
        clock.now += 3
        if number % 3:
            watched.answered(began)
        else:
            watched.failed(began, UpstreamTimeout("maps", "late"))
    assert watched.answers
    assert watched.problem() == "slow: 4 of its last 10 calls were not answered in time"
    assert watched.summary() == "calls of the last 5 minutes: 10, p50 5 s, p95 5 s, p99 5 s; 4 were not answered"
    assert watched.report() == {
        "circuit": "closed", "slow": True, "ping": None, "calls": 10, "failed": 4, "p50": 5.0, "p95": 5.0, "p99": 5.0,
    }  # fmt: skip
    clock.now += WINDOW + 1
    assert (watched.problem(), watched.summary()) == ("", "")


async def test_a_call_that_its_host_gave_up_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, watched = Clock(monkeypatch), made(failures=1)
    began = watched.begin()
    clock.now += 60
    watched.failed(began, UpstreamError("maps", "x"))
    assert not watched.answers
    with pytest.raises(UpstreamUnavailable):
        watched.begin()
    other = made(failures=1)
    other.failed(other.begin(), KeyboardInterrupt())
    assert other.answers
    assert other.report()["calls"] == 0


def test_percentiles_are_of_a_bounded_number_of_recent_calls() -> None:
    vitals = LatencyWindow()
    for number in range(10 * KEPT):
        vitals.add(float(number), number / 1000, False)
    figures = vitals.figures(10.0 * KEPT)
    assert figures.calls == min(KEPT, WINDOW)
    times = dict(figures.times)
    assert times["p50"] < times["p95"] < times["p99"] < 10 * KEPT / 1000
    assert times["p50"] > (10 * KEPT - WINDOW) / 1000


async def test_the_details_of_a_server_say_how_it_is(tmp_path: Path) -> None:
    """Proves: C18. For models in `list_servers`, for programs in the report and the metrics."""
    async with running_app(raw_stdio("maps")) as harness:
        for _ in range(3):
            await harness.check_echo("maps.echo")
        details = text_of(await harness.call("list_servers", server="maps"))
        assert "calls of the last 5 minutes: 3, p50 " in details
        found: Json = harness.app.report()[1]["servers"]["maps"]["health"]
        assert (found["calls"], found["failed"], found["circuit"]) == (3, 0, "closed")
        lately = harness.app.snapshot().upstreams["maps"].lately
        assert (lately.calls, lately.failed) == (3, 0)
        assert dict(lately.times)["p99"] < 5


async def test_a_server_over_http_that_stopped_is_seen_without_a_call() -> None:
    """Proves: C18, C4."""
    web = RawHttpServer()
    async with raw_http(web), running_app(server_config("web", type="http", url=web.url, health=QUICK)) as harness:
        await web.stop()
        await until(lambda: harness.upstream("web").state != "ready", "it is seen")
        await web.start()
        await until(lambda: harness.upstream("web").state == "ready", "it is back")
        await works(harness, "web")
