"""Tests of policies that stand beside them: `policies/cases/*.yaml`, run by `aggregator policy test`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from aggregator.domain.decision import ConfirmBy, Decision, confirmers
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import TokenFacts
from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.policy.annotations import Trusted, is_trusted
from aggregator.policy.explain import earlier_reads, explain
from aggregator.policy.files.checking import read_model
from aggregator.policy.files.documents import PolicyModel
from aggregator.policy.files.folder import read_folder
from aggregator.policy.files.values import EarlierName, People, no_list
from aggregator.policy.full_names import find_by_full_name
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import AgentRules, Rulebook, Tightening, target_of
from aggregator.policy.who import lacking

FOLDER: Final = "cases"
Expected = Literal["allow", "deny", "confirm", "invalid"]

# Returns in one sentence why arguments do not fit all of these schemas, or None.
CheckArguments = Callable[[Iterable[Mapping[str, Any]], Mapping[str, Any]], str | None]


class CaseToken(PolicyModel):
    """The claims of a token in a case."""

    subject: str = Field(min_length=1, description="The user or program.")
    issuer: str = Field(default="", description="Its issuer.")
    client: str | None = Field(default=None, description="The program that the token was issued to.")
    groups: list[str] = Field(default=[], description="The groups of the person.")
    scopes: list[str] = Field(default=[], description="The scopes of the token.")

    def facts(self, issuers: Sequence[str]) -> TokenFacts:
        """Return the claims as facts of a verified token, of the only issuer if none is named."""
        issuer = self.issuer or (issuers[0] if len(issuers) == 1 else "")
        return TokenFacts(issuer, self.subject, self.client, tuple(self.groups), frozenset(self.scopes))


class PolicyCase(PolicyModel):
    """One line of the table: a request of an agent, and the expected verdict."""

    agent: str = Field(
        min_length=1,
        description="The agent's id. With `token`, the agent that the token must map to.",
        examples=["shop"],
    )
    token: CaseToken | None = Field(
        default=None,
        description="The claims of the call's access token: `subject`, and if they matter `client`, `groups`, "
        "`scopes`, and `issuer`, by default the one of the configuration if that has one. A token "
        "that maps to no agent, or lacks the scopes of the tool, is denied.",
        examples=[{"subject": "ann", "groups": ["staff"]}],
    )
    tool: str = Field(
        min_length=1,
        description="The full name of a tool, or of an item with its kind before it: `resource:`, `prompt:` or "
        "`skill:`.",
        examples=["time.convert_time"],
    )
    arguments: Mapping[str, Any] | None = Field(
        default=None,
        description="The arguments, if they matter: checked against the `arguments` rules, and against the tool's "
        "own schema with `--connect`.",
        examples=[{"city": "Beijing"}],
    )
    after: Annotated[list[EarlierName], BeforeValidator(no_list)] = Field(
        default=[],
        description="Earlier reads of the conversation, for flow rules: full names of tools, resources and "
        "prompts, or labels.",
        examples=[["web.fetch"]],
    )
    expect: Expected = Field(
        description="`allow`, `deny`, `confirm`, or `invalid`: allowed or to confirm, but not with these arguments.",
        examples=["deny"],
    )
    confirm_by: ConfirmBy | None = Field(
        default=None,
        description="With `expect: confirm`, the expected approver: `host` or `queue`.",
        examples=["queue"],
    )
    people: People | None = Field(
        default=None,
        description="With `expect: confirm`, how many different approvers are needed.",
        examples=[2],
    )
    why: str | None = Field(
        default=None,
        description="The reason for the expectation, shown if the case fails.",
        examples=["nobody deletes"],
    )


class CasesFile(PolicyModel):
    """One file of `policies/cases/`."""

    cases: list[PolicyCase] = Field(description="The table, in any order.")


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The result of one case: the verdict `got`, its `reason`, who would have to confirm (`by`), and how many
    (`people`).
    """

    case: PolicyCase
    place: str
    got: Expected
    reason: str
    by: ConfirmBy | None = None
    people: int | None = None
    # The token of the case stands for another agent, or something in `after` means nothing.
    other: bool = False

    @property
    def passed(self) -> bool:
        """True if the result is the one expected."""
        case = self.case
        if self.other:
            return False
        return self.got == case.expect and case.confirm_by in (None, self.by) and case.people in (None, self.people)

    def __str__(self) -> str:
        case = self.case
        after = f" after {', '.join(case.after)}" if case.after else ""
        what = f"{self.place}: {case.agent}, {case.tool}{after}"
        if self.passed:
            return f"ok: {what}: {self.got}"
        why = f" ({case.why})" if case.why else ""
        by = f" by {case.confirm_by}" if case.confirm_by is not None else ""
        got = f"{self.got} by {self.by}" if by and self.by is not None else self.got
        if case.people is not None:
            by += f" of {case.people}"
            got += f" of {self.people}" if self.people is not None else ""
        return f"FAILED: {what}: expected {case.expect}{by}{why}, got {got}: {self.reason}"


def read_cases(folder: Path) -> tuple[list[tuple[PolicyCase, str]], list[Problem]]:
    """Return the cases in a folder, each with its place, and the problems of its files."""
    sources, problems = read_folder(folder)
    found: list[tuple[PolicyCase, str]] = []
    for source in sources:
        read = read_model(CasesFile, source, problems)
        if read is not None:
            file, tree = read
            found += [(case, f"{source.file}:{tree.line(('cases', at))}") for at, case in enumerate(file.cases)]
    return found, problems


def run_case(
    case: PolicyCase,
    place: str,
    rulebook: Rulebook,
    servers: Mapping[str, str],
    tools: Iterable[ToolRecord] = (),
    trusted: Trusted = None,
    check_arguments: CheckArguments | None = None,
    issuers: Sequence[str] = (),
) -> CaseOutcome:
    """Run one case.

    servers: ids by prefix. tools: the tools known; others are decided about by name alone. issuers: those whose tokens
    are accepted.
    """
    try:
        thing = find_by_full_name(case.tool, servers, tools)
    except OperatorError as error:
        return CaseOutcome(case, place, "invalid", str(error))
    tools = tuple(tools)
    try:
        earlier = earlier_reads(case.after, rulebook, servers, tools, trusted)
    except OperatorError as error:
        return CaseOutcome(case, place, "deny", str(error), other=True)
    known = is_trusted(trusted, thing.server)
    facts = case.token.facts(issuers) if case.token is not None else None
    found = rulebook.who(facts, one_issuer=len(issuers) < 2) if facts is not None else None
    if found is not None and found.agent_id != case.agent:
        stands = f"agent {found.agent_id}" if found.agent_id is not None else "no agent"
        said = f"the token stands for {stands}: {found.reason}"
        return CaseOutcome(case, place, "deny", said, other=found.agent_id is not None)
    decided = explain(rulebook, case.agent, thing, trusted=known, found=found, earlier=earlier).decision
    reason = _reason(decided)
    rules = rulebook.for_agent(case.agent) if found is None else rulebook.for_token(found)
    lacks = _lacking(rules, thing, facts) if decided.visible else ()
    if lacks:
        return CaseOutcome(case, place, "deny", f"the token lacks the scope {' '.join(lacks)}")
    asked = case.arguments if case.arguments is not None else ({} if case.expect == "invalid" else None)
    if decided.visible and rules is not None and asked is not None and isinstance(thing, ToolRecord):
        tightening = rules.tightening(thing)
        fault = _fault(thing, tightening, asked, check_arguments)
        if fault is not None:
            return CaseOutcome(case, place, "invalid", fault)
    if rules is None or decided.verdict != "confirm":
        return CaseOutcome(case, place, decided.verdict, reason)
    by = confirmers(decided, rules.confirm_by)
    return CaseOutcome(case, place, decided.verdict, reason, by, decided.people)


def _reason(decided: Decision) -> str:
    return f"{decided.reason} ({decided.source})" if decided.source else decided.reason


def _lacking(rules: AgentRules | None, thing: ToolRecord | Target, facts: TokenFacts | None) -> tuple[str, ...]:
    """Return the scopes that the token of a case lacks."""
    if rules is None or facts is None:
        return ()
    return lacking(rules.scopes_of(thing if isinstance(thing, Target) else target_of(thing)), facts.scopes)


def _fault(
    tool: ToolRecord,
    tightening: tuple[Tightening, ...],
    arguments: Mapping[str, Any],
    check_arguments: CheckArguments | None,
) -> str | None:
    if check_arguments is None:
        return None
    own = check_arguments([tool.definition.get("inputSchema", {})], arguments)
    if own is not None:
        return f"{own} (the tool's own schema)"
    for schema, rule, source in tightening:
        fault = check_arguments([schema], arguments)
        if fault is not None:
            return f"{fault} ({rule}, {source})"
    return None
