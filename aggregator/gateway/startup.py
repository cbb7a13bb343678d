"""The wait for upstreams that are still starting, before a first list or a miss is answered."""

from aggregator.config.model import Config
from aggregator.upstream.list_kinds import Kind
from aggregator.upstream.supervisor import Supervisor


class StartupWait:
    """The configured patience with starting upstreams."""

    def __init__(self, supervisor: Supervisor, config: Config) -> None:
        self._supervisor = supervisor
        self._config = config

    def reconfigure(self, config: Config) -> None:
        """Take the waiting times of a new configuration."""
        self._config = config

    async def settled(self, kind: Kind | None = "tool") -> None:
        """Wait until every upstream whose list of this kind is not known has come up or failed once, at most for the
        configured times; without a kind, for every upstream.
        """
        await self._supervisor.wait_listed(self._config.startup_wait, self._config.straggler_wait, kind)
