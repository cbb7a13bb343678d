"""The two common readings of a URI: WHATWG URL parsing (the `ada` parser of Node.js) and RFC 3986 normalisation."""

import re
from typing import Final

from ada_url import URL

_UNRESERVED: Final = re.compile(r"[A-Za-z0-9._~-]", re.ASCII)
_PARTS: Final = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL | re.ASCII)


def whatwg(uri: str) -> str | None:
    """`new URL(uri).href`; None where it throws."""
    try:
        return URL(re.sub("[\ud800-\udfff]", "\ufffd", uri)).href
    except ValueError:
        return None


def rfc3986(uri: str) -> str:
    """Case, percent-escapes, dot segments and the empty path (RFC 3986, sections 6.2.2 and 6.2.3)."""
    found = _PARTS.fullmatch(_escapes(uri))
    assert found is not None
    scheme, authority, path, query, fragment = (part or "" for part in found.groups())
    made = _without_dots(path) or ("/" if authority else "")
    if made.startswith("//") and not authority:
        made = f"/.{made}"  # not to be read as an authority (WHATWG URL, "URL serializer")
    user, at, place = authority.rpartition("@")
    place = re.sub(r":\Z", "", place)
    return f"{scheme.lower()}{':' if scheme else ''}{user}{at}{_escapes(place.lower())}{made}{query}{fragment}"


def _escapes(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        character = chr(int(found[1], 16))
        return character if _UNRESERVED.match(character) else found[0].upper()

    return re.sub("%([0-9A-Fa-f]{2})", plain, text)


def _without_dots(path: str) -> str:
    """Section 5.2.4, step by step."""
    made = ""
    while path:
        if path.startswith(("../", "./")):
            path = path.partition("/")[2]
        elif path.startswith("/./") or path == "/.":
            path = "/" + path[3:]
        elif path.startswith("/../") or path == "/..":
            path, made = "/" + path[4:], made.rpartition("/")[0]
        elif path in (".", ".."):
            path = ""
        else:
            segment = re.match("/?[^/]*", path)
            assert segment is not None
            made, path = made + segment[0], path[segment.end() :]
    return made
