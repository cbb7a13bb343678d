"""A resource, prompt or template that a host named, with its server."""

from dataclasses import dataclass

from aggregator.domain.records import ItemKind
from aggregator.policy.patterns import Target, named_by_rules
from aggregator.upstream.upstream import Upstream


@dataclass(frozen=True, slots=True)
class ResolvedItem:
    """A resource, prompt or template of one upstream that a host named.

    `own` is the upstream's name, `requested` the host's. `takes` are the argument names that a prompt declares, None if
    they are unknown. `lost` are those of them that its server does not take any more. `sent_as` is the name that its
    server gives a prompt now, empty if that is `own`. `listed`, `also` and `skills` are facts of a resource for the
    rulebook (`Target`).
    """

    kind: ItemKind
    upstream: Upstream
    own: str
    requested: str
    takes: tuple[str, ...] | None = None
    lost: frozenset[str] = frozenset()
    listed: bool = False
    also: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    sent_as: str = ""

    @property
    def target(self) -> Target:
        """The item as patterns see it: one without a prefix by the id of its server."""
        server, (kind, name) = self.upstream.config, named_by_rules(self.kind, self.own)
        prefix = server.prefix or server.id
        return Target(kind, server.id, prefix, name, self.listed, self.also, self.skills, self.sent_as)

    @property
    def own_now(self) -> str:
        """The name or URI that its server gives it now."""
        return self.sent_as or self.own

    @property
    def name(self) -> str:
        """The item's name for operators: its server and its own name."""
        return f"{self.upstream.config.id} {self.own:.200}"
