"""Warn of agents that the policies allow nothing: valid, and nearly always a mistake.

The log tells of them at the start and at each reload; `aggregator policy check` and the console do whenever asked.
"""

from collections.abc import Iterator

from aggregator.domain.principal import METRICS_ROLE
from aggregator.domain.problems import Problem
from aggregator.policy.rulebook import AgentRules, Rulebook


def idle_agents(rulebook: Rulebook) -> Iterator[Problem]:
    """Yield a warning for each agent, and each rule `who` that makes agents, that is allowed nothing."""
    for name, rules in rulebook.agents.items():
        if not _allows(rules):
            message, fix = (
                "Nothing is allowed to this agent, so it may do nothing.",
                "Add `allow:`, or a role that has one.",
            )
            place = rulebook.documents.agents[name].place
            yield Problem(place.whole, f"agents.{name}", message, fix, "warning")
    allowed = {rules.source for rules in rulebook.made_by_rules() if _allows(rules)}
    for rule in rulebook.documents.who:
        if rule.agent not in rulebook.agents and str(rule.place) not in allowed:
            message = f"Nothing is allowed to the agents it makes ({rule.agent}), so they may do nothing."
            fix = "Give it `roles` that allow something, or name an agent of the files."
            yield Problem(rule.place.whole, f"who.{rule.number - 1}.agent", message, fix, "warning")


def _allows(rules: AgentRules) -> bool:
    return METRICS_ROLE in rules.roles or any(rule.field == "allow" for step in rules.steps for rule in step.body.rules)
