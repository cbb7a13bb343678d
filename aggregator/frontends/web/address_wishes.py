"""The wishes in the address of an MCP frontend: `?names=compatible`, or `/compatible` behind its path, and `?schema=`.

Rule 1: the path form becomes the query form before anything else reads the path, so that the agent of a path and the
protected resource are those of the plain address.
Rule 2: an unknown value is refused, since the host would get another list than it asked for. A misspelt parameter of
ours is refused too. All other parameters are ignored.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
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
_VALUES: Final[Mapping[str, Sequence[str]]] = {NAMES: get_args(Style), SCHEMA: get_args(Schemas)}
# Members that are none of ours which are looked at, and characters of the name of one.
_LOOKED_AT: Final = 20
_LONGEST: Final = 20
# How like ours a name is that is meant as ours, from 0 to 1.
_ALIKE: Final = 0.75
# The query, and the end of a path, of the address for hosts whose model APIs take no dots in names.
COMPATIBLE_QUERY: Final = f"?{NAMES}=compatible"
COMPATIBLE_PATH: Final = "/compatible"


def framework_path(http: HttpConfig) -> str:
    """Return the path and the query for hosts that pass a list to a model API as it comes, as agent frameworks do."""
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
    if given.keys() - _VALUES.keys():
        _refuse_misspelt(given)
    return AddressWishes(_wish(given, NAMES, get_args(Style)), _wish(given, SCHEMA, get_args(Schemas)))


def _refuse_misspelt(query: Mapping[str, Sequence[str]]) -> None:
    """Raise WrongAddress for a member that is meant as one of ours: by its name, or by a name like it and its value."""
    for field, given in islice(query.items(), _LOOKED_AT):
        if field in _VALUES:
            continue
        letters = "".join(filter(str.isalpha, field[:_LONGEST].casefold()))
        meant = next((ours for ours in _VALUES if letters in (ours, f"{ours}s", ours.rstrip("s"))), None)
        if meant is None and _value_of_ours(given):
            from difflib import get_close_matches  # needed for wrong addresses only, and slow to import

            meant = next(iter(get_close_matches(letters, _VALUES, 1, _ALIKE)), None)
        if meant is not None:
            values = ", ".join(f"`{meant}={value}`" for value in _VALUES[meant])
            said = f"{field!r:.40} is not known: `{meant}` is meant. Write one of {values}, or leave it out."
            raise WrongAddress(f"In the query of this address, {said}")


def _value_of_ours(given: Sequence[str]) -> bool:
    return any(given[0].strip().casefold() in values for values in _VALUES.values())


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
