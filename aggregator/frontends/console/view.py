"""The request that a page of the console gets, and the view that it gives back. Pages know neither HTTP nor HTML."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from aggregator.domain.errors import AggregatorError
from aggregator.storage.records import ConsoleRole

ROLES: Final[tuple[ConsoleRole, ...]] = get_args(ConsoleRole)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The user behind a request. `session` is the id of their session, None for requests with an API key."""

    name: str
    role: ConsoleRole
    key_id: str | None = None
    session: str | None = None

    def may(self, role: ConsoleRole) -> bool:
        """Tell whether the user has the rights of this role."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request of a user. `path`, `query` and `form` are decoded; of a repeated field the first value counts.

    `form` has the fields of a POST, sent as a form or as a flat JSON object. `base` is the path of the console as the
    browser knows it, `origin` the scheme and authority of this address. `fragment`: the browser wants only a part of
    the page. `section` is the first segment of the path, which the navigation marks.
    """

    person: SignedIn
    base: str
    origin: str
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict, repr=False)
    fragment: bool = False
    as_json: bool = False
    section: str = ""


@dataclass(frozen=True, slots=True)
class PageView:
    """A page: `data` are plain JSON values, the variables of the template and the content of `.json`.

    `fragment` is the template to render if only that part is wanted.
    """

    template: str
    title: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    status: int = 200
    fragment: str | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """Another page to look at: its path below the console's, after an action."""

    to: str


@dataclass(frozen=True, slots=True)
class IssuerRedirect:
    """A redirect to an issuer, at which a user gives consent. browser: the secret that this browser alone gets, and
    must return (`connect/browser_cookie.py`).
    """

    to: str = field(repr=False)
    browser: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ConsoleStream:
    """Server-sent events, as bytes that are whole events (HTML Living Standard, section 9.2).

    The generator is closed when the browser disconnects, the user signs out, or the program ends.
    """

    events: AsyncIterator[bytes]


# A method of a page that answers one request.
Page = Callable[[ConsoleRequest], Awaitable[PageView | Redirect | IssuerRedirect | ConsoleStream]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """The route of a page: a path below the console's such as `/calls/{seq}`; `{name:path}` matches slashes too.

    `role` is the least role required. `summary` and `schema` (a JSON Schema of the data) are for the OpenAPI document;
    `fields` are the fields of a POST, or of the query of a GET, each with its purpose.
    """

    method: Literal["GET", "POST"]
    path: str
    role: ConsoleRole
    page: Page
    summary: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    fields: Mapping[str, str] = field(default_factory=dict)
    stream: bool = False


class NotThere(AggregatorError):
    """The thing that a request names does not exist. `see` are pages, below the console's path, that say more."""

    def __init__(self, message: str, see: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.see = see or {}


class BadInput(AggregatorError):
    """A field of a request that cannot be used: the message says why, and what would do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class FormTooLarge(AggregatorError):
    """A form that is larger than allowed, or ended early."""


class NotAllowed(AggregatorError):
    """The role of the user is not enough for a page."""


class NotConnected(AggregatorError):
    """The account cannot be connected: the issuer cannot be reached, or does not answer as it should."""


class NotPossible(AggregatorError):
    """The action is impossible in the current state, though the page was up to date; nothing was done."""


class ChangedMeanwhile(AggregatorError):
    """The target of the action has changed meanwhile; the action did nothing."""
