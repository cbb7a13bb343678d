"""The services of the program that the pages of the console use."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.accounts.grants.values import ConnectedAccount, ConnectLink
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.call_record import EventKind
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.status_pages import StatusReport
from aggregator.gateway.access import Access
from aggregator.gateway.ask.answer_watch import AnswerWatch
from aggregator.gateway.browse import ToolBrowser
from aggregator.gateway.calls.running_calls import RunningCalls
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.pins.decide.values import PinKind
from aggregator.pins.gateway.state import HeldItem
from aggregator.policy.live import LivePolicies
from aggregator.redaction.redactor import Redactor
from aggregator.storage.errors import StorageError
from aggregator.telemetry.last_hour import Hour
from aggregator.telemetry.snapshot import Snapshot
from aggregator.upstream.upstream import Upstream

if TYPE_CHECKING:
    from aggregator.storage.opening import Database


# The path of the console, below the prefix of a proxy.
CONSOLE_PATH: Final = "/console"


class DatabaseOpener(Protocol):
    """The database of the process, opened when it is first needed."""

    async def open(self) -> "Database | None":
        """Return the open database, or None if there is none.

        Raises:
            StorageError: it cannot be used.
        """


# The configuration in force, which a reload replaces.
ConfigInForce = Callable[[], Config]
# Measures the process, as for one scrape of the metrics.
MeasuredState = Callable[[], Snapshot]
# Computes the calls of the last hour, in a thread; None if they are not counted.
HourOfCalls = Callable[[], Coroutine[Any, Any, Hour | None]]
# Returns the calls that run now, at all replicas, and the names of those that did not say.
RunningOfAll = Callable[[], Coroutine[Any, Any, tuple[RunningCalls, tuple[str, ...]]]]


class EventRecorder(Protocol):
    """A function that writes one audit event; `details` are short JSON values without secrets."""

    def __call__(
        self,
        kind: EventKind,
        summary: str,
        *,
        agent: str | None = None,
        server: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None: ...


class ServerActions(Protocol):
    """The actions of an operator on one server, by its id; `by` is the name of the user, for the audit.

    Each raises `ActionRefused`, with the reason, if it is impossible now.
    """

    def restart_server(self, server: str, by: str) -> None:
        """Give a server a new connection now."""

    def switch_server_off(self, server: str, by: str) -> bool:
        """Switch a server off until the next start; return False if it is off already."""

    def switch_server_on(self, server: str, by: str) -> bool:
        """Start a server that was switched off; return False if it was not."""


class ConnectedGrants(Protocol):
    """The accounts at servers; see `grants.Grants`."""

    async def list(self, owner: GrantOwner | None = None) -> tuple[ConnectedAccount, ...]: ...

    async def begin(self, server: ServerConfig, owner: GrantOwner, asked_by: Principal) -> ConnectLink: ...

    async def start(self, code: str, redirect_uri: str, browser: str) -> str: ...

    async def revoke(self, server: str, owner: GrantOwner) -> bool: ...


class PinState(Protocol):
    """The pins as the program knows them."""

    @property
    def problem(self) -> str | None:
        """The reason why pins cannot be read or written now."""

    def is_locked(self, server: str) -> bool:
        """Tell whether the lock file sets the pins of a server."""

    def held_count(self, server: str) -> int:
        """Return the number of held definitions of a server."""

    def held(self, server: str) -> Sequence[HeldItem]:
        """Return the held definitions of a server, with the reasons."""

    def waiting(self, server: str) -> Sequence[HeldItem]:
        """Return the changed definitions of a server that wait while the approved ones are served."""

    def waiting_item(self, server: str, kind: PinKind, name: str) -> HeldItem | None:
        """Return one of these by its own name."""

    def look_now(self) -> None:
        """Apply new approvals at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleParts:
    """The services that pages use.

    `upstreams` are the servers by id, in config order, and `servers` acts on them; `browser` shows tools. `policies` is
    None without a folder for policy files. `report` returns readiness and its details. `answers` are the calls of this
    process that wait for confirmation. `grants` is None if no server has accounts, `pins` if nothing is pinned.
    """

    config: ConfigInForce
    gateway: Dispatcher
    answers: AnswerWatch
    browser: ToolBrowser
    upstreams: Mapping[str, Upstream]
    servers: ServerActions
    access: Access
    own: OwnAddress
    policies: LivePolicies | None
    database: DatabaseOpener
    redactor: Redactor
    report: StatusReport
    snapshot: MeasuredState
    hour: HourOfCalls
    running: RunningOfAll
    record: EventRecorder
    grants: ConnectedGrants | None = None
    pins: PinState | None = None

    async def opened(self) -> "Database":
        """Return the open database.

        Raises:
            StorageError: there is none, or it cannot be used.
        """
        database = await self.database.open()
        if database is None:
            raise StorageError("There is no database: the console needs one for its sessions (`storage`).")
        return database
