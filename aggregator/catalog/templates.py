"""Match URIs with URI templates (RFC 6570): the literal parts of a template must be there, in their order.

Law: linear in the URI for each expression, however the template looks; no pattern of a server is ever run.
"""

import re
from functools import lru_cache
from typing import Final

from aggregator.domain.uris.exposed import NETWORK

_AUTHORITY: Final = re.compile("//[^/?#]+[/?#]")
_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
# Expressions that may expand to slashes: `{+path}`, `{/segments*}`, `{?query}` and the like (RFC 6570, section 3.2).
_REACHES_FAR: Final = tuple("+#/?&.;")


def fits(template: str, uri: str) -> bool:
    """Tell whether `uri` may be an expansion of `template`.

    Of several readings the one with the shortest values counts.
    """
    literals, far = _parts(template)
    if not uri.startswith(literals[0]):
        return False
    at = len(literals[0])
    for literal, reaches_far in zip(literals[1:-1], far[:-1], strict=True):
        found = uri.find(literal, at)
        if found < 0 or not (reaches_far or "/" not in uri[at:found]):
            return False
        at = found + len(literal)
    if not far:
        return at == len(uri)
    end = len(uri) - len(literals[-1])
    return end >= at and uri.endswith(literals[-1]) and (far[-1] or "/" not in uri[at:end])


def leads_anywhere(template: str) -> bool:
    """Tell whether a template leaves open where its URIs lead: their scheme, or for a network scheme their host."""
    literals, far = _parts(template)
    if not far:
        return False
    scheme, colon, rest = literals[0].partition(":")
    if not colon:
        return True
    return scheme.lower() in NETWORK and _AUTHORITY.match(rest) is None


@lru_cache(maxsize=4_096)
def _parts(template: str) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the literals around the expressions, one more than these, and which of these may hold a slash."""
    parts = _EXPRESSION.split(template)
    return tuple(parts[0::2]), tuple(part.startswith(_REACHES_FAR) for part in parts[1::2])
