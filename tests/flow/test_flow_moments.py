"""Flow labels at single moments, each condition by itself: what a scope takes over, what a row or a clear changes, what
waits with a question. The database is one in memory, and the clock is moved by hand.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pytest

from aggregator.domain.call_record import CallRecord, RecordedCaller, TraceContext
from aggregator.domain.decision import Decision
from aggregator.domain.errors import INVALID_REQUEST, RpcError
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.domain.trace_context import begin
from aggregator.flow.decide.decide_flow import LabelSource, ToolFlow
from aggregator.flow.gateway.call_flow import AskedFlow, CallFlow, owner_of_labels, scope_of
from aggregator.flow.gateway.guard import FlowGuard
from aggregator.flow.gateway.questions import QuestionFlow
from aggregator.flow.gateway.refusals import FlowDenied, FlowUnknown
from aggregator.flow.gateway.scopes import RESUMED_WITHIN, SESSION_LASTS, ScopeKey, ScopeOwner, Scopes
from aggregator.flow.gateway.states import FlowStates
from aggregator.flow.storage import LISTED, FlowClear, FlowRow
from aggregator.gateway.host import Host
from aggregator.storage.engine.change_mark import ChangeMark
from aggregator.storage.errors import StorageBusy, StorageError
from tests.flow.flow_harness import MovedClock, policies
from tests.policy.build import book
from tests.polling import until

NOW: Final = 1_800_000_000.0
DECAY: Final = 1_800.0
ADA: Final = ScopeOwner("ada", "k1", None)
BOB: Final = ScopeOwner("bob", "k2", None)
SESSION: Final = ScopeKey(ADA, "session", "one")
TRACE: Final = ScopeKey(ADA, "trace", "t")
KEY: Final = ScopeKey(ADA, "key")


def source(at: float, tool: str = "web.fetch") -> LabelSource:
    return LabelSource(tool, NOW + at, "t")


def row(
    key: ScopeKey, at: float, *, first: float | None = None, lasts: float = DECAY, label: str = "untrusted"
) -> FlowRow:
    began = at if first is None else first
    return FlowRow(
        key.digest, label, key.owner.agent_id, key.kind, key.shown, "row", "t", NOW + began, NOW + at, NOW + at + lasts
    )


def bring(scopes: Scopes, key: ScopeKey, at: float, *labels: str) -> None:
    scopes.bring(key, labels or {"untrusted"}, source(at), DECAY)


def is_loaded(scopes: Scopes, key: ScopeKey) -> bool:
    found = scopes.find(key)
    return found is not None and found[0].loaded and found[1].loaded


def told(scopes: Scopes, key: ScopeKey, at: float) -> dict[str, float]:
    """The labels of a scope, and when they were brought last."""
    return {label: found.at - NOW for label, found in scopes.state(key, NOW + at).items()}


# -- what a scope takes over from its key


@pytest.mark.parametrize(
    ("brought", "opened", "asked", "counts"),
    [(0.0, 10.0, 20.0, True), (10.0, 10.0, 20.0, True), (15.0, 10.0, 20.0, False), (0.0, 10.0, DECAY + 1, False)],
)
@pytest.mark.parametrize("kind", ["trace", "session that takes over", "session that listed"])
def test_what_is_taken_over(kind: str, brought: float, opened: float, asked: float, counts: bool) -> None:
    """What the key knew when the scope was opened, as long as that is known of the key."""
    scopes, key = Scopes(stored=False), TRACE if kind == "trace" else SESSION
    if brought <= opened:
        bring(scopes, KEY, brought)
    if kind == "trace":
        scopes.open(key, NOW + opened)
    else:
        scopes.begin(key, NOW + opened, takes_over=kind == "session that takes over")
    if brought > opened:
        bring(scopes, KEY, brought)
    assert told(scopes, key, asked) == ({"untrusted": brought} if counts and kind != "session that listed" else {})
    # What it reads itself counts in any case, and is said to come from there.
    bring(scopes, key, 21.0)
    assert told(scopes, key, 22.0) == {"untrusted": 21.0}


@pytest.mark.parametrize(
    ("steps", "takes_over"),
    [
        (["calls"], True),
        (["lists", "calls"], False),
        (["calls", "lists"], True),
        (["calls", "lists", "calls"], True),
        (["lists elsewhere", "calls"], False),
        (["calls", "lists elsewhere"], True),
        (["called, listed before elsewhere"], False),
        (["calls as listed"], False),
    ],
)
def test_which_sessions_take_over(steps: list[str], takes_over: bool) -> None:
    """Who calls before a list of tools was sent, here or elsewhere, knows the names from another session."""
    scopes = Scopes(stored=True)
    bring(scopes, KEY, 0.0)
    for at, step in enumerate(steps, 1):
        if step.startswith("calls"):
            scopes.begin(SESSION, NOW + 10 * at, takes_over=step == "calls")
        elif step == "lists":
            noted = scopes.listed(SESSION, NOW + 10 * at)
            assert (noted is None) == ("calls" in steps[: at - 1])
            if noted is not None:
                assert (noted.label, noted.scope) == (LISTED, SESSION.digest)
                assert noted.expires > NOW + 10 * at + SESSION_LASTS
                assert scopes.listed(SESSION, NOW + 10 * at) is None, "once"
        elif step == "lists elsewhere":
            scopes.take(SESSION, {SESSION.digest: [row(SESSION, 10 * at, label=LISTED)]}, NOW + 10 * at + 1)
        else:
            scopes.begin(SESSION, NOW + 10 * at, takes_over=True)
            scopes.take(SESSION, {SESSION.digest: [row(SESSION, 5, label=LISTED)]}, NOW + 10 * at + 1)
    assert told(scopes, SESSION, 100.0) == ({"untrusted": 0.0} if takes_over else {})


# -- rows that are read


@pytest.mark.parametrize(
    ("known_at", "found", "at", "expected"),
    [
        # The row of a scope of which nothing is known, and of one that knows more, or less.
        (None, row(KEY, 10.0), 20.0, 10.0),
        (15.0, row(KEY, 10.0), 20.0, 15.0),
        (5.0, row(KEY, 10.0), 20.0, 10.0),
        # What is known has ended, and what was read had not; or the other way round.
        (0.0, row(KEY, DECAY + 10), DECAY + 20, DECAY + 10),
        (0.0, row(KEY, -10.0, lasts=2 * DECAY), DECAY + 20, 0.0),
        (None, row(KEY, 0.0), DECAY, None),
        (10.0, row(KEY, -DECAY), 20.0, 10.0),
    ],
)
def test_what_a_row_adds(known_at: float | None, found: FlowRow, at: float, expected: float | None) -> None:
    scopes = Scopes(stored=True)
    if known_at is not None:
        bring(scopes, KEY, known_at)
    assert is_loaded(scopes, KEY) is False
    scopes.take(KEY, {KEY.digest: [found]}, NOW + at)
    assert is_loaded(scopes, KEY)
    assert told(scopes, KEY, at) == ({"untrusted": expected} if expected is not None else {})


@pytest.mark.parametrize(
    ("known", "first", "opened", "counts"),
    [
        # A gap between what is known and the row: it counts from the row on.
        (0.0, DECAY + 100, DECAY + 50, False),
        (0.0, DECAY + 100, DECAY + 150, True),
        # The row began before: it counts from there.
        (100.0, 0.0, 50.0, True),
        (100.0, 80.0, 50.0, False),
    ],
)
def test_since_when_a_row_counts(known: float, first: float, opened: float, counts: bool) -> None:
    scopes = Scopes(stored=True)
    bring(scopes, KEY, known)
    scopes.open(TRACE, NOW + opened)
    scopes.take(KEY, {KEY.digest: [row(KEY, max(first, known) + 10, first=first)]}, NOW + opened)
    assert bool(told(scopes, TRACE, max(first, known) + 20)) is counts


def test_a_row_that_lasts_is_not_written_again_and_one_that_ends_is() -> None:
    scopes = Scopes(stored=True)
    bring(scopes, TRACE, 0.0)
    assert not scopes.is_committed(TRACE)
    assert not scopes.brings_nothing_new(TRACE, {"untrusted"}, source(1.0), DECAY), "it is in no row yet"
    first = scopes.rows([TRACE, KEY], DECAY)
    assert {placed.key for placed in first} == {TRACE, KEY}
    scopes.written(first[:1], DECAY)
    assert not scopes.is_committed(TRACE), "that of its key is not"
    assert not scopes.brings_nothing_new(TRACE, {"untrusted"}, source(1.0), DECAY)
    scopes.written(first, DECAY)
    assert scopes.is_committed(TRACE)
    assert scopes.rows([TRACE, KEY], DECAY) == []
    assert scopes.brings_nothing_new(TRACE, {"untrusted"}, source(0.05 * DECAY), DECAY)
    assert told(scopes, TRACE, 0.05 * DECAY) == {"untrusted": 0.05 * DECAY}
    assert not scopes.brings_nothing_new(TRACE, {"untrusted", "private"}, source(2.0), DECAY)
    assert not scopes.brings_nothing_new(ScopeKey(ADA, "trace", "other"), {"untrusted"}, source(2.0), DECAY)
    assert not scopes.brings_nothing_new(TRACE, {"untrusted"}, source(0.15 * DECAY), DECAY), "its row ends too soon"
    bring(scopes, TRACE, 0.15 * DECAY)
    assert [placed.key for placed in scopes.rows([TRACE, KEY], DECAY)] == [KEY]


# -- clears


@pytest.mark.parametrize(
    ("cleared", "session", "key", "of_bob"),
    [
        (FlowClear(1, None, NOW + 50), False, False, False),
        (FlowClear(1, "ada", NOW + 50), False, False, True),
        (FlowClear(1, "bob", NOW + 50), True, True, False),
        (FlowClear(1, "ada", NOW + 50, frozenset({SESSION.digest})), False, True, True),
        (FlowClear(1, "ada", NOW + 50, frozenset({KEY.digest})), True, False, True),
        (FlowClear(1, "bob", NOW + 50, frozenset({KEY.digest})), True, True, True),
        (FlowClear(1, "ada", NOW + 9), True, True, True),
        (FlowClear(1, "ada", NOW + 10), False, False, True),
    ],
)
def test_what_a_clear_is_of(cleared: FlowClear, session: bool, key: bool, of_bob: bool) -> None:
    scopes, other = Scopes(stored=True), ScopeKey(BOB, "key")
    for one in (SESSION, other):
        scopes.take(one, {}, NOW)
        bring(scopes, one, 10.0)
    scopes.written(scopes.rows([SESSION, KEY, other], DECAY), DECAY)
    scopes.clear(cleared)
    assert [bool(told(scopes, one, 60.0)) for one in (SESSION, KEY, other)] == [session, key, of_bob]
    # A scope that a clear is of is read again, and what is left in it is written again.
    of = [
        cleared.agent_id in (None, one.owner.agent_id) and (not cleared.scopes or one.digest in cleared.scopes)
        for one in (SESSION, KEY, other)
    ]
    assert is_loaded(scopes, SESSION) is not (of[0] or of[1])
    assert is_loaded(scopes, other) is not of[2]
    left = [
        one
        for one, counts, is_of in zip((SESSION, KEY, other), (session, key, of_bob), of, strict=True)
        if counts and is_of
    ]
    assert list(scopes.unwritten) == left


@pytest.mark.parametrize(("opened", "at", "takes_over"), [(20.0, 30.0, False), (30.0, 30.0, False), (40.0, 30.0, True)])
def test_a_session_that_was_cleared_takes_nothing_over_any_more(opened: float, at: float, takes_over: bool) -> None:
    """It would have again what its key knew, of which the clear was not."""
    scopes = Scopes(stored=True)
    bring(scopes, KEY, 0.0)
    scopes.begin(SESSION, NOW + opened, takes_over=True)
    scopes.clear(FlowClear(1, "ada", NOW + at, frozenset({SESSION.digest})))
    assert bool(told(scopes, SESSION, 50.0)) is takes_over


@pytest.mark.parametrize(
    ("cleared", "left"),
    [
        (FlowClear(1, None, NOW + 50), set()),
        (FlowClear(1, "ada", NOW + 50), set()),
        (FlowClear(1, "ada", NOW + 5), {"untrusted"}),
        (FlowClear(1, "bob", NOW + 50), {"untrusted"}),
        (FlowClear(1, "ada", NOW + 50, frozenset({"another scope"})), {"untrusted"}),
    ],
)
def test_what_a_clear_is_of_among_forgotten_scopes(cleared: FlowClear, left: set[str]) -> None:
    scopes = Scopes(stored=False, most=2)
    bring(scopes, SESSION, 10.0)
    for number in range(4):
        scopes.open(ScopeKey(BOB, "session", str(number)), NOW + 11)
    assert SESSION not in scopes._scopes
    scopes.clear(cleared)
    scopes.open(SESSION, NOW + 60)
    assert set(told(scopes, SESSION, 60.0)) == left


def test_a_forgotten_label_counts_for_as_long_as_the_longest_of_them() -> None:
    for order in ((0.0, 500.0), (500.0, 0.0)):
        scopes = Scopes(stored=False, most=1)
        for number, at in enumerate(order):
            bring(scopes, ScopeKey(ADA, "trace", str(number)), at)
            for other in range(3):
                scopes.open(ScopeKey(BOB, "trace", f"{number}{other}"), NOW + 600)
        scopes.open(TRACE, NOW + 86_400.0 + 400.0)
        assert set(told(scopes, TRACE, 86_400.0 + 400.0)) == {"untrusted"}
        assert told(scopes, TRACE, 86_400.0 + 501.0) == {}


def test_what_is_opened_is_not_forgotten_for_it() -> None:
    scopes = Scopes(stored=False, most=1)
    for number in range(5):
        key = ScopeKey(ADA, "trace", str(number))
        scopes.open(key, NOW)
        assert is_loaded(scopes, key)


# -- the states of a process, by its database


class MemoryLabels:
    """The rows of a database. `away`: it cannot be asked; `refused`: it takes no row of these agents."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], FlowRow] = {}
        self.file = 1
        self.clears: list[FlowClear] = []
        self.away = False
        self.refused: set[str] = set()
        self.reads: list[float] = []
        self.while_read: list[FlowClear] = []
        self.states: FlowStates | None = None
        self.mark = ChangeMark(None, "flow")

    async def flow_labels(self) -> Any:
        if self.away:
            raise StorageBusy("away")
        return self

    async def read(self, scopes: Collection[str], *, now: float) -> Mapping[str, Sequence[FlowRow]]:
        self.reads.append(now)
        found = {scope: [one for one in self.rows.values() if one.scope == scope] for scope in scopes}
        if self.while_read:
            self.clears.append(self.while_read.pop(0))
            self.rows.clear()
            assert self.states is not None
            await self.states.heed_clears()
        return found

    async def note(self, rows: Sequence[FlowRow]) -> None:
        if any(one.agent_id in self.refused for one in rows):
            raise ValueError("half of a surrogate pair")
        self.rows.update({(one.scope, one.label): one for one in rows})

    async def newest_clear(self) -> tuple[int, int]:
        return self.file, self.clears[-1].seq if self.clears else 0

    async def clears_after(self, seq: int) -> list[FlowClear]:
        return [one for one in self.clears if one.seq > seq]


class Process:
    """The states of one process on a database in memory, or on none."""

    def __init__(self, labels: MemoryLabels | None = None, *, shared: bool = False) -> None:
        self.clock = MovedClock()
        self.clock.time = NOW
        self.shared = shared
        self.states = FlowStates(labels, self.clock, lambda: self.shared)

    async def bring(self, key: ScopeKey, *labels: str) -> bool:
        brought = await self.states.bring(key, labels or {"untrusted"}, "web.fetch", "t", DECAY)
        return brought.committed

    async def labels(self, key: ScopeKey, *, decides: bool = True, resumed: bool = False) -> set[str]:
        return set(await self.states.state(key, "mail.send", decides=decides, resumed=resumed))


@pytest.mark.parametrize(
    ("later", "decides", "resumed", "counts"),
    [
        (DECAY - 1, True, False, True),
        (DECAY, True, False, False),
        (DECAY + RESUMED_WITHIN - 1, True, True, True),
        (DECAY + RESUMED_WITHIN, True, True, False),
        (DECAY + 10, False, True, False),
        (DECAY + 10, True, False, False),
    ],
)
async def test_what_counts_for_a_call_that_goes_on(later: float, decides: bool, resumed: bool, counts: bool) -> None:
    """For one that waited with a question nothing expires meanwhile."""
    here = Process()
    await here.bring(KEY)
    here.clock.time += later
    assert await here.labels(KEY, decides=decides, resumed=resumed) == ({"untrusted"} if counts else set())


@pytest.mark.parametrize("decides", [True, False])
async def test_a_scope_is_read_before_a_call_is_decided(decides: bool) -> None:
    """While the database is away a call is not decided; one that no rule speaks of is made."""
    labels = MemoryLabels()
    one, other = Process(labels), Process(labels)
    assert await one.bring(KEY)
    labels.away = True
    if decides:
        with pytest.raises(FlowUnknown):
            await other.labels(KEY)
    else:
        assert await other.labels(KEY, decides=False) == set()
    labels.away = False
    assert await other.labels(KEY, decides=decides) == {"untrusted"}
    # It asks for what has ended a short while ago as well.
    assert labels.reads == [NOW - RESUMED_WITHIN]


@pytest.mark.parametrize("stored", [True, False])
async def test_a_trace_begins_with_its_first_call_whatever_that_is(stored: bool) -> None:
    """What its key reads later, in another conversation, is none of its own."""
    here = Process(MemoryLabels() if stored else None)
    assert await here.labels(TRACE, decides=False) == set()
    here.clock.time += 1.0
    await here.bring(KEY)
    assert await here.labels(TRACE) == set()
    assert await here.labels(ScopeKey(ADA, "trace", "later")) == {"untrusted"}


@pytest.mark.parametrize(
    ("key", "shared", "stored", "alone"),
    [
        (SESSION, False, True, True),
        (SESSION, True, True, False),
        (TRACE, False, True, False),
        (KEY, False, True, False),
        (KEY, False, False, True),
        (SESSION, True, False, True),
    ],
)
async def test_what_another_process_decides_by(key: ScopeKey, shared: bool, stored: bool, alone: bool) -> None:
    labels = MemoryLabels()
    here = Process(labels if stored else None, shared=shared)
    assert here.states.alone(key) is alone
    here.states.bring_at_once(key, {"untrusted"}, "web.fetch", "t", DECAY)
    assert here.states.may_say(key) is alone
    assert await here.bring(key)
    assert here.states.may_say(key)
    if stored:
        labels.away = True
        assert not await here.bring(key, "private")


async def test_a_label_of_a_message_is_written_without_waiting_for_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message may reach its host as soon as its labels are committed, so they are written when they come."""
    monkeypatch.setattr("aggregator.flow.gateway.states.LOOK_EVERY", 3_600.0)
    here = Process(MemoryLabels(), shared=True)
    going = asyncio.create_task(here.states.run())
    for tool, label in (("web.fetch", "untrusted"), ("crm.get", "private")):
        here.states.bring_at_once(KEY, {label}, tool, "t", DECAY)
        await until(lambda: here.states.may_say(KEY))
    going.cancel()


async def test_a_clear_that_comes_while_a_scope_is_read() -> None:
    """What was read before it does not count after it."""
    labels = MemoryLabels()
    one, other = Process(labels), Process(labels)
    await one.bring(KEY)
    labels.states = other.states
    labels.while_read = [FlowClear(1, "ada", NOW + 10)]
    assert await other.labels(KEY) == set()
    assert len(labels.reads) == 2


@pytest.mark.parametrize(
    ("file", "newest", "cleared", "written_again"),
    [(1, 0, False, False), (1, 7, True, False), (2, 7, False, True), (1, 3, False, True), (2, 5, False, True)],
)
async def test_what_a_look_for_clears_finds(file: int, newest: int, cleared: bool, written_again: bool) -> None:
    """A database that is another one, or was restored to an earlier state, gets the labels again."""
    labels = MemoryLabels()
    here = Process(labels)
    labels.clears = [FlowClear(5, "bob", NOW)] if newest or file == 2 else []
    await here.bring(KEY)
    labels.file = file
    if newest:
        labels.clears = [FlowClear(newest, "ada", NOW + 1)]
    await here.states.heed_clears()
    assert bool(here.states.scopes.state(KEY, NOW + 2)) is not cleared
    assert bool(here.states.scopes.unwritten) is written_again
    labels.rows.clear()
    await here.states.write_rest()
    assert bool(labels.rows) is written_again


async def test_scopes_that_are_refused_come_last_and_cost_no_other() -> None:
    labels = MemoryLabels()
    here, of_bob = Process(labels), ScopeKey(BOB, "key")
    labels.away = True
    for key in (KEY, of_bob):
        assert not await here.bring(key)
    assert list(here.states.scopes.unwritten) == [KEY, of_bob]
    labels.away, labels.refused = False, {"ada"}
    with pytest.raises(StorageError, match="1 scopes"):
        await here.states.write_rest()
    assert list(here.states.scopes.unwritten) == [KEY]
    assert not here.states.scopes.is_committed(KEY)
    labels.refused = set()
    labels.away = True
    await here.bring(of_bob, "private")
    labels.away, labels.refused = False, {"ada"}
    with pytest.raises(StorageError):
        await here.states.write_rest()
    await here.bring(ScopeKey(ScopeOwner("eve", None, None), "key"))
    assert list(here.states.scopes.unwritten) == [KEY]


async def test_each_time_that_labels_cannot_be_written_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """E8: and its end too, so that an operator knows for how long answers were withheld."""
    caplog.set_level("INFO")
    labels = MemoryLabels()
    here = Process(labels)
    for number, away in enumerate((False, True, True, False, False, True, False)):
        labels.away = away
        await here.bring(KEY, f"label{number}")
    said = ["again" if "written again" in one else "away" for one in caplog.messages]
    assert said == ["away", "again", "away", "again"]


# -- questions


RULES: Final = book(policies())
FLOW: Final = ToolFlow(frozenset({"untrusted"}), rules=tuple(RULES.flow.rules), name="mail.send")
ALLOWED: Final = Decision("allow", "rule", "")


class Asks:
    """A call whose server asks, in a process on a database in memory."""

    def __init__(self, flow: ToolFlow = FLOW, key: ScopeKey = KEY, **more: Any) -> None:
        self.labels = MemoryLabels()
        self.process = Process(self.labels)
        log = type("Log", (), {"observers": type("Observers", (), {"written": None})})
        self.guard = FlowGuard(self.process.states, log)  # type: ignore[arg-type]
        call = CallFlow(key, flow.labels, "mail.send", DECAY, frozenset({"untrusted", "private"}))
        self.record = CallRecord(begin(), 0.0, RecordedCaller("ada", "http"), "mail.send")
        self.questions = QuestionFlow(self.guard, call._replace(base=ALLOWED, of=flow, **more), self.record)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.questions.say(lambda: self.said.append(text))


async def test_what_only_its_own_questions_brought_ends_no_call() -> None:
    """Its first question brings the label that a rule speaks of; the answer is sent all the same, and so is the next.
    Once another call has read that again, it is not.
    """
    here = Asks()
    for at in (1.0, 2.0):
        here.process.clock.time = NOW + at
        await here.questions.question()
        await here.questions.reply()
        assert here.questions.asked.own["untrusted"].at == NOW + at
    assert here.record.flow == "+untrusted"
    here.process.clock.time = NOW + 3.0
    await here.process.bring(KEY)
    with pytest.raises(RpcError) as refused:
        await here.questions.reply()
    assert refused.value.code == INVALID_REQUEST
    first = here.questions.refused
    assert isinstance(first, FlowDenied)
    with pytest.raises(RpcError):
        await here.questions.reply()
    assert here.questions.refused is first


async def test_what_was_read_before_is_not_its_own() -> None:
    here = Asks()
    await here.process.bring(KEY)
    here.process.clock.time += 1.0
    await here.questions.question()
    assert here.questions.asked.own == {}
    with pytest.raises(RpcError):
        await here.questions.reply()


@pytest.mark.parametrize(
    ("read", "now_read", "sent"),
    [
        ([], [], True),
        ([], ["untrusted"], False),
        (["untrusted"], ["untrusted"], True),
        # Nobody agreed to a call after private data, and a rule denies it.
        (["untrusted"], ["untrusted", "private"], False),
        (["untrusted", "private"], ["untrusted", "private"], False),
        # No rule speaks of it alone.
        ([], ["private"], True),
        ([], ["outward"], True),
        (["untrusted"], ["untrusted", "outward"], True),
    ],
)
async def test_an_answer_is_sent_if_the_call_was_decided_by_as_much(
    read: list[str], now_read: list[str], sent: bool
) -> None:
    here = Asks(FLOW._replace(labels=frozenset()), read=frozenset(read))
    if now_read:
        await here.process.bring(KEY, *now_read)
    if sent:
        await here.questions.reply()
    else:
        with pytest.raises(RpcError):
            await here.questions.reply()
    assert (here.questions.refused is None) is sent


@pytest.mark.parametrize(("own", "counts"), [(source(1.0), False), (source(0.0), True), (None, True)])
def test_which_labels_of_its_own_do_not_count(own: LabelSource | None, counts: bool) -> None:
    asked = AskedFlow(frozenset(), {"untrusted": own} if own is not None else {})
    found = AskedFlow.from_wire(asked.to_wire())
    assert found == asked
    assert bool(found.counted({"untrusted": source(1.0)})) is counts


async def test_messages_wait_in_their_order_and_a_bounded_number_of_them() -> None:
    here = Asks()
    for number in range(150):
        here.say(str(number))
    assert (here.said, here.questions.holds) == ([], True)
    here.questions.flush()
    assert here.said == [], "they are not committed yet"
    written = here.process.states.scopes.rows([KEY], DECAY)
    here.process.states.scopes.written(written, DECAY)
    here.say("later")
    assert here.said == [], "it would overtake those that wait"
    here.questions.flush()
    assert here.said == [str(number) for number in range(100)]
    here.say("at once")
    assert here.said[-1] == "at once"
    assert not here.questions.holds


async def test_messages_that_bring_nothing_decisive_do_not_wait() -> None:
    for flow in (FLOW._replace(labels=frozenset()), FLOW._replace(labels=frozenset({"outward"}))):
        here = Asks(flow)
        here.say("at once")
        assert here.said == ["at once"]


async def test_messages_leave_before_the_result_or_never() -> None:
    here = Asks()
    here.say("one")
    await here.questions.settle()
    assert here.said == ["one"]
    assert here.labels.rows
    here.process.clock.time += 2 * DECAY
    here.labels.away = True
    here.say("two")
    here.questions.end()
    here.say("three")
    here.labels.away = False
    await here.process.states.write_rest()
    assert here.said == ["one"]


async def test_a_question_outside_of_the_call_notes_nothing_on_its_record() -> None:
    here = Asks()
    await here.questions.outside().ask()
    assert here.record.flow is None
    assert await here.process.labels(KEY) == {"untrusted"}


def test_who_shares_what_was_read() -> None:
    """Each agent, key, person and program has labels of its own."""

    def bearer(subject: str, client: str | None) -> TokenFacts:
        return TokenFacts("https://idp", subject, client=client, expires=NOW, text=subject)

    found = [
        Principal("ada"),
        Principal("bob"),
        Principal("ada", key_id="k1"),
        Principal("ada", key_id="k2"),
        Principal("ada", token=bearer("x", None)),
        Principal("ada", token=bearer("y", None)),
        Principal("ada", token=bearer("x", "program")),
    ]
    scopes = [ScopeKey(owner_of_labels(one), kind) for one in found for kind in ("key", "trace", "session")]
    assert len({one.digest for one in scopes}) == len(scopes)
    shown = [ScopeKey(owner_of_labels(one), "key").shown for one in found]
    assert shown[:4] == ["without-key", "without-key", "k1", "k2"]
    assert [one.partition("-")[0] for one in shown[4:]] == ["token"] * 3
    again = Principal("ada", token=bearer("x", "program"))
    assert owner_of_labels(again) == owner_of_labels(found[-1])


@pytest.mark.parametrize(
    ("frontend", "session", "parent", "within", "by_key", "expected"),
    [
        ("http", "one", None, None, False, ("session", "one")),
        ("sse", "one", None, None, False, ("session", "one")),
        ("http", "one", "p", None, False, ("session", "one")),
        ("http", "one", "p", None, True, ("key", "")),
        ("v1", "one", None, None, False, ("key", "")),
        ("stdio", "one", None, None, False, ("key", "")),
        ("http", None, None, None, False, ("key", "")),
        ("http", None, "p", None, False, ("trace", "t")),
        ("stdio", None, "p", None, False, ("trace", "t")),
        ("http", None, "p", None, True, ("key", "")),
        # A call of a program has a place of its own in the trace of the program, which decides.
        ("http", None, "p", (None,), False, ("key", "")),
        ("http", None, None, ("p",), False, ("trace", "t")),
    ],
)
def test_which_conversation_a_call_belongs_to(
    frontend: str,
    session: str | None,
    parent: str | None,
    within: tuple[str | None] | None,
    by_key: bool,
    expected: tuple[str, str],
) -> None:
    host = Host(frontend, None, session=session)
    program = TraceContext("t", "s", within[0]) if within is not None else None
    found = scope_of(host, TraceContext("t", "s", parent), program, by_key=by_key)
    assert (found.kind, found.id) == expected


@pytest.mark.parametrize(
    ("conversation", "session", "labels"), [("session", "one", set()), ("key", "one", {"untrusted"})]
)
async def test_what_a_program_has_read_is_of_its_conversation(
    conversation: str, session: str, labels: set[str]
) -> None:
    """Of what it printed and was kept, the labels are those of the conversation as the policies have it."""
    rules = policies()
    if conversation == "key":
        rules = {**rules, "conversation": "key"}
    here = Asks()
    rulebook, host = book(rules), Host("http", None, Principal("ada", key_id="k1"), session=session)
    here.process.states.bring_at_once(KEY, {"untrusted"}, "web.fetch", "t", DECAY)
    assert here.guard.known(rulebook, host, begin()) == labels
    assert here.guard.known(None, host, begin()) == frozenset()
    assert here.guard.known(book({"agents": {}}), host, begin()) == frozenset()
