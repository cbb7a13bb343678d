"""An example of a feature: tools that may be called on weekdays only. Its line stands in the list of a test."""

import datetime
from collections.abc import Callable, Collection, Mapping
from typing import Any

from aggregator.app.hook_parts import BuiltHook, HookParts
from aggregator.domain.call_record import CallRecord
from aggregator.domain.decision import Decision
from aggregator.domain.errors import CallRefused
from aggregator.domain.records import ToolRecord
from aggregator.gateway.hooks import CallGuard, CallHook, Questions, Subject
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View

Today = Callable[[], datetime.date]


class NotToday(CallRefused):
    """The tool may be called on weekdays only."""

    code = "weekend"
    advice = "Call it again on Monday."


class WeekdayQuestions(Questions):
    """The questions of a server of weekdays, counted."""

    __slots__ = ("_asked",)

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    async def ask(self) -> None:
        """See `Questions`."""
        self._asked.append("asked")


class WeekdayCall(CallGuard):
    """One call on a weekday."""

    __slots__ = ("_hook",)

    def __init__(self, hook: "Weekdays") -> None:
        self._hook = hook

    def questions(self, record: CallRecord) -> Questions:
        """See `CallGuard`."""
        return WeekdayQuestions(self._hook.asked)

    async def note(self, result: Mapping[str, Any] | None, record: CallRecord) -> frozenset[str]:
        """See `CallGuard`."""
        self._hook.results.append(result)
        return frozenset()


class Weekdays(CallHook):
    """Tools that may be called from Monday to Friday."""

    def __init__(self, tools: Collection[str], today: Today) -> None:
        self._tools = tools
        self._today = today
        self.results: list[Mapping[str, Any] | None] = []
        self.asked: list[str] = []

    def build(self, parts: HookParts) -> BuiltHook:
        """Return this hook as a feature builds it."""
        return BuiltHook(self)

    def concerns(self, view: View, target: ToolRecord | ResolvedItem) -> bool:
        """See `CallHook`."""
        return target.name in self._tools

    async def permit(self, subject: Subject) -> tuple[Decision, CallGuard]:
        """See `CallHook`.

        Raises:
            NotToday: it is a Saturday or a Sunday.
        """
        if self._today().weekday() > 4:
            raise NotToday(subject.target.name, f"{subject.target.name} may be called on weekdays only.")
        return subject.decision, WeekdayCall(self)
