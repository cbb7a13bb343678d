"""Warn of rules that are valid and probably mistakes: patterns that match nothing, rules that can never count.

Law: only warnings; the policy in force does not depend on them.
"""

from collections.abc import Iterator, Mapping

from aggregator.config.files.report import nearest
from aggregator.domain.problems import Problem
from aggregator.flow.lint import lint_flow
from aggregator.policy.annotations import is_trusted
from aggregator.policy.files.idle_agents import idle_agents
from aggregator.policy.files.known_names import KnownNames, nothing_matches
from aggregator.policy.patterns import Pattern
from aggregator.policy.rulebook import AgentRules, Rulebook, target_of
from aggregator.policy.rules import Body, Place, Rule, WhoRule
from aggregator.policy.who import covers


def lint(rulebook: Rulebook, known: KnownNames) -> list[Problem]:
    """Return every warning, by place."""
    reached = _reached(rulebook)
    found = [*idle_agents(rulebook), *_unused_roles(rulebook, reached)]
    for body in _bodies(rulebook):
        for rule in body.rules:
            unmatched = nothing_matches(rule.pattern, known)
            if unmatched is not None:
                found.append(_warning(rule.place, body, rule.field, *unmatched))
            elif (never := _without_effect(rule, reached.get(body.owner, []), known)) is not None:
                found.append(_warning(rule.place, body, rule.field, never, "Take one of the two out."))
    found += _bindings(rulebook, reached, known)
    found += _tenants(rulebook, known)
    found += _confirmed(rulebook, reached)
    found += _who(rulebook, known)
    found += lint_flow(rulebook, known)
    return sorted(found, key=lambda problem: (problem.file.rpartition(":")[0], _line(problem), problem.where))


def _bodies(rulebook: Rulebook) -> Iterator[Body]:
    documents = rulebook.documents
    yield from documents.agents.values()
    yield from documents.roles.values()
    if documents.defaults is not None:
        yield documents.defaults


def _reached(rulebook: Rulebook) -> dict[str, list[AgentRules]]:
    """Return the agents that each body's rules count for."""
    reached: dict[str, list[AgentRules]] = {}
    for rules in (*rulebook.agents.values(), *rulebook.made_by_rules()):
        for step in rules.steps:
            reached.setdefault(step.body.owner, []).append(rules)
    return reached


def _who(rulebook: Rulebook, known: KnownNames) -> Iterator[Problem]:
    """Yield warnings about rules `who` that no token reaches."""
    rules = rulebook.documents.who
    for rule in rules:
        fault = _issuer(rule, known.issuers) if known.issuers is not None else None
        if fault is not None:
            yield Problem(rule.place.whole, f"who.{rule.number - 1}.issuer", *fault, "warning")
        earlier = next((one for one in rules[: rule.number - 1] if covers(one, rule)), None)
        if earlier is not None:
            message = f"It can never count: {earlier} ({earlier.place}) fits every token that it fits, and comes first."
            yield Problem(
                rule.place.whole, f"who.{rule.number - 1}", message, "Put it first, or take it out.", "warning"
            )


def _unused_roles(rulebook: Rulebook, reached: Mapping[str, list[AgentRules]]) -> Iterator[Problem]:
    for role in rulebook.documents.roles.values():
        if role.owner not in reached:
            yield _warning(role.place, role, None, "No agent has this role.", "Name it under `roles:` of an agent.")


def _issuer(rule: WhoRule, issuers: tuple[str, ...]) -> tuple[str, str] | None:
    """Return a message and a fix if no token has the issuer of a rule."""
    if rule.issuer is None:
        if len(issuers) < 2:
            return None
        return "It fits no token: `auth.issuers` has several issuers, and it names none.", "Give it an `issuer`."
    if rule.issuer in issuers:
        return None
    suggestion = nearest(rule.issuer, issuers)
    fix = f"Did you mean `{suggestion}`?" if suggestion else "Add it to `auth.issuers`, or take the rule out."
    return f"It fits no token: `auth.issuers` has no issuer {rule.issuer}.", fix


def _without_effect(rule: Rule, holders: list[AgentRules], known: KnownNames) -> str | None:
    """Return a message if a rule counts for none of its agents, because everything it matches is denied to them."""
    if rule.field not in ("allow", "confirm", "confirm_people", "arguments", "limits", "scopes") or not holders:
        return None
    covering = [next((d for d in _denials(rules) if _covers(d.pattern, rule.pattern)), None) for rules in holders]
    if all(covering):
        return f'It can never count: {covering[0]} denies all that "{rule.pattern}" matches ({_place(covering[0])}).'
    if not known.tools or rule.pattern.kind not in ("tool", "server"):
        return None
    tools = [tool for tool in known.tools if rule.pattern.matches(target_of(tool))]
    decided = [
        rules.decide(tool, trusted=is_trusted(known.trusted, tool.server)) for rules in holders for tool in tools[:200]
    ]
    if not decided or len(tools) > 200 or any(decision.visible for decision in decided):
        return None
    why = f"{decided[0].reason} ({decided[0].source})" if decided[0].source else decided[0].reason
    return (
        f'It can never count: every tool that "{rule.pattern}" matches is denied, such as {target_of(tools[0])}: {why}.'
    )


def _denials(rules: AgentRules) -> Iterator[Rule]:
    yield from (rule for step in rules.steps for rule in step.body.rules if rule.field == "deny")


def _covers(wide: Pattern, narrow: Pattern) -> bool:
    """Tell whether `wide` surely matches all that `narrow` does: with stars alone it does when it matches its text."""
    if wide.kind != narrow.kind:
        return False
    return wide.text == narrow.text or ("?" not in wide.glob and "[" not in wide.glob and wide.fits(narrow.glob))


def _place(rule: Rule | None) -> str:
    return str(rule.place) if rule is not None else ""


def _bindings(rulebook: Rulebook, reached: Mapping[str, list[AgentRules]], known: KnownNames) -> Iterator[Problem]:
    for body in _bodies(rulebook):
        for plain_name, bound in body.bindings.items():
            fault = _binding(plain_name, bound.value, reached.get(body.owner, []), known)
            if fault is not None:
                yield _warning(bound.place, body, "bindings", *fault)


def _binding(plain_name: str, server: str, holders: list[AgentRules], known: KnownNames) -> tuple[str, str] | None:
    if known.servers and server not in known.ids:
        suggestion = nearest(server, known.ids)
        return f"There is no server {server}.", f"Did you mean `{suggestion}`?" if suggestion else "Correct the name."
    own = [tool for tool in known.tools or () if tool.server == server]
    if not own:
        return None
    meant_tool = next((tool for tool in own if tool.own_name == plain_name), None)
    if meant_tool is None:
        suggestion = nearest(plain_name, [tool.own_name for tool in own])
        fix = f"Did you mean `{suggestion}`?" if suggestion else "Write the name as the server itself has it."
        return f"Server {server} has no tool {plain_name}.", fix
    trusted = is_trusted(known.trusted, server)
    for rules in holders:
        if not rules.decide(meant_tool, trusted=trusted).visible:
            fix = f'Add "{meant_tool.name}" to `allow`: a binding grants nothing.'
            return f"{meant_tool.name} is bound and not allowed to agent {rules.agent_id}.", fix
    return None


def _confirmed(rulebook: Rulebook, reached: Mapping[str, list[AgentRules]]) -> Iterator[Problem]:
    """Yield warnings about confirmation settings that make no difference to any agent."""
    by_flow = any(rule.then == "confirm" for rule in rulebook.documents.flow)
    for body in _bodies(rulebook):
        holders = reached.get(body.owner, [])
        fallback, by = body.settings.get("confirm_fallback"), body.settings.get("confirm_by")
        if fallback is not None and holders and all(rules.confirm_by == "queue" for rules in holders):
            message = "It has no effect: where `confirm_by` is `queue` no host is asked."
            yield _warning(fallback.place, body, "confirm_fallback", message, "Take it out.")
        wait = body.settings.get("confirm_wait")
        for name, setting in (("confirm_by", by), ("confirm_wait", wait)):
            if setting is not None and holders and not by_flow and not any(map(_wants_confirmation, holders)):
                message = "It has no effect: nothing makes a call wait for a person."
                fix = "Add `confirm:`, or `annotations` with `confirm`."
                yield _warning(setting.place, body, name, message, fix)
                break
        else:
            if wait is not None and holders and not any(_queues(rules) for rules in holders):
                message = "It has no effect: no call of these agents gets into the queue."
                fix = "Add `confirm_by: queue`, or `confirm_fallback: queue`."
                yield _warning(wait.place, body, "confirm_wait", message, fix)


def _wants_confirmation(rules: AgentRules) -> bool:
    """Tell whether any rule of the agent requires confirmation."""
    return any(bound.value == "confirm" for bound in rules.annotations.values()) or any(
        rule.field in ("confirm", "confirm_people") for step in rules.steps for rule in step.body.rules
    )


def _queues(rules: AgentRules) -> bool:
    """Tell whether the queue may confirm a call of the agent."""
    several = (
        rule for step in rules.steps for rule in step.body.rules if rule.field == "confirm_people" and rule.value > 1
    )
    return "queue" in (rules.confirm_by, rules.confirm_fallback) or any(several)


def _tenants(rulebook: Rulebook, known: KnownNames) -> Iterator[Problem]:
    for name, servers in rulebook.documents.tenants.items():
        for server, place in servers.items():
            if known.servers and server not in known.ids:
                suggestion = nearest(server, known.ids)
                fix = f"Did you mean `{suggestion}`?" if suggestion else "Write it as `aggregator check` prints it."
                where = f"tenants.{name}.servers"
                yield Problem(place.whole, where, f"There is no server {server}.", fix, "warning")


def _warning(place: Place, body: Body, key: str | None, message: str, fix: str) -> Problem:
    where = "defaults" if body.kind == "defaults" else f"{body.kind}s.{body.name}"
    return Problem(place.whole, f"{where}.{key}" if key else where, message, fix, "warning")


def _line(problem: Problem) -> int:
    return int(problem.file.rpartition(":")[2])
