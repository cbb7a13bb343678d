"""The upstreams by their ids and prefixes."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.names import loosened
from aggregator.upstream.upstream import Upstream


class Upstreams(dict[str, Upstream]):
    """The upstreams by server id, in config order. The id still finds one that is ending.

    by_prefix: those by the prefix of their names, "" for none; one without a prefix only if it is enabled.
    by_name, by_loose_name: the ids of those that fit a name, by id and by shown name, as written and loosened.
    leaving: removed ones that still end their calls, by server id.
    """

    def __init__(self) -> None:
        super().__init__()
        self.leaving: dict[str, Upstream] = {}
        self.by_prefix: dict[str, Upstream] = {}
        self.by_name: Mapping[str, Sequence[str]] = {}
        self.by_loose_name: Mapping[str, Sequence[str]] = {}

    def replace(self, upstreams: Mapping[str, Upstream]) -> None:
        """Replace the present upstreams by these; the object stays the same."""
        self.clear()
        self.update(upstreams)
        self.by_prefix.clear()
        self.by_prefix.update(_prefixed(upstreams.values()))
        configs = [upstream.config for upstream in upstreams.values()]
        self.by_name = _named(configs, str)
        self.by_loose_name = _named(configs, loosened)

    def config_of(self, server: str) -> ServerConfig | None:
        """Return the current configuration of a server."""
        upstream = self.get(server)
        return upstream.config if upstream is not None else None

    def __missing__(self, server: str) -> Upstream:
        if server in self.leaving:
            return self.leaving[server]
        raise UpstreamUnavailable.for_good(server, f"{server} is no longer configured.")


def _prefixed(upstreams: Iterable[Upstream]) -> dict[str, Upstream]:
    return {one.config.prefix: one for one in upstreams if one.config.prefix or one.config.enabled}


def _named(configs: Iterable[ServerConfig], form: Callable[[str], str]) -> dict[str, list[str]]:
    """Return the ids of servers by one form of their ids and prefixes."""
    found: dict[str, list[str]] = {}
    for config in configs:
        for name in {form(config.id), form(config.prefix or config.id)}:
            found.setdefault(name, []).append(config.id)
    return found
