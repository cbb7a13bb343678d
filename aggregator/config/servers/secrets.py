"""Detection of secrets among the configured values, besides those that came from variables and files."""

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from aggregator.redaction.field_names import is_opaque

# Fields of `auth` that are secrets as a whole.
AUTH_SECRETS: Final = frozenset({"client_secret", "private_key", "subject_token"})
TLS_SECRETS: Final = frozenset({"client_key_password"})
_TELLING: Final = re.compile(r"(?i)key|token|secret|pass|pwd|credential|auth|cookie|signature|(^|_)pat$")
# `--api-key=...`, `API_KEY=...`, `Authorization: ...`, as one argument.
_ASSIGNED: Final = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)(?:=|:\s*)(.+)", re.ASCII | re.DOTALL)
_FLAG: Final = re.compile(r"--?[A-Za-z_][\w.-]*")
# The shortest part of a path that is taken for a key if it looks random: some services put keys into addresses.
_LONG_PART: Final = 20
_DIGITS: Final = 4


def secrets_in(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the secrets of one entry: header values, secrets of `auth`, passwords and keys in addresses, variables and
    arguments with telling names.
    """
    for name, value in _pairs(fields.get("headers")):
        yield from _in_header(name, value)
    launch = fields.get("launch")
    launched = launch if isinstance(launch, Mapping) else {}
    for part in (fields, launched):
        for name, value in _pairs(part.get("env")):
            if _TELLING.search(name):
                yield value
            yield from secrets_in_address(value)
        args = part.get("args")
        yield from _in_arguments([str(arg) for arg in args] if isinstance(args, list | tuple) else [])
    yield from (value for name, value in _pairs(fields.get("auth")) if name in AUTH_SECRETS)
    yield from (value for name, value in _pairs(fields.get("tls")) if name in TLS_SECRETS)
    for address in (fields.get("url"), fields.get("proxy")):
        if isinstance(address, str):
            yield from secrets_in_address(address)


def secrets_in_address(address: str) -> Iterator[str]:
    """Yield the password of an address, the values of its query with telling names or random look, keys in its path."""
    if "://" not in address:
        return
    try:
        parts = urlsplit(address)
        user, password, query = parts.username, parts.password, parse_qsl(parts.query)
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
    elif user and is_opaque(unquote(user)):
        yield user
        yield unquote(user)
    for name, value in query:
        if _TELLING.search(name) or (len(value) >= _LONG_PART and is_opaque(value)):
            yield value
    for part in parts.path.split("/"):
        if len(part) >= _LONG_PART and sum(map(str.isdigit, part)) >= _DIGITS:
            yield part


def _in_header(name: str, value: str) -> Iterator[str]:
    yield value
    scheme, _, rest = value.partition(" ")
    if name.lower().endswith("authorization") and scheme.isalpha():
        yield rest.strip()
        if scheme.lower() == "basic":
            yield from _in_login(rest.strip())
    elif name.lower() == "cookie":
        yield from (pair.partition("=")[2].strip() for pair in value.split(";"))


def _in_login(encoded: str) -> Iterator[str]:
    """Yield user and password of HTTP Basic (RFC 7617), and the password alone, which a server may repeat."""
    try:
        login = b64decode(encoded, validate=True).decode()
    except ValueError:
        return
    yield login
    yield login.partition(":")[2]


def _in_arguments(args: Iterable[str]) -> Iterator[str]:
    flag = ""
    for arg in args:
        assigned = _assigned(arg)
        # A key may begin with a dash, as a flag does; a flag consists of words.
        if _TELLING.search(flag) and (not _FLAG.match(arg) or (is_opaque(arg) and not assigned)):
            yield arg
        elif assigned is not None and _TELLING.search(assigned[1]):
            yield from _in_header(assigned[1], assigned[2])
        yield from secrets_in_address(assigned[2] if assigned is not None and "://" in assigned[2] else arg)
        flag = arg if _FLAG.fullmatch(arg) else ""


def _assigned(arg: str) -> re.Match[str] | None:
    """Return the name and the value of an argument that has both; of `--env=NAME=VALUE` those inside, if they tell."""
    found = _ASSIGNED.fullmatch(arg)
    if found is None or not arg.startswith("-") or _TELLING.search(found[1]):
        return found
    inside = _ASSIGNED.fullmatch(found[2])
    return inside if inside is not None and _TELLING.search(inside[1]) else found


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(name), str(item)) for name, item in value.items() if item is not None)
