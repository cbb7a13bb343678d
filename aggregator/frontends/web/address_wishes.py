"""The wishes in the address of an MCP frontend: `?names=compatible`, or `/compatible` behind its path, and `?schema=`.

Rule 1: the path form becomes the query form before anything else reads the path, so that the agent of a path and the
protected resource are those of the plain address.
Rule 2: a value that is not known is refused, since a host would otherwise get what it did not ask for. Other members
of a query are none of ours.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, get_args
from urllib.parse import parse_qs, urlencode

from aggregator.config.settings import HttpConfig
from aggregator.dialects.names import Schemas
from aggregator.domain.names import Style
from aggregator.frontends.web.host_guard import Scope
from aggregator.gateway.host import NO_WISHES, AddressWishes

T = TypeVar("T", bound=str)

NAMES: Final = "names"
SCHEMA: Final = "schema"
# The query, and the end of a path, of the address for hosts whose model APIs take no dots in names.
COMPATIBLE_QUERY: Final = f"?{NAMES}=compatible"
COMPATIBLE_PATH: Final = "/compatible"


def framework_path(http: HttpConfig) -> str:
    """Return the path and the query for hosts that pass names to a model API as they come, as agent frameworks do."""
    return f"{http.path}{COMPATIBLE_QUERY}"


class WrongAddress(Exception):
    """The address asks for something that does not exist."""


def take_out_wishes(scope: Scope, *bases: str) -> None:
    """Turn the path form of an address below one of these paths into the query form."""
    path = scope["path"]
    plain = plain_path(path, *bases)
    if plain != path:
        query = scope["query_string"]
        scope["path"], scope["query_string"] = plain, query + b"&" * bool(query) + COMPATIBLE_QUERY[1:].encode()


def plain_path(path: str, *bases: str) -> str:
    """Return a path without the wish at its end, if it is one of these paths or below one."""
    whole = path.rstrip("/")
    if not whole.endswith(COMPATIBLE_PATH):
        return path
    plain = whole.removesuffix(COMPATIBLE_PATH)
    return (plain or "/") if any(f"{plain}/".startswith(f"{base.rstrip('/')}/") for base in bases) else path


def wishes_of(scope: Scope) -> AddressWishes:
    """Return what the address of a request asks for.

    Raises:
        WrongAddress: it has an unknown value, or two different ones.
    """
    query = scope.get("query_string")
    if not query:
        return NO_WISHES
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    return AddressWishes(_wish(given, NAMES, get_args(Style)), _wish(given, SCHEMA, get_args(Schemas)))


def _wish(query: Mapping[str, Sequence[str]], field: str, known: Sequence[T]) -> T | None:
    given = set(query.get(field, ()))
    if not given:
        return None
    for value in known:
        if given == {value}:
            return value
    shown = ", ".join(f"{value!r:.40}" for value in sorted(given)[:3])
    said = "is not known" if len(given) == 1 else "contradict each other"
    values = ", ".join(f"`{field}={value}`" for value in known)
    raise WrongAddress(f"In the query of this address, {field} {shown} {said}: write one of {values}, or leave it out.")


def query_of(scope: Scope) -> str:
    """Return the query that asks for the same of another process; empty without wishes."""
    wishes = wishes_of(scope)
    wished = {field: value for field, value in ((NAMES, wishes.names), (SCHEMA, wishes.schemas)) if value is not None}
    return f"?{urlencode(wished)}" if wished else ""
