"""Exposed resource URIs: an upstream's own URI with the server's prefix in it, so that two servers' never meet.

Rule 1: wrapping is a pure function of prefix and URI, and unwrapping needs no state. Rule 2: the scheme stays, so that
hosts recognise `file:` and `ui:`; templates are wrapped like URIs. Rule 3: a URI that a host may fetch by itself
(`https:`) or that contains its data (a `data:` URL, RFC 2397) is never changed.
"""

import re
from typing import Final

# RFC 3986, section 3.1, and the authority that follows; `{` begins an expression of a template (RFC 6570).
_HIERARCHICAL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(?!$)", re.ASCII)
# Without a comma there is no data in it: `data://config` is a name that some servers give to a resource.
_UNTOUCHED: Final = re.compile(r"https:|data:(?!//)[^,]*,", re.IGNORECASE)
# For URIs without an authority to put the prefix before (`urn:`, templates with an open scheme), and for URIs whose
# authority a host would look up on the network.
_OWN: Final = "mcp://"
NETWORK: Final = frozenset({"http", "https", "ws", "wss", "ftp", "sftp", "ssh"})


def wrapped(prefix: str, uri: str) -> str:
    """Return the URI or template as hosts see it: `scheme://prefix/rest`, or `mcp://prefix/uri`."""
    if not prefix or _UNTOUCHED.match(uri):
        return uri
    found = _HIERARCHICAL.match(uri)
    # A server's own `mcp:` scheme must not read like ours.
    if found is None or found[1].lower() in NETWORK or found[1].lower() == "mcp":
        return aliased(prefix, uri)
    return f"{found[0]}{prefix}/{uri[found.end() :]}"


def aliased(prefix: str, uri: str) -> str:
    """Return the spelling that always leads to this server: for an unwrapped URI that another server has too."""
    return f"{_OWN}{prefix}/{uri}"


def with_server(prefix: str, uri: str) -> str:
    """Return the URI of a skill, or of a skill's file, as exposed: it contains the server, even if such a URI is
    wrapped nowhere else.
    """
    exposed = wrapped(prefix, uri)
    return aliased(prefix, uri) if prefix and exposed == uri else exposed


def unwrapped(uri: str) -> tuple[str, str] | None:
    """Return the (prefix, own URI) of an exposed URI; None for one that was never wrapped.

    Hosts may have normalised it: the prefix may be in lower case.
    """
    if _UNTOUCHED.match(uri):
        return None
    found = _HIERARCHICAL.match(uri)
    if found is None or found[1].lower() in NETWORK:
        return None
    prefix, slash, rest = uri[found.end() :].partition("/")
    if not slash or not prefix or not rest:
        return None
    return prefix, rest if found[1].lower() == "mcp" else f"{found[0]}{rest}"
