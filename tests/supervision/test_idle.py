"""When an upstream may come to rest, on a clock of its own; and that a question to a person keeps it awake."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import LimitsConfig
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.lifecycle.idle import LAZY_FROM, LAZY_TO, RESTORE_WAIT, IdleStop, lazy_delay
from tests.end_to_end.scripted_host import MODERN, VERSIONS
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.faults.app_harness import BOUND
from tests.peers.serving import BackgroundLoop
from tests.server_requests.entries import ABLE, ANSWERS, FORM, stdio_entry
from tests.server_requests.replies import asked, is_question, reply, resume, text_as_json
from tests.supervision.virtual_clock import VirtualLoop

PATIENT = True
IDLE = 100.0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.close()


class IdleProbe:
    """An `IdleStop` and a task that waits for it."""

    def __init__(self, loop: VirtualLoop, **fields: Any) -> None:
        self.loop = loop
        self.config = CurrentConfig(ServerConfig(id="s", key="s", prefix="s", type="stdio", command="x", **fields))
        self.idle = IdleStop(self.config)
        self.wanted = False

    def waits(self) -> asyncio.Task[None]:
        async def begin() -> asyncio.Task[None]:
            self.idle.begin()
            return asyncio.ensure_future(self.idle.wait_idle(lambda: self.wanted))

        task = self.loop.run_until_complete(begin())
        self.loop.settle()
        return task

    def do(self, work: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return work()

        return self.loop.run_until_complete(run())

    def after(self, seconds: float, task: asyncio.Task[None]) -> bool:
        self.loop.pass_time(seconds)
        return task.done()


def test_use_puts_it_off(loop: VirtualLoop) -> None:
    """Proves: C4. From the end of the last use, however many there are; what lasts is waited for."""
    probe = IdleProbe(loop, limits={"idle_timeout": IDLE})
    task = probe.waits()
    assert not probe.after(90, task)
    uses = [probe.idle.use() for _ in range(2)]
    for use in uses:
        probe.do(use.__enter__)
    assert not probe.after(10 * IDLE, task)
    probe.do(lambda: uses[0].__exit__(None, None, None))
    assert not probe.after(10 * IDLE, task)
    probe.do(lambda: uses[1].__exit__(None, None, None))
    assert not probe.after(99, task)
    probe.do(probe.idle.need)
    assert not probe.after(99, task)
    assert probe.after(2, task)


def test_what_others_want_puts_it_off(loop: VirtualLoop) -> None:
    """Proves: C4, C5"""
    probe = IdleProbe(loop, limits={"idle_timeout": IDLE})
    probe.wanted = True
    task = probe.waits()
    assert not probe.after(10 * IDLE, task)
    probe.wanted = False
    assert probe.after(IDLE, task)


def test_a_question_puts_it_off(loop: VirtualLoop) -> None:
    """Proves: C4. Though no call is under way while a person thinks."""
    probe = IdleProbe(loop, limits={"idle_timeout": IDLE})
    task = probe.waits()
    probe.do(lambda: probe.idle.keep_alive(900))
    assert not probe.after(899, task)
    assert probe.after(2, task)


def test_without_a_time_it_never_stops_until_it_is_given_one(loop: VirtualLoop) -> None:
    """Proves: C4"""
    probe = IdleProbe(loop)
    task = probe.waits()
    assert not probe.after(1e6, task)
    probe.config.value = probe.config.value.model_copy(update={"limits": LimitsConfig(idle_timeout=IDLE)})
    probe.do(probe.idle.reconfigured)
    assert probe.after(0, task)


def test_what_is_started_only_to_learn_it_stops_at_once(loop: VirtualLoop) -> None:
    """Proves: F4. Unless it is needed by then; then it is like any other."""
    probe = IdleProbe(loop)
    probe.idle.stop_once_listed()
    assert probe.waits().done()
    probe = IdleProbe(loop)
    probe.idle.stop_once_listed()
    probe.do(probe.idle.need)
    assert not probe.after(1e6, probe.waits())


def test_a_look_up_is_waited_for_a_moment(loop: VirtualLoop) -> None:
    """Proves: F4. A database that does not answer is as good as none."""
    probe = IdleProbe(loop)

    async def known() -> asyncio.Task[None]:
        return asyncio.ensure_future(probe.idle.wait_restored())

    task = loop.run_until_complete(known())
    assert not probe.after(RESTORE_WAIT - 0.1, task)
    assert probe.after(0.2, task)
    probe.idle.restored()
    assert probe.after(0, loop.run_until_complete(known()))


def test_lazy_ones_do_not_all_come_at_once() -> None:
    assert (lazy_delay(0.0), lazy_delay(1.0)) == (LAZY_FROM, LAZY_TO)


@pytest.mark.parametrize("version", [MODERN, VERSIONS[0]])
async def test_it_stays_while_a_person_thinks(version: str, tmp_path: Path) -> None:
    """Proves: C4. Whether the host waits with its call or comes back later; another server sleeps meanwhile."""
    servers = {name: stdio_entry("modern", limits={"idle_timeout": "100ms"}) for name in ("one", "other")}
    with BackgroundLoop() as background:
        harness = ServerHarness(background, write_config(tmp_path, servers))
        async with harness.host("http", version, capabilities=ABLE) as host:
            params = {"name": "one.ask", "arguments": {"key": "k", "rounds": [[FORM]]}}
            call = host.ask("tools/call", params)
            if version == MODERN:
                interim = await call.result()
            else:
                question = await asked(host)
                assert is_question(question)
            await host.call("other.seen").result()
            async with asyncio.timeout(BOUND):
                while harness.app.upstreams["other"].state == "ready":
                    await host.ask("tools/list").result()
            assert harness.app.upstreams["one"].state == "ready"
            if version == MODERN:
                result = await resume(host, "tools/call", params, interim, [ANSWERS["form"]]).result()
            else:
                await reply(host, question, ANSWERS["form"])
                result = await call.result()
            assert text_as_json(result) == {"answers": [[ANSWERS["form"]]], "begun": 1}
