"""The configuration of one server, as the parts of its upstream share it."""

from aggregator.config.server_config import ServerConfig


class CurrentConfig:
    """The configuration of one server as it is now.

    value: replaced in place by a reload that needs no new connection; so it is read anew each time it is used.
    """

    __slots__ = ("value",)

    def __init__(self, value: ServerConfig) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<CurrentConfig {self.value.id}>"
