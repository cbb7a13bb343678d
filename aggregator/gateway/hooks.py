"""The hooks of calls and of reads of items: what a feature forbids, asks and notes, without calls knowing the feature.

`app/features.py` has the list of hooks, in the order in which they decide. A hook concerns a call or not; one that
concerns it returns a guard, which stays with the call until its result is with the host.

Law: a call that no hook concerns costs one look at an empty tuple.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.domain.decision import Decision
from aggregator.domain.errors import (
    CallRefused,
    UpstreamBadAnswer,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamRpcError,
)
from aggregator.domain.records import ToolRecord
from aggregator.gateway.host import Host
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View
from aggregator.policy.rulebook import Rulebook

# What an upstream says in its errors reaches the host as its results do.
ANSWERED: Final = (UpstreamRpcError, UpstreamBadAnswer, UpstreamHttpStatus, UpstreamRefused)
_NO_LABELS: Final[frozenset[str]] = frozenset()


# A function that passes one message of a server on to the host.
Deliver = Callable[[], None]


class Questions:
    """The questions and messages of a server during a call. Here nothing is decided and nothing noted.

    `refused` is why an answer was not sent, which ends the call.
    """

    __slots__ = ("refused",)

    def __init__(self) -> None:
        self.refused: CallRefused | None = None

    @property
    def holds(self) -> bool:
        """True if messages wait: others must not overtake them."""
        return False

    def to_wire(self) -> dict[str, Any]:
        """Return the facts that wait with a question, as a part of the state that its host sends back."""
        return {}

    def outside(self) -> "Questions":
        """Return the questions of the same server that belong to no call."""
        return self

    async def ask(self) -> None:
        """Prepare for a question of the server to the host."""

    async def answer(self) -> None:
        """Decide whether an answer of the host may be sent to the server."""

    async def question(self) -> None:
        """Do as `ask` does, for a question that the server put as a request."""

    async def reply(self) -> None:
        """Do as `answer` does, for a question that the server put as a request."""

    def say(self, deliver: Deliver) -> None:
        """Forward a message of the server to the host."""
        deliver()

    async def settle(self) -> None:
        """Pass on the messages that wait, before the result of the call."""

    def end(self) -> None:
        """Drop the messages that wait: the call is over."""


# Never changed.
NO_QUESTIONS: Final[Questions] = Questions()


class Subject(NamedTuple):
    """A call of a tool, or a read of an item, as hooks see it before it is sent.

    decision: the decision of the policy or of an earlier hook; no denial. params: the request's. waited: the facts
    that waited with the question which the host answers now, as of `Questions.to_wire`. within: the trace of the
    program that makes the call. may_ask: someone can confirm it.
    """

    view: View
    host: Host
    record: CallRecord
    params: Mapping[str, Any]
    decision: Decision
    target: ToolRecord | ResolvedItem
    waited: Mapping[str, Any]
    within: TraceContext | None = None
    may_ask: bool = True


class KeptRead(NamedTuple):
    """A read of a kept result of a tool. `tool` is None for a result of a program; `labels` were kept with it."""

    view: View
    host: Host
    record: CallRecord
    within: TraceContext | None
    tool: ToolRecord | None
    labels: frozenset[str]


class CallGuard:
    """The part of a feature in one call or read. Every method does nothing unless a feature says otherwise."""

    __slots__ = ()

    def questions(self, record: CallRecord) -> Questions:
        """Return the questions of the call's server, with the feature's decisions about them."""
        return NO_QUESTIONS

    def enter(self, record: CallRecord) -> None:
        """Write facts into the record of a call that was permitted at once."""

    async def stand_in(self, view: View, tool: ToolRecord) -> "CallGuard | None":
        """Return the guard for another tool in place of the called one; None if that tool may not get the call.

        Raises:
            CallRefused: this cannot be decided now.
        """
        return self

    async def note(self, result: Mapping[str, Any] | None, record: CallRecord) -> frozenset[str]:
        """Note a result before its host gets it; None stands for an error of the upstream. Return its labels.

        Raises:
            CallRefused: the host must not get it.
        """
        return _NO_LABELS

    def note_at_once(self, result: Mapping[str, Any], trace: TraceContext) -> bool:
        """Do as `note`, if that needs no wait and the result has no labels to keep; else return False."""
        return True


Guards = tuple[CallGuard, ...]


class PermitAtOnce(Protocol):
    """The part of a hook in all calls of one tool by one host that need no task."""

    def permit(self, host: Host, trace: TraceContext, /) -> CallGuard | None:
        """Return the guard of a call that is surely allowed; None if that is unknown now."""


class CallHook:
    """The part of a feature in all calls and reads. Every method does nothing unless a feature says otherwise.

    at_once: what `permit_at_once` returns can decide most calls without a wait. Calls that another hook concerns need a
    task.
    """

    at_once = False

    def concerns(self, view: View, target: ToolRecord | ResolvedItem) -> bool:
        """Tell whether calls of a tool, or reads of an item, by an agent need `permit`. Holds as long as the view."""
        return False

    async def permit(self, subject: Subject) -> tuple[Decision, CallGuard]:
        """Return the decision about a call, the present one or a stricter one that is no denial, and its guard.

        Raises:
            CallRefused: the feature forbids the call.
        """
        return subject.decision, CallGuard()

    def permit_at_once(self, view: View, host: Host, tool: ToolRecord) -> PermitAtOnce:
        """Return what permits calls of a tool by a host, if the hook is `at_once`. Holds as long as the view."""
        raise NotImplementedError

    async def forbids_watching(self, view: View, host: Host, item: ResolvedItem, decision: Decision) -> Decision | None:
        """Return the stricter decision about a subscription to an item, which a user cannot confirm; None if it has
        none.
        """
        return None

    async def listed(self, rulebook: Rulebook | None, host: Host) -> None:
        """Note that a host was sent its first list of tools."""

    def labels_now(self, rulebook: Rulebook | None, host: Host, trace: TraceContext) -> frozenset[str]:
        """Return the labels of what a conversation has read so far, for a result that a program made of it."""
        return _NO_LABELS

    async def read_kept(self, read: KeptRead) -> None:
        """Note that a kept result is about to be read.

        Raises:
            CallRefused: the host must not get it.
        """


class CallHooks:
    """The hooks of all features, in the order in which they decide."""

    def __init__(self, hooks: Sequence[CallHook] = ()) -> None:
        self._hooks = tuple(hooks)

    def __repr__(self) -> str:
        return f"<CallHooks {', '.join(type(hook).__name__ for hook in self._hooks) or 'none'}>"

    def concerning(self, view: View, target: ToolRecord | ResolvedItem) -> tuple[CallHook, ...]:
        """Return the hooks that concern calls of a tool, or reads of an item, by an agent."""
        return tuple(hook for hook in self._hooks if hook.concerns(view, target))

    async def forbids_watching(self, view: View, host: Host, item: ResolvedItem, decision: Decision) -> Decision | None:
        """See `CallHook`."""
        for hook in self.concerning(view, item):
            if (stricter := await hook.forbids_watching(view, host, item, decision)) is not None:
                return stricter
        return None

    async def listed(self, rulebook: Rulebook | None, host: Host) -> None:
        """See `CallHook`."""
        for hook in self._hooks:
            await hook.listed(rulebook, host)

    def labels_now(self, rulebook: Rulebook | None, host: Host, trace: TraceContext) -> frozenset[str]:
        """See `CallHook`."""
        return _NO_LABELS.union(*(hook.labels_now(rulebook, host, trace) for hook in self._hooks))

    async def read_kept(self, read: KeptRead) -> None:
        """See `CallHook`."""
        for hook in self._hooks:
            await hook.read_kept(read)


async def permit(hooks: Sequence[CallHook], subject: Subject) -> tuple[Decision, Guards]:
    """Return the decision of all these hooks, the last of which has the last word, and their guards.

    Raises:
        CallRefused: one of them forbids the call.
    """
    guards = []
    for hook in hooks:
        decision, guard = await hook.permit(subject)
        subject = subject._replace(decision=decision)
        guards.append(guard)
    return subject.decision, tuple(guards)


def questions_of(guards: Guards, record: CallRecord) -> Questions:
    """Return the questions of a call's server, with the decisions of all guards about them."""
    found = [one for one in (guard.questions(record) for guard in guards) if one is not NO_QUESTIONS]
    if not found:
        return NO_QUESTIONS
    return found[0] if len(found) == 1 else _SeveralQuestions(found)


async def note(guards: Guards, result: Mapping[str, Any] | None, record: CallRecord) -> frozenset[str]:
    """Have all guards note a result, and return its labels.

    Raises:
        CallRefused: the host must not get it.
    """
    labels = _NO_LABELS
    for guard in guards:
        labels |= await guard.note(result, record)
    return labels


class _SeveralQuestions(Questions):
    """The decisions of several features about the questions of one server: each has to agree."""

    __slots__ = ("_of",)

    def __init__(self, of: Sequence[Questions]) -> None:
        self._of = of

    @property
    def refused(self) -> CallRefused | None:  # type: ignore[override]
        return next((one.refused for one in self._of if one.refused is not None), None)

    @property
    def holds(self) -> bool:
        return any(one.holds for one in self._of)

    def to_wire(self) -> dict[str, Any]:
        return {name: fact for one in self._of for name, fact in one.to_wire().items()}

    def outside(self) -> Questions:
        return _SeveralQuestions([one.outside() for one in self._of])

    async def ask(self) -> None:
        for one in self._of:
            await one.ask()

    async def answer(self) -> None:
        for one in self._of:
            await one.answer()

    async def question(self) -> None:
        for one in self._of:
            await one.question()

    async def reply(self) -> None:
        for one in self._of:
            await one.reply()

    def say(self, deliver: Deliver) -> None:
        for one in reversed(self._of[1:]):
            deliver = partial(one.say, deliver)
        self._of[0].say(deliver)

    async def settle(self) -> None:
        for one in self._of:
            await one.settle()

    def end(self) -> None:
        for one in self._of:
            one.end()
