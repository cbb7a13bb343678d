"""The configuration of one server, shared by the parts of its upstream."""

from aggregator.config.server_config import ServerConfig


class CurrentConfig:
    """The current configuration of one server.

    value: a reload that needs no new connection replaces it, so read it anew for each use.
    """

    __slots__ = ("value",)

    def __init__(self, value: ServerConfig) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<CurrentConfig {self.value.id}>"
