"""The host and port of a URI in a form that is the same for all their spellings (WHATWG URL, "host parsing")."""

import re
import socket
from ipaddress import IPv6Address
from typing import Final
from unicodedata import normalize
from urllib.parse import unquote

_DEFAULT_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21}
# Names have labels of 63 characters at most; to decode a long one takes the square of its length.
_LONGEST_LABEL: Final = 63
_FULL_STOPS: Final = str.maketrans({"。": ".", "．": ".", "｡": "."})
# What UTS 46 leaves out of a name: soft hyphens, joiners, variation selectors and the like.
_IGNORED: Final = re.compile("[\u00ad\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_NUMBER: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9A-Fa-f]*)", re.ASCII | re.DOTALL)


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
