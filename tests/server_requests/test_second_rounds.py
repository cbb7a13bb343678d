"""Second rounds with a server of 2026-07-28 that keeps what its question was about: they go to the process that asked.

The asking server refuses a `requestState` that it did not make.
"""

import os
import signal
from typing import Any

import pytest

from aggregator.upstream.sessions.side_connection import SideConnection
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.end_to_end.server_harness import FRONTENDS, ServerHarness
from tests.polling import until
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, stdio_entry
from tests.server_requests.replies import ask_and_answer, resume, text_as_json
from tests.server_requests.test_one_call_at_a_time import ROADS, accept, answers_in, asking, request


def sides(harness: ServerHarness) -> list[SideConnection]:
    return list(harness.app.upstreams["one"]._isolated._sides)


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("frontend", FRONTENDS)
async def test_an_answer_goes_to_the_process_that_asked(
    open_harness: OpenHarness, frontend: str, road: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The free process with the lowest number got it, and knew nothing of the question."""
    monkeypatch.setattr("aggregator.upstream.sessions.request.HEEDED_WITHIN", 0.05)
    harness = open_harness({"one": stdio_entry("modern", isolation="per_session")})
    async with harness.host(frontend, MODERN, capabilities=ABLE) as host:
        held = host.call("one.hold", {"key": key}, progressToken=1)
        await host.inbox.named("notifications/progress")
        method, params = request(road, f"{key} asks", 2)
        interim = await host.ask(method, params).result()
        # The process with the lowest number is free again.
        await host.wire.cancel(held)
        held.drop()
        await until(lambda: len(sides(harness)) == 2 and all(side.free for side in sides(harness)))
        for number in range(2):
            interim = await resume(host, method, params, interim, [accept(str(number))]).result()
        assert answers_in(interim) == [[accept("0")], [accept("1")]]


async def test_an_answer_goes_there_beside_another_call(open_harness: OpenHarness, key: str) -> None:
    """In this era a request of a host says which question it answers, so it need not be alone."""
    harness = open_harness({"one": stdio_entry("modern", isolation="per_session")})
    async with harness.host("http", MODERN, capabilities=ABLE) as host:
        params = asking(key)
        interim = await host.ask("tools/call", params).result()
        held = host.call("one.hold", {"key": f"{key} held"}, progressToken=1)
        await host.inbox.named("notifications/progress")
        done = await resume(host, "tools/call", params, interim, [accept("me")]).result()
        assert text_as_json(done)["answers"] == [[accept("me")]]
        assert len(sides(harness)) == 1
        await host.wire.cancel(held)
        held.drop()


async def test_a_host_of_a_handshake_is_asked_by_one_process(open_harness: OpenHarness, key: str) -> None:
    """Each round of a call goes where the one before went."""
    harness = open_harness({"one": stdio_entry("modern", isolation="per_session")})
    async with harness.host("http", LEGACY[-1], capabilities=ABLE) as host:
        done, _ = await ask_and_answer(host, "tools/call", asking(key, 3), [[accept("me")]] * 3)
        assert text_as_json(done)["answers"] == [[accept("me")]] * 3


async def test_a_process_that_asked_stays_while_a_person_thinks(open_harness: OpenHarness, key: str) -> None:
    """`limits.idle_timeout` ended it with its question; another that nothing waits for still ends."""
    limits = {"idle_timeout": 0.1}
    harness = open_harness({"one": stdio_entry("modern", isolation="per_session", limits=limits)})
    async with harness.host("http", MODERN, capabilities=ABLE) as host:
        held = host.call("one.hold", {"key": key}, progressToken=1)
        await host.inbox.named("notifications/progress")
        params = asking(f"{key} asks")
        interim = await host.ask("tools/call", params).result()
        await host.wire.cancel(held)
        held.drop()
        await until(lambda: len(sides(harness)) == 1, "the other process has ended")
        done = await resume(host, "tools/call", params, interim, [accept("me")]).result()
        assert text_as_json(done)["answers"] == [[accept("me")]]


async def test_an_answer_for_a_process_that_is_gone_goes_to_another(open_harness: OpenHarness, key: str) -> None:
    """What that one answers reaches the host: a server that keeps nothing goes on, this one says what is wrong."""
    harness = open_harness({"one": stdio_entry("modern", isolation="per_session")})
    async with harness.host("http", MODERN, capabilities=ABLE) as host:
        params = asking(key)
        interim = await host.ask("tools/call", params).result()
        session: Any = sides(harness)[0].session
        os.kill(session.connection.child.pid, signal.SIGKILL)
        await until(lambda: not sides(harness), "it has ended")
        error = await resume(host, "tools/call", params, interim, [accept("me")]).error()
        assert error["message"] == "That is no state of mine."
