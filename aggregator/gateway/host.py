"""The program at a door, as far as answers depend on it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.domain.names import Style
from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.dotless_hosts import refuses_dots

Notify = Callable[[str, Mapping[str, Any]], None]
Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(slots=True, eq=False)
class Host:
    """One connection or session; for 2026-07-28 over HTTP, one request.

    `version` is None until the handshake, and set per request by a modern envelope. `notify` and `ask` are the standing
    way to the host, for what belongs to no request; a host without a `session` has none. `log_level` is what it wants
    logged, as long as it said nothing None. `names` is how names are spelled for it by configuration; None leaves that
    to what it says of itself. `style` is how they are spelled, unless the policies say so for its agent.
    """

    door: str
    names: Style | None
    principal: Principal = LOCAL
    version: str | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    client_info: Mapping[str, Any] = field(default_factory=dict)
    initialized: bool = False
    notify: Notify | None = None
    session: str | None = None
    ask: Ask | None = None
    log_level: str | None = None
    style: Style = field(init=False)

    def __post_init__(self) -> None:
        self.style = self.names or "canonical"

    def introduce(self, client_info: object) -> bool:
        """Take what the host says of itself, if it does; whether names are spelled otherwise for it from now on."""
        if not isinstance(client_info, dict):
            return False
        before, self.client_info = self.style, client_info
        if self.names is None:
            self.style = "compatible" if refuses_dots(client_info) else "canonical"
        return self.style != before
