"""The Streamable HTTP frontend where it decides without the gateway: notifications and batches of a session."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from aggregator.config.settings import HttpConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import HostError
from aggregator.domain.principal import LOCAL
from aggregator.frontends.web.body_limits import BodyLimits
from aggregator.frontends.web.exchange import Exchange
from aggregator.frontends.web.forwarder import Forwarder
from aggregator.frontends.web.host_guard import Message
from aggregator.frontends.web.request_cache import RequestCache
from aggregator.frontends.web.sessions.http_session import HttpSession
from aggregator.frontends.web.sessions.session_table import Sessions
from aggregator.frontends.web.streamable_http import StreamableHttpFrontend
from aggregator.gateway.access import Access
from aggregator.gateway.admission import Admission
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.drain import Drain
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTasks
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.replicas.group.hop_client import HopFailed
from aggregator.wire.codec import decode, encode
from tests.replicas.alone import group_of_one

from .test_sessions import Lists

BOUND = 5


class EmptyGateway:
    """A gateway with nothing behind it: every method is unknown, and notifications are counted."""

    def __init__(self) -> None:
        self.heard = 0

    async def answer(self, host: Host, method: str, params: dict[str, Any], channel: object) -> Mapping[str, Any]:
        raise HostError(-32601, f"Method not found: {method}")

    def on_notification(self, host: Host, method: str, params: Mapping[str, Any]) -> None:
        self.heard += 1


class FrontendUnderTest:
    """A Streamable HTTP frontend with one session of the batch era, and the last answer."""

    def __init__(self) -> None:
        tasks = Tasks("a test")
        room = Admission({"sessions": 10, "streams": 10, "pending": 10}, 1.0)
        sessions = Sessions(ListChanges(Lists()), RevocableTasks(), tasks, room, 100.0)
        self.gateway = EmptyGateway()
        gateway, limits = cast(Dispatcher, self.gateway), BodyLimits(room)
        posts = RequestCache(gateway, cast(Access, None), limits, sessions, tasks)
        forwarder = Forwarder(group_of_one(), Drain())
        config = HttpConfig(names="canonical")
        self.frontend = StreamableHttpFrontend(gateway, config, limits, sessions, posts, tasks, forwarder)
        self.session: HttpSession = sessions.open(self._host())

    @staticmethod
    def _host() -> Host:
        return Host("http", "canonical", version="2025-03-26", initialized=True)

    async def post(self, message: Any) -> tuple[int, Any]:
        """Status and body of the answer to one post."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": encode(message)}

        async def send(part: Message) -> None:
            sent.append(part)

        headers = {b"content-type": b"application/json", b"mcp-session-id": self.session.id.encode()}
        async with asyncio.timeout(BOUND):
            await self.frontend.serve(
                LOCAL, {"type": "http", "method": "POST", "headers": list(headers.items())}, receive, send
            )
        body = b"".join(part.get("body", b"") for part in sent)
        return sent[0]["status"], decode(body) if body else None


class FakeExchange:
    """A fake exchange that records whether it was cancelled."""

    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def _cancel(request_id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}


@pytest.mark.parametrize("request_id", [[], {}, [1], None, True, "1", 2])
async def test_cancelling_what_does_not_run_is_taken_and_does_nothing(request_id: Any) -> None:
    frontend = FrontendUnderTest()
    running = FakeExchange()
    frontend.session.running[1] = cast(Exchange, running)
    assert await frontend.post(_cancel(request_id)) == (202, None)
    assert not running.cancelled


async def test_cancelling_what_runs() -> None:
    """Proves: A8"""
    frontend = FrontendUnderTest()
    running = FakeExchange()
    frontend.session.running["a"] = cast(Exchange, running)
    assert await frontend.post(_cancel("a")) == (202, None)
    assert running.cancelled


async def test_a_batch_has_the_answers_of_its_requests_only() -> None:
    """Proves: F1"""
    frontend = FrontendUnderTest()
    notification = {"method": "notifications/initialized"}
    status, answers = await frontend.post(
        [notification, {"id": 1, "method": "a"}, 7, {"id": "b", "method": []}, notification]
    )
    assert status == 200
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32601), ("b", -32600)]
    assert frontend.gateway.heard == 2


async def test_a_batch_of_notifications_only_is_taken() -> None:
    assert await FrontendUnderTest().post([{"method": "notifications/initialized"}]) == (202, None)


class Counting(dict[str, Any]):
    """A message that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return super().__eq__(other)

    __hash__ = None


async def test_taking_a_batch_apart_is_linear_work() -> None:
    """One post may hold a hundred thousand messages; comparing each with each would stop the whole process."""
    frontend = FrontendUnderTest()
    requests = [Counting(id=number, method="x") for number in range(100)]
    notifications = [Counting(method="notifications/x", params={"n": number}) for number in range(100)]

    async def send(part: Message) -> None:
        assert part["type"].startswith("http.response")

    await frontend.frontend._post_batch(frontend.session, [*requests, *notifications], {}, send)
    assert frontend.gateway.heard == 100
    assert Counting.compared <= 200


async def test_the_fields_that_a_forwarded_request_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: those that its answer depends on, the ones of one name as one; none that is a credential."""
    group = group_of_one()
    taken: dict[str, str] = {}

    @asynccontextmanager
    async def request(
        owner: str, path: str, body: bytes, claims: object, headers: Mapping[str, str], method: str
    ) -> AsyncIterator[None]:
        taken.update(headers)
        raise HopFailed("it is gone", sent=True)
        yield

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(part: Message) -> None:
        raise AssertionError(part)

    monkeypatch.setattr(group.hop_client, "request", request)
    fields = [
        ("accept", "application/json"),
        ("authorization", "Bearer secret"),
        ("x-api-key", "secret"),
        ("cookie", "secret"),
        ("mcp-method", "tools/call"),
        ("accept", "text/event-stream"),
        ("x-user-id", "ada"),
        ("x-other", "other"),
    ]
    scope = {"type": "http", "method": "POST", "headers": [(name.encode(), value.encode()) for name, value in fields]}
    with pytest.raises(HopFailed):
        await Forwarder(group, Drain()).pass_on("0" * 16, "/http", b"{}", LOCAL, scope, receive, send)
    assert taken == {"accept": "application/json, text/event-stream", "mcp-method": "tools/call", "x-user-id": "ada"}
