"""The limits that apply to a call: the counter and the maximum of each. Counting is done elsewhere."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from aggregator.policy.decide import MatchedRule

LimitKind = Literal["per_minute", "per_conversation", "concurrent"]
COUNTED: Final[tuple[LimitKind, ...]] = ("per_minute", "per_conversation", "concurrent")
# The limits on results, in the order of the fields of `Limits`.
OF_RESULTS: Final = ("result_bytes", "result_tokens")


class Limit(NamedTuple):
    """A limit of `most` calls of one agent, over all tools the pattern matches together.

    `counter` names what is counted and stays the same over reloads. `source` is the place of the number in a file.
    """

    kind: LimitKind
    most: int
    counter: tuple[str, str, str, str]  # agent, kind, owner of the rule, pattern
    rule: str
    source: str


class ResultLimit(NamedTuple):
    """A limit of `most` bytes, or tokens, on a result, of which no more is shown."""

    most: int
    rule: str
    source: str


class Limits(NamedTuple):
    """The limits of one call.

    It is charged to each of `counted`; `result` is the strictest bound on the bytes of its result, `tokens` that on the
    tokens of its text.
    """

    counted: tuple[Limit, ...] = ()
    result: ResultLimit | None = None
    tokens: ResultLimit | None = None

    @property
    def bounds_results(self) -> bool:
        """True if there is a bound on the size of its result."""
        return self.result is not None or self.tokens is not None

    def least(self, kind: LimitKind) -> Limit | None:
        """Return the strictest limit of one kind."""
        return min((limit for limit in self.counted if limit.kind == kind), key=lambda limit: limit.most, default=None)


def strictest(limits: Iterable[ResultLimit | None]) -> ResultLimit | None:
    """Return the limit that allows the least, or None."""
    return min((limit for limit in limits if limit is not None), key=lambda limit: limit.most, default=None)


def limits_of(agent_id: str, found: Iterable[MatchedRule]) -> Limits:
    """Return the limits that the `limits` rules of one agent put on one tool."""
    counted: list[Limit] = []
    results: dict[str, list[ResultLimit]] = {name: [] for name in OF_RESULTS}
    for rule, _ in found:
        for name, bound in rule.value.items():
            text = f"{name}: {bound.value} ({rule} of {rule.owner})"
            if name in results:
                results[name].append(ResultLimit(bound.value, text, str(bound.place)))
                continue
            counter = (agent_id, name, rule.owner, rule.pattern.text)
            counted.append(Limit(name, bound.value, counter, text, str(bound.place)))
    return Limits(tuple(counted), *(strictest(results[name]) for name in OF_RESULTS))
