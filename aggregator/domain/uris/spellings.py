"""The spellings of one URI: refused ones, the sent one, and those that a server may read it as.

Rule 1: `canonical` never changes the meaning of a URI (RFC 3986, section 6.2.2). Rule 2: spellings that WHATWG URL
parsing or RFC 3986 normalisation makes equal have the same `resolved` form, also of the host ("host parsing").
"""

import re
import socket
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

from aggregator.domain.uris.addresses import is_loopback

_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
# An escape of an escape, however often: for servers that decode several times.
_ESCAPED_AGAIN: Final = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")
_STRAY: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_UNSEEN: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]|\s")
_SEPARATOR: Final = re.compile(r"/|%2F|%5C")
_DOTS: Final = frozenset({".", ".."})
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_DRIVE: Final = re.compile(r"[A-Za-z][:|]")
_LINE_BREAKS: Final = str.maketrans("", "", "\t\n\r")
_C0_AND_SPACE: Final = "".join(map(chr, range(0x21)))
# The schemes that WHATWG calls special: a backslash counts as a slash, and a missing slash is inserted.
_SPECIAL: Final = frozenset({"http", "https", "ws", "wss", "ftp", "file"})
# Nothing of these has another spelling: most URIs, recognised in a microsecond.
_PLAIN: Final = re.compile(
    r"(?!(?:https?|wss?|ftp):)[a-z][a-z0-9+.-]*://[a-z0-9_-]*(?:/[A-Za-z0-9_~-]+(?:\.[A-Za-z0-9_~-]+)*)+", re.ASCII
)
# Longer URIs have no other spelling: one that is not listed is refused, and to look at one takes too long.
LONGEST: Final = 8_192
# What is remembered is no longer than this, so that it is not much.
_SHORT: Final = 1_000
_FILE_WITH_HOST: Final = re.compile(r"file://[^/]")
_NUL: Final = "\0"
_DEFAULT_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21}
# Names have labels of 63 characters at most; to decode a long one takes the square of its length.
_LONGEST_LABEL: Final = 63
_FULL_STOPS: Final = str.maketrans({"。": ".", "．": ".", "｡": "."})
# What UTS 46 leaves out of a name: soft hyphens, joiners, variation selectors and the like.
_IGNORED: Final = re.compile("[\u00ad\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)", re.ASCII | re.DOTALL)


class Spellings(NamedTuple):
    """One URI as sent (`canonical`), without percent-escapes, and in `every` form that a server may read it as."""

    canonical: str
    decoded: str
    every: tuple[str, ...]


def is_plain(uri: str) -> bool:
    """Tell whether a URI has one spelling only; a few such URIs are not recognised."""
    return _PLAIN.fullmatch(uri) is not None and _FILE_WITH_HOST.match(uri) is None


def canonical(uri: str) -> str:
    """Return the URI without needless percent-escapes, and the others in upper case (RFC 3986, section 6.2.2)."""
    return _ESCAPE.sub(_plain_escape, uri) if "%" in uri else uri


def fault(uri: str) -> str | None:
    """Describe the part of a URI that a server could read as another URI, or return None."""
    if len(uri) > LONGEST:
        return f"it has {len(uri)} characters, and {LONGEST} are taken at most"
    if found := _UNSEEN.search(uri):
        return f"it holds {found[0]!a}: write such characters as percent-escapes"
    if _STRAY.search(uri):
        return "it holds a % that begins no percent-escape: write %25"
    uri = canonical(uri)
    if "\\" in uri:
        return "it holds a backslash, which some servers take for a slash: leave it out"
    scheme = _SCHEME.match(uri)
    if scheme is not None and scheme[1] != scheme[1].lower():
        return f"its scheme is in upper case: write {scheme[1].lower()}:"
    path = re.split("[?#]", uri[scheme.end() :] if scheme is not None else uri, maxsplit=1)[0]
    path = canonical(_ESCAPED_AGAIN.sub("%", path))
    if not _DOTS.isdisjoint(_SEPARATOR.split(path)):
        return "its path holds `.` or `..`: write the path that is meant"
    return None


def spellings(uri: str) -> Spellings:
    """Return the forms of a URI that a policy has to look at."""
    if len(uri) > LONGEST or is_plain(uri):
        return Spellings(uri, uri, (uri,))
    return _kept_spellings(uri) if len(uri) <= _SHORT else _spellings(uri)


def _spellings(uri: str) -> Spellings:
    written, decoded, whole = canonical(uri), unquote(uri), resolved(uri)
    forms = [uri, written, decoded, whole, *_shortened(whole)]
    if "%25" in uri:
        forms += _shortened(resolved(_ESCAPED_AGAIN.sub("%", uri)))
    return Spellings(written, decoded, tuple(dict.fromkeys(forms)))


_kept_spellings: Final = lru_cache(maxsize=4_096)(_spellings)


def resolved(uri: str) -> str:
    """Return the form that is the same for all spellings of one URI. It is for comparison only, never to be sent.

    It may be the same for URIs that differ: slashes in a row count as one, and the case of a host never counts.
    """
    text = _SURROGATE.sub("\ufffd", uri).strip(_C0_AND_SPACE).translate(_LINE_BREAKS)
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found is not None else ""
    rest, hash_mark, fragment = text[found.end() if found is not None else 0 :].partition("#")
    rest, question_mark, query = rest.partition("?")
    special = scheme in _SPECIAL
    if special:
        rest = rest.replace("\\", "/")
    authority: str | None = None
    if special and scheme != "file":
        authority, slash, path = rest.lstrip("/").partition("/")
        path = slash + path
    elif rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
        if scheme == "file" and _DRIVE.fullmatch(authority):
            authority, path = "", f"/{authority}{path}"
    else:
        authority, path = "" if scheme == "file" else None, rest
    steps = _without_dots(path.split("/"), drives=scheme == "file")
    steps = _without_dots(unquote("/".join(steps)).replace("\\", "/").split("/"), drives=False)
    names = "/".join(step for step in steps if step)
    if scheme == "file":
        names = names.replace("|", ":")
    tail = "/" if names and not steps[-1] else ""
    start = f"{scheme}:" if found is not None else ""
    if authority is not None:
        start += f"//{_authority(authority, scheme)}/"
    return f"{start}{names}{tail}{question_mark}{unquote(query)}{hash_mark}{unquote(fragment)}"


def _shortened(whole: str) -> Iterable[str]:
    """Yield the resolved form without what many servers never look at: the fragment, the user name, and what stands
    behind a NUL, or the NUL alone.
    """
    bare = whole.partition("#")[0].removesuffix("?")
    yield bare
    yield re.sub(r"://[^/?]*@", "://", bare, count=1)
    if _NUL in bare:
        yield bare.partition(_NUL)[0]
        yield bare.replace(_NUL, "")


def _authority(authority: str, scheme: str) -> str:
    user, at, place = authority.rpartition("@")
    found = re.fullmatch(r"(.*?)(?::([0-9]*))?", place, re.DOTALL | re.ASCII)
    assert found is not None, "every text fits"
    name, colon, word = unquote(user).partition(":")
    user = f"{name}{colon}{word}" if word else name
    host = host_key(found[1], special=scheme in _SPECIAL)
    if scheme == "file" and is_loopback(host):
        host = ""
    return f"{user}{at if user else ''}{host}{port_key(found[2] or '', scheme)}"


def _without_dots(steps: list[str], *, drives: bool) -> list[str]:
    """Return the segments of a path without `.` and `..` (RFC 3986, section 5.2.4).

    `drives`: a Windows drive letter stays (WHATWG URL, "shorten a path").
    """
    made: list[str] = []
    first = 1 if steps[0] == "" else 0
    for at, step in enumerate(steps):
        plain = step.replace("%2e", ".").replace("%2E", ".")
        if plain not in _DOTS:
            made.append(f"{step[0]}:" if drives and len(made) == first and _DRIVE.fullmatch(step) else step)
            continue
        stays = drives and len(made) == first + 1 and _DRIVE.fullmatch(made[-1]) is not None
        if plain == ".." and len(made) > first and not stays:
            made.pop()
        if at == len(steps) - 1:
            made.append("")
    return made or [""]


def _plain_escape(found: re.Match[str]) -> str:
    character = chr(int(found[0][1:], 16))
    return character if character in _UNRESERVED else found[0].upper()


def host_key(host: str, *, special: bool) -> str:
    """Return one form for all spellings of a host. `special`: the scheme's hosts are names or addresses of a network,
    so that IDNA and the old ways of writing IPv4 addresses count (WHATWG URL)."""
    host = unquote(host)
    if host.startswith("[") and host.endswith("]"):
        try:
            return f"[{IPv6Address(host[1:-1]).compressed}]"
        except ValueError:
            return host.lower()
    if not special:
        return host.lower()
    host = ".".join(_label(one) for one in _folded(host).split("."))
    if _NUMBER.fullmatch(host.removesuffix(".")):
        try:
            return socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
        except OSError:
            return host
    return host


def port_key(port: str, scheme: str) -> str:
    """Return `:port` as a number; nothing for none, and for the default port of the scheme."""
    digits = port.lstrip("0") or port[:1]
    return "" if not digits or digits == str(_DEFAULT_PORTS.get(scheme)) else f":{digits}"


def _label(label: str) -> str:
    """Return one label of a name in display form, decoded from Punycode."""
    if not label.startswith("xn--") or len(label) > _LONGEST_LABEL:
        return label
    try:
        return _folded(label[4:].encode().decode("punycode"))
    except (UnicodeError, ValueError, OverflowError):
        return label


def _folded(text: str) -> str:
    """Return a name without what IDNA makes no difference of (UTS 46, about NFKC case folding)."""
    folded = normalize("NFKC", normalize("NFKC", _IGNORED.sub("", text).casefold()).casefold())
    return _IGNORED.sub("", folded).translate(_FULL_STOPS)
