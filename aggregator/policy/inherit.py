"""Work out the rules and settings of an agent from its roles and the defaults.

Rule 1: lists add up. Rule 2: of single values the nearest counts: the agent's own, then its roles', then the defaults'.
Rule 3: two roles equally near that differ: the stricter value counts; if neither is stricter, it is a conflict. Rule 4:
the order in which roles are named changes nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from aggregator.policy.rules import Body, Documents, Setting

# Per setting, the values from strict to lenient. Settings that are not here have no stricter value.
STRICTNESS: Final[Mapping[str, tuple[str, ...]]] = {
    "confirm_by": ("queue", "host"),
    "confirm_fallback": ("deny", "queue"),
    "denials": ("hidden", "explicit"),
    "annotations.destructive": ("deny", "confirm", "allow"),
    "annotations.open_world": ("deny", "confirm", "allow"),
    "annotations.read_only": ("deny", "confirm", "allow"),
    "annotations.idempotent": ("deny", "confirm", "allow"),
}
# Settings that are numbers, of which the smallest counts.
SMALLEST: Final = frozenset({"confirm_wait"})


class InheritedBody(NamedTuple):
    """One body an agent's rules come from, and its line of inheritance: `agent shop > role clerk > role reader`."""

    body: Body
    route: str


class Conflict(ValueError):
    """Two roles, equally near, say different things and neither is stricter."""

    def __init__(self, one: Setting, other: Setting) -> None:
        super().__init__(f"{one.owner} and {other.owner} differ")
        self.one = one
        self.other = other


def chain(agent: Body, documents: Documents) -> tuple[InheritedBody, ...]:
    """Return the agent itself, then its roles, the nearest first, then the defaults; each once."""
    found = {agent.owner: InheritedBody(agent, agent.owner)}
    waiting = deque([found[agent.owner]])
    while waiting:
        step = waiting.popleft()
        for name in sorted(step.body.roles):
            role = documents.roles[name]
            if role.owner not in found:
                found[role.owner] = InheritedBody(role, f"{step.route} > {role.owner}")
                waiting.append(found[role.owner])
    if documents.defaults is not None:
        found["defaults"] = InheritedBody(documents.defaults, f"{agent.owner} > defaults")
    return tuple(found.values())


def setting(agent: Body, documents: Documents, name: str) -> Setting | None:
    """Return the value that counts for an agent.

    Raises:
        Conflict: two roles differ on it.
    """
    return _nearest(agent, documents, lambda body: body.settings.get(name), name)


def binding(agent: Body, documents: Documents, plain_name: str) -> Setting | None:
    """Return the server a plain name is bound to.

    Raises:
        Conflict: two roles differ on it.
    """
    return _nearest(agent, documents, lambda body: body.bindings.get(plain_name), None)


def bound_names(steps: Iterable[InheritedBody]) -> list[str]:
    """Return every plain name that is bound anywhere on the chain."""
    return sorted({name for step in steps for name in step.body.bindings})


def _nearest(
    agent: Body, documents: Documents, read: Callable[[Body], Setting | None], name: str | None
) -> Setting | None:
    known: dict[str, Setting | None] = {}

    def value(body: Body) -> Setting | None:
        if body.owner not in known:
            own = read(body)
            known[body.owner] = own or _strictest(
                [found for role in sorted(body.roles) if (found := value(documents.roles[role]))], name
            )
        return known[body.owner]

    return value(agent) or (read(documents.defaults) if documents.defaults is not None else None)


def _strictest(settings: list[Setting], name: str | None) -> Setting | None:
    if not settings:
        return None
    if name in SMALLEST:
        return min(settings, key=lambda found: float(found.value))
    order = STRICTNESS.get(name or "")
    if order is not None:
        return min(settings, key=lambda found: order.index(found.value))
    for other in settings[1:]:
        if other.value != settings[0].value:
            raise Conflict(settings[0], other)
    return settings[0]
