"""The work that follows from one change of the catalog: once for it, and not once for each server, session or tool."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.catalog import ServerTools, server_tools_steps
from aggregator.catalog.search.document import document
from aggregator.catalog.search.postings import Postings
from aggregator.domain.bounds.slices import at_once
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.gateway.host import Host
from aggregator.gateway.views.list_changed import ListChanges, Seen
from aggregator.pins.decide.flags import KnownTool, OtherServers, ToolIndex
from aggregator.pins.gateway.book import PinBook
from tests.bounds.work import Work
from tests.search.sample_index import tool

# See `test_work_of_a_call`.
GROWTH: Final = 1.03
SESSIONS: Final = 300
AGENTS: Final = 3
# Sessions whose lists are compared in one turn of the loop at most.
IN_A_TURN: Final = 50


class CountedTool:
    """A tool that counts how often it is compared with another one."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedTool.compared += 1
        return self is other

    __hash__ = None  # type: ignore[assignment]


class CountedLists:
    """The lists of agents, which count how often they are worked out. Those of `late` agents have to be prepared."""

    def __init__(self) -> None:
        self.tools: tuple[object, ...] = tuple(CountedTool() for _ in range(100))
        self.late: set[str] = set()
        self.made: Counter[str] = Counter()
        self.prepared: Counter[str] = Counter()

    def key_of(self, host: Host) -> str:
        return host.principal.agent_id

    def is_ready(self, host: Host) -> bool:
        return self.key_of(host) not in self.late

    async def prepare(self, host: Host) -> None:
        await asyncio.sleep(0)
        self.prepared[self.key_of(host)] += 1
        self.late.discard(self.key_of(host))

    def lists_of(self, host: Host) -> Seen:
        self.made[self.key_of(host)] += 1
        return {"tools": (self.key_of(host), self.tools), "prompts": ()}


class Sessions:
    """Sessions that listen, those that were notified, and the most of these in one turn of the loop."""

    def __init__(self, lists: CountedLists, changes: ListChanges) -> None:
        self._changes = changes
        self.hosts = [Host("http", None, Principal(f"a{at % AGENTS}")) for at in range(SESSIONS)]
        self.told: list[int] = []
        self.most_in_turn = self._in_turn = 0
        for host in self.hosts:
            # Each has asked for its list, which is an object of its own then.
            self._changes.attach(host)
            self._changes.record_sent(host, "tools", (lists.key_of(host), lists.tools))

    def listen(self) -> Iterator[None]:
        """Open a stream for each host."""
        with ExitStack() as streams:
            for at, host in enumerate(self.hosts):
                streams.enter_context(self._changes.listen(host, ("tools",), lambda _, at=at: self._note(at)))
            yield

    def _note(self, at: int) -> None:
        self.told.append(at)
        self._in_turn += 1
        self.most_in_turn = max(self.most_in_turn, self._in_turn)

    async def notified(self) -> None:
        """Return once all of them have been compared."""
        self.told, self.most_in_turn = [], 0
        self._changes._notify()
        notifying = self._changes._notifying
        assert notifying is not None
        while not notifying.done():
            self._in_turn = 0
            await asyncio.sleep(0)
        notifying.result()


@pytest.mark.parametrize("late", [False, True])
async def test_sessions_of_an_agent_share_the_work_of_a_change(late: bool) -> None:
    """Their lists are made and compared once in a turn of the loop for all of them, and no turn is for many."""
    lists = CountedLists()
    changes = ListChanges(lists)
    sessions = Sessions(lists, changes)
    for _ in sessions.listen():
        await sessions.notified()
        assert sessions.told == []

        lists.made.clear()
        CountedTool.compared = 0
        lists.tools = (*lists.tools[:-1], CountedTool())
        lists.late = {f"a{at}" for at in range(AGENTS)} if late else set()
        await sessions.notified()
        assert sorted(sessions.told) == list(range(SESSIONS))
        assert 0 < sessions.most_in_turn <= IN_A_TURN
        # The sessions, and their streams.
        turns = 2 * SESSIONS // IN_A_TURN + AGENTS * late
        assert max(lists.made.values()) <= turns
        assert 0 < CountedTool.compared <= 2 * AGENTS * turns
        assert sorted(lists.prepared.values()) == [1] * AGENTS * late

        await sessions.notified()
        assert sessions.told == []


async def test_agents_with_other_lists_are_compared_for_themselves() -> None:
    """One whose list did not change is not notified, whoever stands before it."""
    lists = CountedLists()
    shown = {f"a{at}": lists.tools for at in range(AGENTS)}
    made = lists.lists_of
    lists.lists_of = lambda host: {**made(host), "tools": (lists.key_of(host), shown[lists.key_of(host)])}  # type: ignore[method-assign]
    changes = ListChanges(lists)
    sessions = Sessions(lists, changes)
    for _ in sessions.listen():
        await sessions.notified()
        shown["a1"] = (*lists.tools, CountedTool())
        await sessions.notified()
        assert sorted(sessions.told) == list(range(1, SESSIONS, AGENTS))


async def test_who_leaves_while_lists_are_prepared_is_not_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = CountedLists()
    changes = ListChanges(lists)
    told: list[int] = []
    with ExitStack() as streams:
        for at in range(IN_A_TURN + 1):
            host = Host("http", None, Principal("a0"))
            streams.enter_context(changes.listen(host, ("tools",), lambda _, at=at: told.append(at)))

        async def leave(host: Host) -> None:
            streams.close()
            lists.late.clear()

        monkeypatch.setattr(lists, "prepare", leave)
        lists.tools, lists.late = (), {"a0"}
        changes._notify()
        assert changes._notifying is not None
        await changes._notifying
    assert not lists.late
    assert told == []


def _postings(servers: int, tools: int = 10) -> Postings:
    """Return postings of servers whose tools have the same words: so many of each, ten of `s5`."""
    words = ["create", "issue", "repository", "branch", "weather", "pump"]
    return Postings().added(
        {
            f"s{at}": [
                document(tool(f"s{at}.t{own}", " ".join(words[own % 6 :])), f"s{at}")
                for own in range(tools if at != 5 else 10)
            ]
            for at in range(servers)
        }
    )


def test_a_server_that_goes_costs_what_it_has_itself() -> None:
    """Its terms are cut out of the lists of all, which are not gone through: copying them is no work of ours."""
    spent = []
    for tools in (5, 300):
        postings = _postings(10, tools)
        for _ in range(2):
            work = Work()
            with work.counted():
                left = postings.removed({"s5"})
        assert work.is_whole
        spent.append(work.total)
        assert "s5" not in left.ranges
        assert [name for name in left.names if name.startswith("s5.")] == []
    assert 0 < spent[1] <= spent[0] * GROWTH


def test_of_most_servers_those_that_stay_are_taken_over() -> None:
    """Taking out is for the fewer; what is left answers as if the others had never been there."""
    postings = _postings(12)
    for gone in ({f"s{at}" for at in range(11)}, {f"s{at}" for at in range(0, 12, 2)}, {"s3", "s4", "s9"}):
        left = postings.removed(gone)
        stay = [server for server in postings.ranges if server not in gone]
        assert list(left.ranges) == stay
        for server in stay:
            there = left.ranges[server]
            assert left.names[there.start : there.stop] == [f"{server}.t{own}" for own in range(10)]
        for term, posting in left.lists.items():
            having = [at for at, one in enumerate(left.documents) if one is not None and term in one.impacts]
            assert list(posting.slots) == having, term
            assert list(posting.impacts) == [left.documents[at].impacts[term] for at in having]  # type: ignore[union-attr]
    assert not postings.removed(set(postings.ranges)).lists


def _words(server: int, own: int) -> str:
    return f"Return what tool {own} of the server with number {server} has"


def _parts(servers: int, tools: int) -> dict[str, ServerTools]:
    return {
        f"s{at}": at_once(server_tools_steps(tool(f"s{at}.t{own}", _words(at, own)) for own in range(tools)))
        for at in range(servers)
    }


def test_look_alikes_are_looked_for_among_what_changed() -> None:
    """The tools of all servers are gone through once, and then those of a server whose tools are others."""
    spent = []
    for tools in (3, 100):
        parts, book = _parts(20, tools), PinBook()
        book.set_tools(parts.values())
        at_once(book._others_steps("s1"))
        for _ in range(2):
            parts["s5"] = _parts(6, 3)["s5"]
            work = Work()
            with work.counted():
                book.set_tools(parts.values())
                others = at_once(book._others_steps("s1"))
        assert work.is_whole
        spent.append(work.total)
        assert [others.looks_like("other", _words(5, own)) for own in (2, 3)] == [True, False]
        assert others.looks_like("other", _words(6, 2))
        assert not others.looks_like("other", _words(1, 2))
    assert 0 < spent[1] <= spent[0] * GROWTH


NAMES: Final = st.sampled_from(["get_user", "get-user", "get_usеr", "delete", "list"])
SAID: Final = st.sampled_from(["", "Return one user by the id of its account", "Delete what is there"])
SHOWN: Final = st.lists(st.builds(tool, st.builds("{}.{}".format, st.just("x"), NAMES), SAID), max_size=4)
CHANGES: Final = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), SHOWN), max_size=8)


@given(CHANGES)
def test_an_index_that_changed_is_as_a_new_one(changes: list[tuple[str, int, list[ToolRecord]]]) -> None:
    """Servers come, change and go, also while tools are being taken in; nothing is left of what they had before."""
    index, now = ToolIndex(), dict[str, list[KnownTool]]()
    for server, steps, shown in changes:
        now[server] = [KnownTool(server, one.own_name, (f"{server}.{one.own_name}",), _said(one)) for one in shown]
        index.put(server, now[server])
        # Some of the work is done before the next change.
        list(islice(index.steps(), steps))
    at_once(index.steps())
    fresh = ToolIndex(known for tools in now.values() for known in tools)
    at_once(fresh.steps())
    assert index.by_shape == fresh.by_shape
    assert index.by_words == fresh.by_words
    assert index.by_exposed == fresh.by_exposed


def _said(one: ToolRecord) -> str:
    return str(one.definition.get("description", ""))


def test_what_was_before_is_found_until_the_new_is() -> None:
    """A look-alike is not missed because its server's tools are being taken in."""
    before = [KnownTool("a", "one", ("a.one",), ""), KnownTool("a", "two", ("a.two",), "")]
    index = ToolIndex()
    index.put("a", before)
    at_once(index.steps())
    index.put("a", [*before[:1], KnownTool("a", "three", ("a.three",), "")])
    others = OtherServers(index, "b")
    steps, going_on = index.steps(), True
    while going_on:
        assert others.names_other("a.one")
        assert others.names_other("a.two") or others.names_other("a.three")
        going_on = next(steps, "end") != "end"
    assert not others.names_other("a.two")
