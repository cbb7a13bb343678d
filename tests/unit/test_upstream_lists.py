"""The lists of one upstream, one condition at a time: which errors cost a list, and what a new connection forgets."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.bounds.slices import Slices
from aggregator.domain.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, UpstreamBadAnswer
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.faults import ServerFaults
from aggregator.upstream.list_kinds import LIST_METHODS, Kind
from aggregator.upstream.lists import lists as listing
from aggregator.upstream.lists.lists import UpstreamLists
from aggregator.upstream.redaction import server_redaction
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.wire.peer import PeerGone
from tests.faults.app_harness import server_config

Json = dict[str, Any]
KINDS: Final[tuple[Kind, ...]] = ("tool", "prompt", "resource", "template")
A, B, C = ({"name": name, "uri": name, "uriTemplate": name} for name in "abc")


class ListedServer:
    """A server that answers requests for lists, and the holder of the one session with it."""

    def __init__(self, *, announces: bool = False) -> None:
        self.answers: dict[str, Any] = {}
        self.lost: list[str] = []
        self.calls = 0
        self.busy = False
        offered = {"listChanged": announces}
        capabilities: Json = {name: offered for name in ("tools", "prompts", "resources")}
        negotiated = Negotiated("2025-11-25", capabilities=capabilities)
        self.session: Any = SimpleNamespace(
            negotiated=negotiated, connection=self, envelope={"a": 1}, lists=lambda: {}, over=False
        )
        config = CurrentConfig(server_config("box", type="stdio", command="box"))
        faults = ServerFaults("box")
        redaction = server_redaction(config.value)
        self.lists = UpstreamLists(config, lambda: None, redaction, Slices(), self.examine, faults)

    async def examine(self, kind: Kind, items: list[Any]) -> None:
        """Look at no list."""

    async def request(self, method: str, params: Json) -> Json:
        """Answer with what a test wants, else with one item."""
        answer = self.answers.get(method, [A])
        if isinstance(answer, BaseException):
            raise answer
        field = next((one.field for one in LIST_METHODS.values() if one.method == method), "")
        return answer if isinstance(answer, dict) else {field: answer}

    async def for_lists(self) -> Any:
        """Return the session."""
        return self.session

    def lose(self, session: Any, reason: str) -> None:
        """Note that the session was given up."""
        self.lost.append(reason)

    async def refresh(self, kind: Kind) -> bool:
        """Read a list once more."""
        return await self.lists.refresh(self.session, kind, self)


def rpc(code: int) -> Callable[[], BaseException]:
    return lambda: RpcError(code, "no")


# An error, and whether the list is asked for again soon.
ERRORS: Final[dict[str, tuple[Callable[[], BaseException], bool]]] = {
    "an unknown method": (rpc(METHOD_NOT_FOUND), False),
    "wrong params": (rpc(INVALID_PARAMS), False),
    "an error of its own": (rpc(INTERNAL_ERROR), False),
    "a number of its own": (rpc(-32000), False),
    "nonsense": (lambda: UpstreamBadAnswer("box", "no"), True),
    "a lost connection": (lambda: PeerGone("gone"), True),
    "no answer": (TimeoutError, True),
    "a forgotten session": (SessionExpired, False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ERRORS)
async def test_an_error_leaves_the_list_before_unless_the_server_lacks_the_list(kind: Kind, error: str) -> None:
    """A server that does not know the method has none of these; every other error says nothing of the items."""
    server = ListedServer()
    await server.refresh(kind)
    make, again = ERRORS[error]
    server.answers[LIST_METHODS[kind].method] = make()
    assert await server.refresh(kind) is not again
    lacks = error == "an unknown method" and kind != "tool"
    assert server.lists[kind] == ([] if lacks else [A])
    assert bool(server.lost) == (error == "a forgotten session")


@pytest.mark.parametrize("error", ERRORS)
async def test_a_connection_whose_tools_cannot_be_listed_is_none(error: str) -> None:
    server = ListedServer()
    made = server.answers["tools/list"] = ERRORS[error][0]()
    with pytest.raises(type(made)):
        await server.lists.begin(server.session)
    assert not server.lists.was_read("tool")


async def test_a_new_connection_is_asked_for_changes_anew() -> None:
    """Of one that refused to tell of them, lists are read again by the clock; the next one may tell."""
    server = ListedServer(announces=True)
    await server.lists.begin(server.session)
    await server.refresh("tool")
    assert not server.lists.may_differ("tool")
    server.answers["subscriptions/listen"] = RpcError(METHOD_NOT_FOUND, "no")
    await server.lists.listen(server.session, server)
    assert server.lists.may_differ("tool")
    await server.lists.begin(server.session)
    assert not server.lists.may_differ("tool")


@pytest.mark.parametrize(
    ("before", "cut", "after", "grows"),
    [
        ([A], False, [A, B], True),
        ([A], False, [A], False),
        ([A], False, [B], False),
        ([A, B], False, [A], False),
        ([A], False, [{**A, "title": "other"}, B], False),
        # The rest of a list that came in part was there before.
        ([A], True, [A, B], False),
        ([A, B], True, [A, B], False),
    ],
)
async def test_a_server_grows_if_a_whole_list_has_more_than_the_whole_one_before(
    before: list[Json], cut: bool, after: list[Json], grows: bool
) -> None:
    server = ListedServer()
    server.answers["tools/list"] = before
    await server.lists.begin(server.session)
    await server.refresh("tool")
    if cut:
        server.answers["tools/list"] = {"tools": before, "nextCursor": True}
        await server.refresh("tool")
        assert not server.lists.is_whole("tool")
    server.answers["tools/list"] = after
    await server.refresh("tool")
    assert server.lists.is_whole("tool")
    assert server.lists["tool"] == after
    assert server.lists.grows is grows


async def test_a_list_that_fails_unexpectedly_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(listing, "OTHERS_WAIT", 0.2)
    server = ListedServer()

    async def examine(kind: Kind, items: list[Any]) -> None:
        if kind == "prompt":
            raise LookupError

    server.lists._examine = examine
    await server.lists.begin(server.session)
    for kind in LIST_METHODS:
        if kind == "prompt":
            with pytest.raises(LookupError):
                await server.lists.keep(kind, server)
        elif kind != "tool":
            server.lists._note_read(kind)
    async with asyncio.timeout(10):
        await server.lists.wait_others()
    assert "slow to list" not in caplog.text
