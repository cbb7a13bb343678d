"""Challenges: the `WWW-Authenticate` fields of a response that refuses a request (RFC 9110, 11.6.1; RFC 6750, 3)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.accounts.oauth.scopes import parse_scope

_BYTES_AT_MOST: Final = 16 * 1024
_CHALLENGES_AT_MOST: Final = 16
_PARAMS_AT_MOST: Final = 32
_WORD: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_SEPARATORS: Final = re.compile(r"[\s,]*")
_PARAM: Final = re.compile(rf"({_WORD})\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,\"]+))", re.DOTALL)
_SCHEME: Final = re.compile(rf"({_WORD})(?=\s|,|$)")
# Credentials in the older form; `=` ends it, and no value follows (RFC 9110, 11.2).
_TOKEN_68: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$))")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NOT_QUOTABLE: Final = re.compile(r"[^ !#-\[\]-~]")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge. scheme and the names of params are in lower case."""

    scheme: str
    params: Mapping[str, str]

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The demanded scopes; None if the challenge names none."""
        return parse_scope(self.params.get("scope")) or None


def parse(values: Sequence[str]) -> list[Challenge]:
    """Return the challenges in the values of `WWW-Authenticate` fields, in order.

    What cannot be read is left out. A parameter that is there twice counts with its first value.
    """
    found: list[Challenge] = []
    for value in values:
        _parse_one(value[:_BYTES_AT_MOST], found)
    return found


def _parse_one(value: str, found: list[Challenge]) -> None:
    """Add the challenges of one field; the end of it that cannot be read is left out."""
    params: dict[str, str] | None = None
    at = 0
    while len(found) <= _CHALLENGES_AT_MOST:
        at = _end(_SEPARATORS.match(value, at), at)
        if at >= len(value):
            return
        if params is not None and (param := _PARAM.match(value, at)):
            if len(params) < _PARAMS_AT_MOST:
                text = param[3] if param[2] is None else _ESCAPED.sub(r"\1", param[2])
                params.setdefault(param[1].lower(), text)
            at = param.end()
        elif scheme := _SCHEME.match(value, at):
            params = {}
            found.append(Challenge(scheme[1].lower(), params))
            at = _end(_SEPARATORS.match(value, scheme.end()), scheme.end())
            if not _PARAM.match(value, at) and "," not in value[scheme.end() : at]:
                at = _end(_TOKEN_68.match(value, at), at)
        else:
            # Go on behind the next comma that may begin something.
            at = value.find(",", at) + 1
            if at == 0:
                return


def _end(match: re.Match[str] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()


def bearer(values: Sequence[str]) -> Challenge | None:
    """Return the first challenge of the scheme Bearer, one that names `resource_metadata` before others."""
    all_of_them = [challenge for challenge in parse(values) if challenge.scheme == "bearer"]
    with_metadata = [challenge for challenge in all_of_them if "resource_metadata" in challenge.params]
    return next(iter((*with_metadata, *all_of_them)), None)


def bearer_challenge(
    realm: str,
    resource_metadata: str | None = None,
    scope: Sequence[str] = (),
    error: str | None = None,
    error_description: str | None = None,
) -> str:
    """Return the value of a `WWW-Authenticate` field of the scheme Bearer."""
    params = {
        "realm": realm,
        "error": error,
        "error_description": error_description,
        "resource_metadata": resource_metadata,
        "scope": " ".join(scope) or None,
    }
    return "Bearer " + ", ".join(
        f'{name}="{_NOT_QUOTABLE.sub("?", value)}"' for name, value in params.items() if value is not None
    )
