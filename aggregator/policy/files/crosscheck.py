"""Check the bodies of all files against each other: names that are used exist, and nothing contradicts itself."""

from collections.abc import Iterable, Iterator

from aggregator.config.files.report import did_you_mean
from aggregator.domain.problems import Problem
from aggregator.policy.inherit import Conflict, binding, bound_names, chain, setting
from aggregator.policy.rules import Body, Documents, Place


def crosscheck(documents: Documents) -> list[Problem]:
    """Return every problem between bodies. Without an error here every agent's rules can be worked out."""
    problems = [*_roles(documents), *_tenants(documents), *_keys(documents)]
    return problems or [*_conflicts(documents)]


def _roles(documents: Documents) -> Iterator[Problem]:
    for body in (*documents.agents.values(), *documents.roles.values()):
        for name, place in sorted(body.roles.items()):
            if name not in documents.roles:
                yield _missing(place, body, "role", name, documents.roles)
    for body in documents.roles.values():
        cycle = _cycle(body.name, documents)
        if cycle and body.name == min(cycle):
            ring = " > ".join((*cycle, cycle[0]))
            place = body.roles[cycle[1 % len(cycle)]]
            yield _problem(place, body, f"Roles inherit each other in a ring: {ring}.", "Take one of them out.")


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


def _conflicts(documents: Documents) -> Iterator[Problem]:
    for agent in documents.agents.values():
        wanted = [("names", "names"), ("expose", "expose")]
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
    return Problem(str(place), f"{where}.{key}" if key else where, message, fix, "error")
