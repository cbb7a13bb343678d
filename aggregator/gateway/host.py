"""The MCP client on the other side of a frontend, as far as answers depend on it."""

import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from aggregator.dialects.names import Schemas, dialect_of
from aggregator.domain.call_record import ON_RECORD
from aggregator.domain.names import Style
from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.dotless_hosts import refuses_dots

# Requests that may be decided by the scopes of the token that they were sent with.
BY_SCOPES: Final = ON_RECORD | {"resources/subscribe"}


class AskHost(Protocol):
    """One way to send a request to a host."""

    async def __call__(self, method: str, params: dict[str, Any], /) -> dict[str, Any]: ...


class HostConnection(Protocol):
    """The standing connection to a host, for messages that belong to no request of the host."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, if the host can be reached now."""

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the host's answer.

        Raises:
            NoBackChannel, PeerGone: the host is unreachable now.
            RpcError: the host answered with an error.
        """


# Counts one more call of a tool; returns False if it exceeds the limit.
CountCall = Callable[[], Awaitable[bool]]


class AddressWishes(NamedTuple):
    """What the address that a host connected to asks for; None leaves it to the settings. Rights never depend on it."""

    names: Style | None = None
    schemas: Schemas | None = None


NO_WISHES: Final = AddressWishes()


@dataclass(slots=True, eq=False)
class Host:
    """One connection or session of an MCP client; for 2026-07-28 over HTTP, one request.

    `version` is None until the handshake, and set per request by a modern envelope. `connection` sends notifications
    and requests that belong to no request of the host; None without a standing connection or a `session`. `log_level`
    is the level set by the host, None if it set none. `names` is the configured spelling of tool names; None leaves it
    to `client_info`. `schemas` is the configured dialect of definitions; None leaves it to `client_info` and
    `user_agent`. `wishes` are those of the host's address, and outdo both. `style` and `dialect` are the resulting
    ones, unless the policy sets others for the agent. `lists_all`: the address asks for names alone, so that a list has
    every tool, however many a model API takes. `headers` are the headers of the HTTP request, if the host is one
    of 2026-07-28. `copied_from` is the host that this one is a copy of, for requests with one token. `listed`: this
    process has sent it a list with tools. `count_call` counts the calls of a program, if the frontend counts calls.
    """

    frontend: str
    names: Style | None
    principal: Principal = LOCAL
    version: str | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    client_info: Mapping[str, Any] = field(default_factory=dict)
    initialized: bool = False
    connection: HostConnection | None = None
    session: str | None = None
    log_level: str | None = None
    headers: Mapping[str, list[str]] | None = None
    copied_from: "Host | None" = None
    listed: bool = False
    count_call: CountCall | None = None
    wishes: AddressWishes = NO_WISHES
    schemas: Schemas | None = None
    user_agent: str | None = None
    style: Style = field(init=False)
    dialect: Schemas = field(init=False)
    lists_all: bool = field(init=False)

    def __post_init__(self) -> None:
        # A model API takes no dots in names.
        of_api: Style | None = "compatible" if self.wishes.schemas not in (None, "original") else None
        self.names = self.wishes.names or of_api or self.names
        self.schemas = self.wishes.schemas or self.schemas
        self._set_dialect()
        self.style = self.names or "canonical"

    @property
    def original(self) -> "Host":
        """The host itself: the same for all requests of its session, whatever token each of them has."""
        return self.copied_from or self

    def of_request(self, method: str, principal: Principal) -> "Host":
        """Return the host as a request of this caller deals with it: the token of a later one does not change it."""
        if principal.token is None or method not in BY_SCOPES:
            return self
        asked = copy.copy(self)
        asked.principal, asked.copied_from = principal, self
        return asked

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to no request; drop it if there is no connection."""
        if self.connection is not None:
            self.connection.notify(method, params)

    def set_client_info(self, client_info: object) -> bool:
        """Take the host's `clientInfo`; return whether that changes its lists."""
        if not isinstance(client_info, dict):
            return False
        before, self.client_info = (self.style, self.dialect), client_info
        if self.names is None:
            self.style = "compatible" if refuses_dots(client_info) else "canonical"
        self._set_dialect()
        return (self.style, self.dialect) != before

    def _set_dialect(self) -> None:
        known = dialect_of(self.client_info, self.user_agent)
        # Who asks for names that model APIs take, as frameworks do, passes definitions to one too.
        self.lists_all = self.schemas is None and known == "original" and self.wishes.names == "compatible"
        self.dialect = self.schemas or ("portable" if self.lists_all else known)
