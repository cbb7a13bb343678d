"""What goes on for a caller that is let in no more, where it cannot be seen from outside: nothing stays behind."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.frontends.web.event_stream import UnreadBytes
from aggregator.frontends.web.exchange import Exchange
from aggregator.frontends.web.host_guard import Message
from aggregator.gateway.ask.parked_calls import ParkedCall, ParkedCalls
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTasks
from tests.polling import until

BOUND = 5


async def test_a_stream_that_is_written_elsewhere_ends_with_its_request() -> None:
    """Proves: D4. Whole, and at once; nothing is written to it later."""
    sent: list[Message] = []
    gone, streaming = asyncio.Event(), asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(message)
        if len(sent) == 2:
            streaming.set()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def answer(exchange: Exchange) -> None:
        async with exchange:
            exchange.notify("notifications/message", {})
            await asyncio.Event().wait()

    unread = UnreadBytes()
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        exchange = Exchange(1, receive, send, tasks, modern=True, unread=unread)
        request = asyncio.create_task(answer(exchange))
        await streaming.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
        # The task that wrote it is on its way out.
        await asyncio.sleep(0)
        assert len(tasks) == 0
    assert (unread.size, len(unread._streams)) == (0, 0)


def test_each_key_and_token_of_an_agent_ends_its_own_work() -> None:
    """Proves: D4. The newest first, and also if one piece cannot be ended; the rest goes on."""
    tokens = [TokenFacts("https://issuer", "ann", text=text) for text in ("first", "second")]
    principals = [Principal("ann", token=one) for one in tokens]
    principals += [Principal("ann", key_id="k1"), Principal("ann", key_id="k2"), Principal("bob", key_id="k1")]
    for lost in principals:
        tasks, ended = RevocableTasks(), list[tuple[Principal, int]]()

        def end(principal: Principal, number: int, ended: list[tuple[Principal, int]] = ended) -> None:
            ended.append((principal, number))
            if number == 1:
                raise RuntimeError("a bug")

        going = [(one, n, tasks.add(one, partial(end, one, n))) for n in range(3) for one in principals]
        tasks.review(lambda one, lost=lost: one is not lost)  # type: ignore[misc]
        assert ended == [(lost, 2), (lost, 1), (lost, 0)]
        assert all(task.revoked is (one is lost) for one, _, task in going)
        for _, _, task in going:
            tasks.remove(task)
            tasks.remove(task)
        tasks.review(lambda one: False)
        assert (len(ended), len(tasks), tasks._by_caller) == (3, 0, {})


@pytest.mark.parametrize("attended", [False, True])
async def test_a_parked_call_is_told_of_once(attended: bool) -> None:
    """Proves: D4, D9. By the request that attends it; by nobody else if none does."""
    admitted, told = RevocableTasks(), list[Any]()
    parking = ParkedCalls(admitted)
    host = Host("http", "canonical", Principal("one", key_id="k"))
    behind = SimpleNamespace(host=host, channel=None, token=None, parked=None, agent="one")
    called = cast(RequestCaller, behind)

    async def work() -> dict[str, Any]:
        await cast(Any, behind.parked)("elicitation/create", {})
        await asyncio.Event().wait()
        return {}

    async with asyncio.timeout(BOUND), parking.tasks:
        call = ParkedCall(parking, called, work, told.append)
        assert await call.wait() is None
        (question,) = call.leave(60.0)
        if attended:
            call.come_back(called, {question: {"action": "accept"}})
            request = asyncio.create_task(call.wait())
            await asyncio.sleep(0)
            request.cancel()
        admitted.review(lambda principal: False)
        assert told == ([] if attended else [None])
        assert parking.get(call.id) is None
        assert len(admitted) == 0


async def test_a_parked_call_that_is_over_is_left() -> None:
    """Proves: D4. One that has its result holds nothing."""
    admitted = RevocableTasks()
    parking = ParkedCalls(admitted)
    host = Host("http", "canonical", Principal("one", key_id="k"))
    behind = SimpleNamespace(host=host, channel=None, token=None, parked=None, agent="one")

    async def work() -> dict[str, Any]:
        answer: dict[str, Any] = await cast(Any, behind.parked)("elicitation/create", {})
        return answer

    async with asyncio.timeout(BOUND), parking.tasks:
        call = ParkedCall(parking, cast(RequestCaller, behind), work, lambda outcome: None)
        assert await call.wait() is None
        (question,) = call.leave(60.0)
        assert len(admitted) == 1
        call.come_back(cast(RequestCaller, behind), {question: {"action": "accept"}})
        assert await call.wait() is not None
        assert len(admitted) == 0


async def test_the_calls_that_wait_for_a_host_end_with_its_session() -> None:
    """Also those that came with a token of their own; those of another host wait on."""
    admitted = RevocableTasks()
    parking = ParkedCalls(admitted)
    host, other = (Host("http", "canonical", Principal("one", key_id=key), session=key) for key in ("k", "l"))
    newer = host.of_request("tools/call", Principal("one", token=TokenFacts("https://issuer", "one")))
    assert newer is not host

    async def work(behind: Any) -> dict[str, Any]:
        await behind.parked("elicitation/create", {})
        return {}

    async with asyncio.timeout(BOUND), parking.tasks:
        calls = []
        for one in (host, newer, other):
            behind: Any = SimpleNamespace(host=one, channel=None, token=None, parked=None, agent="one")
            calls.append(ParkedCall(parking, behind, partial(work, behind), lambda outcome: None))
            assert await calls[-1].wait() is None
            calls[-1].leave(60.0)
        parking.left(host)
        assert [parking.get(call.id) is not None for call in calls] == [False, False, True]
        assert (len(parking), len(admitted)) == (1, 1)
        await parking.close()


async def test_a_call_that_its_host_came_back_to_does_not_expire() -> None:
    """However long it takes then; one that its host does not come back to ends, and is on record."""
    parking, told = ParkedCalls(RevocableTasks()), list[Any]()
    host = Host("http", "canonical", Principal("one", key_id="k"))

    async def work(behind: Any) -> dict[str, Any]:
        await behind.parked("elicitation/create", {})
        return {}

    async with asyncio.timeout(BOUND), parking.tasks:
        calls = []
        for _ in range(2):
            behind: Any = SimpleNamespace(host=host, channel=None, token=None, parked=None, agent="one")
            calls.append(ParkedCall(parking, behind, partial(work, behind), told.append))
            assert await calls[-1].wait() is None
        for call in calls:
            call.leave(0.0)
        calls[0].come_back(calls[0].caller, {})
        await until(lambda: told)
        assert [parking.get(call.id) is not None for call in calls] == [True, False]
        assert told == [None]
        await parking.close()
