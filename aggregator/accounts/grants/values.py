"""Values that connecting an account passes in and out: links, pages, outcomes, and the accounts that there are."""

from dataclasses import dataclass, field
from typing import Literal

from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal


@dataclass(frozen=True, slots=True)
class ConnectLink:
    """The link that connects an account.

    code: the secret key of the link, for those who may connect. url: None if this process has no pages. command: the
    command to run instead. expires: seconds since 1970.
    """

    code: str = field(repr=False)
    url: str | None = field(repr=False)
    expires: float
    command: str = ""


@dataclass(frozen=True, slots=True)
class ConnectPage:
    """The subject of a link, for the page behind it. server: its id.

    asked_by: the principal that the link was made for, without the text of its token. scopes: the requested scopes;
    None to request none. issuer, resource: the destination of the user, and the resource. again: there was a grant
    before. signs_in: signing in is the only step (`grant: enterprise`).
    """

    server: str
    owner: GrantOwner
    asked_by: Principal
    issuer: str
    resource: str
    scopes: tuple[str, ...] | None
    expires: float
    again: bool = False
    signs_in: bool = False


@dataclass(frozen=True, slots=True)
class ConnectOutcome:
    """The end of a way through the browser. said: one sentence for the page. server, owner: None for unknown links."""

    connected: bool
    said: str
    server: str | None = None
    owner: GrantOwner | None = None


@dataclass(frozen=True, slots=True)
class DevicePrompt:
    """The code that a user enters at another device. code: the argument of `finish_device`."""

    code: str = field(repr=False)
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None
    expires: float
    interval: float


@dataclass(frozen=True, slots=True)
class ConnectedAccount:
    """A grant in lists.

    state: `connected`, or `broken` if a user has to connect again, for the reason in `problem`. expires: the end of the
    access token; or None. renewable: it is refreshed without a user. resource: the server's address without query.
    created, updated, expires: seconds since 1970.
    """

    server: str
    owner: GrantOwner
    issuer: str
    resource: str
    scopes: tuple[str, ...] | None
    state: Literal["connected", "broken"]
    problem: str | None
    expires: float | None
    renewable: bool
    created: float
    updated: float
