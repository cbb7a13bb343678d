"""Check the bodies of all files against each other: names that are used exist, and nothing contradicts itself."""

from collections.abc import Iterable, Iterator
from typing import Final

from aggregator.config.files.report import did_you_mean
from aggregator.domain.principal import LOCAL
from aggregator.domain.problems import Problem
from aggregator.policy.inherit import Conflict, binding, bound_names, chain, setting
from aggregator.policy.rules import BUILT_IN_LABELS, Body, Documents, Place, WhoRule, made_by

# A call checks the flow rules about it one after the other, and a conversation may have every label.
MOST_FLOW_RULES: Final = 500
MOST_LABELS: Final = 100
# Levels of roles below a role, itself counted.
DEEPEST: Final = 50
# Roles that the search for a ring starts from, and roles of it that are named.
_SUSPECTS: Final = 10
_SHOWN: Final = 20


def crosscheck(documents: Documents) -> list[Problem]:
    """Return every problem between bodies. Without an error here every agent's rules can be worked out."""
    problems = [*_roles(documents), *_tenants(documents), *_keys(documents), *_who(documents), *_one_name(documents)]
    problems += _flow(documents)
    return problems or [*_conflicts(documents)]


def _roles(documents: Documents) -> Iterator[Problem]:
    for body in (*documents.agents.values(), *documents.roles.values()):
        for name, place in sorted(body.roles.items()):
            if name not in documents.roles:
                yield _missing(place, body, "role", name, documents.roles)
    depths = _depths(documents)
    yield from _rings([body for name, body in sorted(documents.roles.items()) if name not in depths], documents)
    for name, depth in depths.items():
        if depth == DEEPEST:
            body = documents.roles[name]
            fix = "Give some of them the rules themselves."
            yield _problem(body.place, body, f"Roles inherit each other more than {DEEPEST} levels deep.", fix)


def _rings(suspects: list[Body], documents: Documents) -> Iterator[Problem]:
    """Yield the rings among roles that are in one or lead to one: at least one, and not all if there are many."""
    found = False
    for body in suspects[:_SUSPECTS]:
        cycle = _cycle(body.name, documents)
        if cycle and body.name == min(cycle):
            found = True
            ring = " > ".join((*cycle[:_SHOWN], *(("...",) if len(cycle) > _SHOWN else ()), cycle[0]))
            place = body.roles[cycle[1 % len(cycle)]]
            yield _problem(place, body, f"Roles inherit each other in a ring: {ring}.", "Take one of them out.")
    if suspects and not found:
        body = suspects[0]
        yield _problem(body.place, body, "The roles of this one inherit each other in a ring.", "Take one of them out.")


def _depths(documents: Documents) -> dict[str, int]:
    """Return how many levels of roles are below each role, except for those that a ring leads to."""
    above: dict[str, list[str]] = {}
    waiting: dict[str, int] = {}
    for name, body in documents.roles.items():
        known = [role for role in body.roles if role in documents.roles]
        waiting[name] = len(known)
        for role in known:
            above.setdefault(role, []).append(name)
    depths = {name: 0 for name, count in waiting.items() if not count}
    ready = list(depths)
    while ready:
        name = ready.pop()
        for other in above.get(name, ()):
            waiting[other] -= 1
            depths[other] = max(depths.get(other, 0), depths[name] + 1)
            if not waiting[other]:
                ready.append(other)
    return {name: depth for name, depth in depths.items() if not waiting[name]}


def _cycle(start: str, documents: Documents) -> tuple[str, ...]:
    """Return the shortest cycle from a role to itself, without its end."""
    chains: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    while chains:
        chain = chains.pop(0)
        for name in sorted(documents.roles[chain[-1]].roles):
            if name == start:
                return chain
            if name in documents.roles and name not in seen:
                seen.add(name)
                chains.append((*chain, name))
    return ()


def _tenants(documents: Documents) -> Iterator[Problem]:
    for body in documents.agents.values():
        tenant = body.settings.get("tenant")
        if tenant is not None and tenant.value not in documents.tenants:
            yield _missing(tenant.place, body, "tenant", tenant.value, documents.tenants)
    claims: dict[str, tuple[str, Place]] = {}
    for name, servers in sorted(documents.tenants.items()):
        for server, place in sorted(servers.items()):
            other, first = claims.setdefault(server, (name, place))
            if other != name:
                yield Problem(
                    str(place),
                    f"tenants.{name}.servers",
                    f"Server {server} belongs to tenant {other} already ({first}).",
                    "A server has one tenant, or none and is seen by all: take it out of one.",
                    "error",
                )


def _keys(documents: Documents) -> Iterator[Problem]:
    known: dict[str, tuple[str, Place]] = {}
    for body in documents.agents.values():
        for key in body.keys:
            owner, first = known.setdefault(key.key_id, (body.owner, key.place))
            if (owner, first) != (body.owner, key.place):
                message = f"The key id {key.key_id} is there already, for {owner} ({first})."
                yield _problem(key.place, body, message, "A key stands for one agent: make another.", "keys")


def _who(documents: Documents) -> Iterator[Problem]:
    for rule in documents.who:
        where = f"who.{rule.number - 1}"
        if rule.agent in documents.agents and (rule.roles or rule.tenant is not None):
            said = f"The agent {rule.agent} has roles and a tenant of its own."
            yield Problem(rule.place.whole, where, said, "Take `roles` and `tenant` out of this rule.", "error")
        if rule.agent == LOCAL.agent_id:
            said = f"`{LOCAL.agent_id}` is the agent of this machine, which needs no token."
            yield Problem(rule.place.whole, f"{where}.agent", said, "Give it another name.", "error")
        for name in rule.roles:
            if name not in documents.roles:
                fix = did_you_mean(name, documents.roles) or "Define it under `roles:`, in this file or another."
                yield Problem(rule.place.whole, f"{where}.roles", f"There is no role {name}.", fix, "error")
        if rule.tenant is not None and rule.tenant not in documents.tenants:
            fix = did_you_mean(rule.tenant, documents.tenants) or "Define it under `tenants:`, in this file or another."
            yield Problem(rule.place.whole, f"{where}.tenant", f"There is no tenant {rule.tenant}.", fix, "error")


def _flow(documents: Documents) -> Iterator[Problem]:
    for what, most, places in (
        ("labels", MOST_LABELS, [label.place for label in documents.labels.values()]),
        ("flow", MOST_FLOW_RULES, [rule.place for rule in documents.flow]),
    ):
        if len(places) > most:
            said = f"There are {len(places):,} of them in all files, and {most:,} are taken at most."
            yield Problem(places[most].whole, what, said, "Put some together.", "error")
            return
    known = dict.fromkeys((*BUILT_IN_LABELS, *documents.labels))
    for rule in documents.flow:
        for field, names in (("after", rule.after), ("calls", rule.calls)):
            for name in sorted(names - known.keys()):
                fix = did_you_mean(name, known) or "Define it under `labels:`, in this file or another."
                yield Problem(rule.place.whole, f"flow.{field}", f"There is no label {name}.", fix, "error")


def _one_name(documents: Documents) -> Iterator[Problem]:
    """Yield errors about rules that could give two users, or a user and a program, agents of one name."""
    seen: list[WhoRule] = []
    for rule in documents.who:
        if "{" not in rule.agent:
            continue
        other = next((one for one in seen if _may_meet(one, rule)), None)
        if other is not None:
            said = f"Agents of two callers could have one name: `{other.agent}` ({other.place}) and `{rule.agent}`."
            fix = "Have their names begin so that neither beginning is part of the other, such as `a-` and `b-`."
            yield Problem(rule.place.whole, f"who.{rule.number - 1}.agent", said, fix, "error")
        seen.append(rule)


def _may_meet(one: WhoRule, other: WhoRule) -> bool:
    """Return whether two rules could make one name of claims of two callers."""
    if one.agent == other.agent:
        return None not in (one.issuer, other.issuer) and one.issuer != other.issuer
    first, second = (rule.agent.partition("{")[0].lower() for rule in (one, other))
    return first.startswith(second) or second.startswith(first)


def _conflicts(documents: Documents) -> Iterator[Problem]:
    for agent in (*documents.agents.values(), *made_by(documents)):
        wanted = [(name, name) for name in ("names", "schemas", "expose")]
        wanted += [(name, f"bindings.{name}") for name in bound_names(chain(agent, documents))]
        for name, what in wanted:
            try:
                if what == name:
                    setting(agent, documents, name)
                else:
                    binding(agent, documents, name)
            except Conflict as conflict:
                one, other = conflict.one, conflict.other
                message = (
                    f"Its roles differ on `{what}`: {one.value} ({one.owner}, {one.place}) "
                    f"and {other.value} ({other.owner}, {other.place})."
                )
                yield _problem(agent.place, agent, message, f"Write `{what}` at {agent.owner} itself.")


def _missing(place: Place, body: Body, kind: str, name: str, known: Iterable[str]) -> Problem:
    fix = did_you_mean(name, known) or f"Define it under `{kind}s:`, in this file or another."
    return _problem(place, body, f"There is no {kind} {name}.", fix, kind if kind == "tenant" else f"{kind}s")


def _problem(place: Place, body: Body, message: str, fix: str, key: str | None = None) -> Problem:
    where = "defaults" if body.kind == "defaults" else f"{body.kind}s.{body.name}"
    return Problem(place.whole, f"{where}.{key}" if key else where, message, fix, "error")
