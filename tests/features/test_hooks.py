"""The hooks of several features in one call: each decides, and each notes."""

from typing import Any, Final

import pytest

from aggregator.domain.call_record import CallRecord, RecordedCaller
from aggregator.domain.decision import Decision
from aggregator.domain.errors import CallRefused
from aggregator.domain.trace_context import begin
from aggregator.gateway.hooks import (
    NO_QUESTIONS,
    CallGuard,
    CallHook,
    CallHooks,
    Deliver,
    Questions,
    note,
    questions_of,
)

RECORD: Final = CallRecord(begin(), 0.0, RecordedCaller("ada", "http"), "shop.order")


class LoggedQuestions(Questions):
    """Questions that keep what happens, and messages until `settle`."""

    def __init__(self, name: str, log: list[str], *, keeps: bool = False) -> None:
        super().__init__()
        self.name, self.log, self.keeps = name, log, keeps
        self.kept: list[Deliver] = []

    @property
    def holds(self) -> bool:
        return bool(self.kept)

    def to_wire(self) -> dict[str, Any]:
        return {self.name: len(self.log)}

    def outside(self) -> Questions:
        return LoggedQuestions(f"{self.name} outside", self.log)

    async def ask(self) -> None:
        self.log.append(f"{self.name} ask")

    async def answer(self) -> None:
        self.log.append(f"{self.name} answer")

    async def question(self) -> None:
        self.log.append(f"{self.name} question")

    async def reply(self) -> None:
        self.log.append(f"{self.name} reply")

    def say(self, deliver: Deliver) -> None:
        self.log.append(f"{self.name} say")
        if self.keeps:
            self.kept.append(deliver)
        else:
            deliver()

    async def settle(self) -> None:
        kept, self.kept = self.kept, []
        for deliver in kept:
            deliver()

    def end(self) -> None:
        self.log.append(f"{self.name} end")
        self.kept.clear()


class Guard(CallGuard):
    """A guard with these questions, and labels of results."""

    __slots__ = ("_asked", "_labels")

    def __init__(self, asked: Questions, *labels: str) -> None:
        self._asked = asked
        self._labels = frozenset(labels)

    def questions(self, record: CallRecord) -> Questions:
        return self._asked

    async def note(self, result: object, record: CallRecord) -> frozenset[str]:
        return self._labels


def test_without_a_feature_that_asks_there_are_no_questions() -> None:
    assert questions_of((), RECORD) is NO_QUESTIONS
    assert questions_of((CallGuard(), CallGuard()), RECORD) is NO_QUESTIONS


def test_questions_of_one_feature_are_its_own() -> None:
    own = LoggedQuestions("one", [])
    assert questions_of((CallGuard(), Guard(own)), RECORD) is own


async def test_every_feature_decides_about_a_question() -> None:
    log: list[str] = []
    both = questions_of((Guard(LoggedQuestions("one", log)), Guard(LoggedQuestions("two", log))), RECORD)
    for step in (both.ask, both.answer, both.question, both.reply):
        await step()
    both.end()
    steps = ("ask", "answer", "question", "reply", "end")
    assert log == [f"{name} {step}" for step in steps for name in ("one", "two")]
    assert both.to_wire() == {"one": 10, "two": 10}
    await both.outside().ask()
    assert log[10:] == ["one outside ask", "two outside ask"]


async def test_a_message_waits_for_every_feature() -> None:
    log: list[str] = []
    both = questions_of(
        (Guard(LoggedQuestions("one", log, keeps=True)), Guard(LoggedQuestions("two", log, keeps=True))), RECORD
    )
    assert not both.holds
    both.say(lambda: log.append("said"))
    assert both.holds
    assert log == ["one say"]
    await both.settle()
    assert log == ["one say", "two say", "said"]
    assert not both.holds


@pytest.mark.parametrize("keeping", ["one", "two"])
async def test_a_message_of_any_feature_is_waited_for(keeping: str) -> None:
    """A later message would come before it."""
    log: list[str] = []
    both = questions_of(
        tuple(Guard(LoggedQuestions(name, log, keeps=name == keeping)) for name in ("one", "two")), RECORD
    )
    both.say(lambda: log.append("said"))
    assert (both.holds, "said" in log) == (True, False)
    await both.settle()
    assert (both.holds, log[-1]) == (False, "said")


class Watching(CallHook):
    """A hook that concerns the items of one name, with a decision about subscriptions to them."""

    def __init__(self, name: str, decision: Decision | None) -> None:
        self.name, self.decision = name, decision

    def concerns(self, view: Any, target: Any) -> bool:
        return self.name in target

    async def forbids_watching(self, view: Any, host: Any, item: Any, decision: Decision) -> Decision | None:
        return self.decision


NO, NEITHER = Decision("deny", "one", "no"), Decision("deny", "two", "no")


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ([("a", None), ("a", NO)], NO),
        ([("b", NO), ("a", NEITHER)], NEITHER),
        ([("a", NO), ("a", NEITHER)], NO),
        ([("b", NO)], None),
        ([("a", None)], None),
        ([], None),
    ],
)
async def test_any_feature_that_concerns_an_item_forbids_subscriptions_to_it(
    hooks: list[tuple[str, Decision | None]], expected: Decision | None
) -> None:
    """The first that has a decision."""
    every = CallHooks([Watching(*one) for one in hooks])
    given: Any = None
    item: Any = "a"
    assert await every.forbids_watching(given, given, item, given) is expected


def test_the_refusal_of_any_feature_ends_the_call() -> None:
    one, two = LoggedQuestions("one", []), LoggedQuestions("two", [])
    both = questions_of((Guard(one), Guard(two)), RECORD)
    assert both.refused is None
    two.refused = CallRefused("shop.order", "No.")
    assert both.refused is two.refused


async def test_labels_of_all_features_stay_with_a_result() -> None:
    guards = (Guard(NO_QUESTIONS, "private"), CallGuard(), Guard(NO_QUESTIONS, "untrusted"))
    assert await note(guards, {}, RECORD) == {"private", "untrusted"}
    assert all(guard.note_at_once({}, begin()) for guard in guards)
