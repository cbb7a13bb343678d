"""The policies as the agent meets them: problems of the files, an agent that is not known. This file decides."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.config.files.report import nearest
from aggregator.doctor.finding import CheckFinding, found
from aggregator.domain.problems import Problem
from aggregator.domain.shell import foreign_operands

# Tools that are named of those that one rule denies.
_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """The policy files: `agents` is None if there are no files, and everything is allowed.

    `named`: the configuration names the folder. `warnings` are of rules that are valid and probably mistakes.
    """

    folder: Path
    exists: bool
    named: bool
    problems: Sequence[Problem]
    warnings: Sequence[Problem]
    agents: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Denial:
    """A tool that the policy denies to the agent, with the rule and its `file:line`."""

    tool: str
    reason: str
    source: str | None


def of_policies(facts: PolicyFacts) -> Iterator[CheckFinding]:
    """Yield the problems of the folder and of the files in it."""
    if not facts.exists and facts.named:
        yield found(
            "policy_folder_missing",
            f"The folder {facts.folder}, which `policies` names, does not exist, so no agent may do anything.",
            "Mount it, correct `policies`, or run `aggregator policy init` for a first file.",
            facts.folder,
        )
        return
    for problem in (*facts.problems, *facts.warnings):
        code = "policy_broken" if problem.severity == "error" else "policy_warning"
        where = f"{problem.file}: {problem.where}" if problem.where else problem.file
        yield found(
            code, f"{problem.where}: {problem.message}" if problem.where else problem.message, problem.fix, where
        )


def of_agent(facts: PolicyFacts, agent: str, where: object = None) -> Iterator[CheckFinding]:
    """Yield whether the policies know an agent, which is named at `where`."""
    if facts.agents is None or agent in facts.agents:
        return
    meant = nearest(agent, facts.agents)
    known = ", ".join(sorted(facts.agents)[:_NAMED]) or "none"
    mend = f"use `--agent {meant}`, or add" if meant else "add"
    yield found(
        "policy_agent_unknown",
        f"The policies do not know the agent {agent}, so it sees nothing; they know {known}.",
        f"{mend[:1].upper()}{mend[1:]} it under `agents:` in a file of {facts.folder}.",
        where or facts.folder,
    )


def of_denials(agent: str, denials: Iterable[Denial], total: int) -> Iterator[CheckFinding]:
    """Yield one note for each rule that denies tools to an agent; `total` is the number of all tools."""
    by_rule: dict[tuple[str, str | None], list[str]] = {}
    for denial in denials:
        by_rule.setdefault((denial.reason, denial.source), []).append(denial.tool)
    for (reason, source), tools in by_rule.items():
        shown = ", ".join(tools[:_NAMED]) + (f" and {len(tools) - _NAMED} more" if len(tools) > _NAMED else "")
        yield found(
            "tools_denied",
            f"{len(tools)} of {total} tools are denied to the agent {agent}: {shown}; {reason}.",
            f"If it should have them: `aggregator policy explain {agent} {foreign_operands(tools[0])}` tells what to "
            "change.",
            source,
        )


def of_keys(keys: Iterable[Mapping[str, object]], agents: Sequence[str] | None, now: float) -> Iterator[CheckFinding]:
    """Yield the keys that have ended although they were used lately, that end soon, or whose agent is not known."""
    week, month = 7 * 86_400.0, 30 * 86_400.0
    for key in keys:
        name, agent = str(key["key_id"]), str(key["agent_id"])
        if key["revoked"] is not None:
            continue
        expires, used = key["expires"], key["last_used"]
        if isinstance(expires, float) and expires <= now:
            if isinstance(used, float) and now - used < month:
                said = f"The key {name} of the agent {agent} has ended, and was in use until then."
                yield found("key_expired", said, f"Run `aggregator keys expire {name} 90d`, or make another.", name)
        elif isinstance(expires, float) and expires - now < week:
            days = int((expires - now) / 86_400.0)
            said = (
                f"The key {name} of the agent {agent} ends in {days} days." if days else f"The key {name} ends today."
            )
            yield found("key_expires_soon", said, f"Run `aggregator keys expire {name} 90d`.", name)
        if agents is not None and agent not in agents:
            yield found(
                "key_agent_unknown",
                f"The key {name} stands for the agent {agent}, which the policies do not know.",
                f"Run `aggregator keys revoke {name}`, or add the agent to the policies.",
                name,
            )
