"""Secrets in addresses: user names and passwords, query strings, fragments (RFC 3986)."""

import re
from collections.abc import Iterator
from typing import Final

from aggregator.redaction.field_names import NameVerdict, SecretNames, folded, is_opaque
from aggregator.redaction.spans import REDACTED, Span

# An address ends with its text. Slashes may be escaped, as in JSON.
_SLASHES: Final = re.compile(r":(?:\\*/){2}")
_ADDRESS: Final = re.compile(r"(?:[^\s\"'<>`\\]|\\+/)*+")
_END_OF_HOST: Final = re.compile(r"\\|[/?#]")
# On the web, an `@` may stand in a path; elsewhere it ends a password.
_WEB: Final = ("http", "https", "ws", "wss")
_LONGEST_PASSWORD: Final = 200
_AFTER: Final = ".,;:!)]}"
_ALREADY: Final = REDACTED.rstrip(_AFTER)
# A query behind a path alone, as a request line has it.
_QUERY: Final = re.compile(r"\?[\w.~%\[\]$-]{1,64}+=(?:[^\s\"'<>`\\]|\\+/)*+", re.ASCII)
_PARAMETER: Final = re.compile(r"([^=&;#?]{1,64})=([^&;#]*)")
# Parameters that are secret in addresses, though elsewhere their names mean many things.
_SIGNATURES: Final = frozenset(
    {"key", "sig", "sign", "signature", "code", "xamzsignature", "xgoogsignature", "xamzcredential", "awsaccesskeyid"}
)


def address_spans(text: str) -> Iterator[Span]:
    """Yield every query, fragment with values, and user info; for texts shown to users."""
    for hosts, end in _addresses(text):
        yield from ((start, user) for start, host_end in hosts if (user := text.rfind("@", start, host_end)) >= 0)
        first = hosts[0][1]
        query = next((found for mark in "?#" if (found := text.find(mark, first, end)) >= 0), end)
        if (text.startswith("?", query) or "=" in text[query:end]) and text[query + 1 : end] not in ("", _ALREADY):
            yield query + 1, end
    at = text.find("?")
    while at >= 0:
        if at and not text[at - 1].isspace() and (query_alone := _QUERY.match(text, at)) is not None:
            yield at + 1, at + len(query_alone[0].rstrip(_AFTER))
            at = query_alone.end() - 1
        at = text.find("?", at + 1)


def secret_address_spans(text: str, names: SecretNames) -> Iterator[Span]:
    """Yield passwords, and parameters with secret names; for values that are stored unchanged."""
    for hosts, end in _addresses(text):
        for start, host_end in hosts:
            if (user := text.rfind("@", start, host_end)) >= 0:
                colon = text.find(":", start, user)
                if colon >= 0:
                    yield colon + 1, user
                elif is_opaque(text[start:user]):
                    yield start, user
        for found in _PARAMETER.finditer(text, hosts[0][1], end):
            verdict = NameVerdict.LIKELY if folded(found[1]) in _SIGNATURES else names.verdict(found[1])
            if verdict is NameVerdict.SURELY or (verdict is NameVerdict.LIKELY and is_opaque(found[2])):
                yield found.span(2)


def _addresses(text: str) -> Iterator[tuple[list[Span], int]]:
    """Yield for every address the spans up to and including its host, and the end of the whole.

    An address may contain others; then it has several hosts.
    """
    if "://" not in text and ":\\" not in text:
        return
    hosts: list[Span] = []
    end = whole_end = 0
    for slashes in _SLASHES.finditer(text):
        if slashes.start() >= whole_end:
            if hosts:
                yield hosts, end
                hosts = []
            found = _ADDRESS.match(text, slashes.end())
            assert found is not None, "it matches nothing at least"
            end, whole_end = slashes.end() + len(found[0].rstrip(_AFTER)), found.end()
        hosts.append(_host(text, slashes, end))
    if hosts:
        yield hosts, end


def _host(text: str, slashes: re.Match[str], end: int) -> Span:
    start = slashes.end()
    found = _END_OF_HOST.search(text, start, end)
    host_end = found.start() if found is not None else max(start, end)
    # A password that should have been encoded: what looks like the end of the host is in it.
    late = text.rfind("@", host_end, min(end, host_end + _LONGEST_PASSWORD))
    if late >= 0 and ":" in text[start:host_end] and not text.endswith(_WEB, 0, slashes.start()):
        host_end = late + 1
    return start, host_end
