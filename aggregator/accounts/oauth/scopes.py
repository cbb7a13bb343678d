"""The choice of scopes to ask for. This file decides."""

from collections.abc import Sequence
from typing import Final

# Requests a refresh token, if an issuer supports it (OpenID Connect Core 11; MCP 2026-07-28, Refresh Tokens).
OFFLINE: Final = "offline_access"
# Of one document or challenge; a list that is longer is cut.
_AT_MOST: Final = 200
# Characters of one `scope` value that are read.
_LONGEST_VALUE: Final = 16_384
_LONGEST: Final = 200


def first_scopes(
    challenged: Sequence[str] | None,
    of_resource: Sequence[str] | None,
    of_issuer: Sequence[str] | None,
    configured: Sequence[str] = (),
) -> tuple[str, ...] | None:
    """Return the scopes to request at first; None to omit the parameter.

    The configured ones; else the scopes of the challenge; else all of the resource's metadata. `offline_access` is
    added if the issuer supports it.
    """
    chosen = configured or (challenged if challenged is not None else of_resource)
    if not chosen:
        return None
    offline = (OFFLINE,) if of_issuer is not None and OFFLINE in of_issuer else ()
    return tuple(dict.fromkeys((*chosen, *offline)))


def stepped_up(before: Sequence[str] | None, challenged: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the scopes to request after a challenge: the earlier ones, and those of the challenge."""
    return tuple(dict.fromkeys((*(before or ()), *(challenged or ())))) or None


def parse_scope(value: object) -> tuple[str, ...] | None:
    """Return the scopes of a `scope` value, each once; None if it is no text. A very long value is cut after a whole
    scope.
    """
    if not isinstance(value, str):
        return None
    if len(value) > _LONGEST_VALUE:
        value = value[:_LONGEST_VALUE].rpartition(" ")[0]
    return scopes_in(value.split(" "))


def scopes_in(values: object) -> tuple[str, ...] | None:
    """Return the scopes in a list, each once, without invalid ones (RFC 6749, 3.3); None if it is no list."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        return None
    texts = (value for value in values if isinstance(value, str) and 0 < len(value) <= _LONGEST)
    return tuple(dict.fromkeys(text for text in texts if _is_scope(text)))[:_AT_MOST]


def _is_scope(text: str) -> bool:
    return all("!" <= char <= "~" and char not in '"\\' for char in text)
