"""One call as the policy decides it, in words, as plain data and as a case of the policy tests: rules, arguments,
limits, and the line to change.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from aggregator.config.server_config import ServerConfig
from aggregator.domain.decision import ConfirmBy
from aggregator.domain.records import ToolRecord
from aggregator.flow.decide.decide_flow import EarlierRead
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.gateway.calls.validate import Checker
from aggregator.gateway.views.views import View
from aggregator.pins.gateway.state import HeldItem
from aggregator.policy.explain import Explanation, explain
from aggregator.policy.limits import Limit, ResultLimit
from aggregator.policy.open_mode import OPEN
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import Ruling, target_of
from aggregator.schemas.fault import UnusableSchema
from aggregator.schemas.workers.workers import CheckInterrupted

_MAY: Final = {"tool": "call", "resource": "read", "prompt": "get", "skill": "read"}
_FAULTS: Final = 20

Expected = Literal["allow", "deny", "confirm", "invalid"]

# The user has to write longer arguments.
LONGEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ExplainedCall:
    """The decision on an agent's call, or read, of one thing, as plain data.

    `faults` are the faults of the arguments, None if none were given, or nothing takes them; `unchecked` is the reason
    why they could not be checked. `odd`: why a URI in this spelling is refused before any rule counts. `held`: why the
    thing waits for an approval, though the rules may allow it. `takes_less`: its approved definition is served, and
    calls that its server no longer takes are refused.
    """

    explanation: Explanation
    open: bool
    limits: tuple[Mapping[str, Any], ...] = ()
    result_limit: Mapping[str, Any] | None = None
    token_limit: Mapping[str, Any] | None = None
    arguments: Mapping[str, Any] | None = None
    faults: tuple[Mapping[str, Any], ...] | None = None
    unchecked: str | None = None
    confirm_by: str | None = None
    schemas: tuple[Mapping[str, Any], ...] = ()
    odd: str | None = None
    held: HeldItem | None = None
    takes_less: bool = False

    @property
    def expect(self) -> Expected:
        """The outcome in one word, as cases of the policy tests have it."""
        decided = self.explanation.decision
        return "invalid" if decided.visible and self.faults else decided.verdict

    def sentence(self) -> str:
        """Return the decision as a sentence."""
        what = f"{_MAY[self.explanation.target.kind]} {self.explanation.target}"
        agent, verdict = self.explanation.agent, self.explanation.decision.verdict
        if self.odd is not None:
            return f"{agent} may not {what} in this spelling: {self.odd}."
        if verdict == "deny":
            hidden = ", and is told that there is no such thing" if self.explanation.decision.hidden else ""
            return f"{agent} may not {what}{hidden}."
        asked = ", once a person agreed" if verdict == "confirm" else ""
        asked = ", but not with these arguments" if self.faults else asked
        if self.held is not None:
            return f"{agent} may not {what} now: it is held: {self.held.why}. Once approved, it may{asked}."
        if self.takes_less and self.faults is None:
            asked += ", but not with arguments that its server no longer takes"
        return f"{agent} may {what}{asked}."

    def data(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        target = self.explanation.target
        name = target.full if target.kind == "tool" else f"{target.kind}:{target.full}"
        after = [one.given for one in self.explanation.earlier]
        by: Any = self.confirm_by if self.expect == "confirm" else None
        return {
            **self.explanation.data(),
            "sentence": self.sentence(),
            "expect": self.expect if self.odd is None else "invalid",
            "odd": self.odd,
            "held": self.held.why if self.held is not None else None,
            "takes_less": self.takes_less,
            "open": self.open,
            "schemas": list(self.schemas),
            "faults": list(self.faults) if self.faults is not None else None,
            "unchecked": self.unchecked,
            "limits": list(self.limits),
            "result_limit": self.result_limit,
            "token_limit": self.token_limit,
            "case": policy_case(self.explanation.agent, name, self.arguments, self.expect, by, after),
        }


def explain_item(
    view: View,
    target: Target,
    odd: str | None = None,
    earlier: Sequence[EarlierRead] = (),
) -> ExplainedCall:
    """Explain what would be decided about a resource or prompt; `odd` says why its spelling is refused before that."""
    explanation = _explanation(view, target, target, earlier)
    return ExplainedCall(explanation, view.open, confirm_by=view.confirming.by, odd=odd)


async def explain_call(
    view: View,
    tool: ToolRecord,
    server: ServerConfig | None,
    arguments: dict[str, Any] | None,
    checker: Checker,
    rate_limits: RateLimits,
    earlier: Sequence[EarlierRead] = (),
) -> ExplainedCall:
    """Explain the decision about a possible call for the agent of `view`; `server` is None if none has the tool."""
    explanation = _explanation(view, tool, target_of(tool), earlier)
    if not explanation.decision.visible:
        return ExplainedCall(explanation, view.open, arguments=arguments, confirm_by=view.confirming.by)
    ruling = view.ruling(tool)
    faults, unchecked = await _faults(tool, server, ruling, arguments, checker, view.principal.agent_id)
    await rate_limits.learn(ruling.limits)
    return ExplainedCall(
        explanation,
        view.open,
        tuple(_limit(limit, rate_limits) for limit in ruling.limits.counted),
        _result_limit(ruling.limits.result),
        _result_limit(ruling.limits.tokens),
        arguments,
        faults,
        unchecked,
        view.confirming.by,
        tuple({"rule": one.rule, "source": one.source, "schema": one.schema} for one in ruling.tightening),
    )


def _result_limit(limit: ResultLimit | None) -> Mapping[str, Any] | None:
    return limit._asdict() if limit is not None else None


def _explanation(view: View, thing: ToolRecord | Target, target: Target, earlier: Sequence[EarlierRead]) -> Explanation:
    if view.rulebook is not None:
        trusted = view.trusted.get(target.server, False)
        return explain(view.rulebook, view.principal.agent_id, thing, trusted=trusted, earlier=earlier)
    change = "write a policy file: without one nothing is denied"
    return Explanation(view.principal.agent_id, target, OPEN.decision, (), None, (change,), ())


async def _faults(
    tool: ToolRecord,
    server: ServerConfig | None,
    ruling: Ruling,
    arguments: dict[str, Any] | None,
    checker: Checker,
    agent: str,
) -> tuple[tuple[Mapping[str, Any], ...] | None, str | None]:
    if arguments is None:
        return None, None
    if server is None:
        return None, "no server has this tool now, so its own schema is not known"
    try:
        found = await checker.explain(server, tool, arguments, ruling.tightening, agent)
    except (UnusableSchema, CheckInterrupted) as problem:
        return None, str(problem)
    return tuple(
        {
            **fault.to_object(),
            "rule": rule.rule if rule is not None else None,
            "source": rule.source if rule is not None else None,
            "narrowed": narrowed,
        }
        for fault, rule, narrowed in found[:_FAULTS]
    ), None


def _limit(limit: Limit, rate_limits: RateLimits) -> Mapping[str, Any]:
    return {
        "kind": limit.kind,
        "most": limit.most,
        "left": rate_limits.left(limit),
        "rule": limit.rule,
        "source": limit.source,
    }


def policy_case(
    agent: str,
    tool: str,
    arguments: Mapping[str, Any] | None,
    expect: Expected,
    confirm_by: ConfirmBy | None = None,
    after: Sequence[str] = (),
) -> str:
    """Return a case that expects the current decision, in the form of a file of `policies/cases/`."""
    lines = ["cases:", f"  - agent: {_yaml(agent)}", f"    tool: {_yaml(tool)}"]
    if arguments is not None:
        written = _yaml(arguments)
        lines.append(f"    arguments: {written}" if len(written) <= LONGEST else "    # arguments: too long to show")
    if after:
        lines.append(f"    after: {_yaml(list(after))}")
    lines.append(f"    expect: {expect}")
    if confirm_by is not None:
        lines.append(f"    confirm_by: {confirm_by}")
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    """Return a value as JSON that is YAML too: YAML takes no control characters, and joins no surrogates."""
    return "".join(char if char.isprintable() else _escape(char) for char in json.dumps(value, ensure_ascii=False))


def _escape(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
