"""The causes for which no usable connection to an HTTP server comes about: one sentence and one mend for each.

Law: `check`, `doctor`, the console and the log take their words from here. This file decides.
"""

import errno
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

CauseKind = Literal["unreachable", "certificate", "tls", "path", "server"]


class ConnectionCause(NamedTuple):
    """A cause in words: `sentence` describes the fault, unique among the causes; `mend` is the one fix."""

    kind: CauseKind
    sentence: str
    mend: str

    @property
    def words(self) -> str:
        """The sentence and the mend, for the end of a longer sentence, without a full stop."""
        return f"{self.sentence}: {self.mend}"


_CA: Final = 'name the file of its authority: "tls": {"ca": "/path/ca.pem"}'

CAUSES: Final[Mapping[str, ConnectionCause]] = {
    "refused": ConnectionCause(
        "unreachable",
        "nothing listens there (is the server running?)",
        "start the server, or correct host and port in `url`",
    ),
    "name_unknown": ConnectionCause(
        "unreachable",
        "the name of its host is not known",
        "correct the host in `url`, or connect to the network that knows the name",
    ),
    "no_route": ConnectionCause(
        "unreachable",
        "no way leads to its host",
        "connect to its network or VPN, or name the proxy on the way there in `proxy`",
    ),
    "silent": ConnectionCause(
        "unreachable",
        "its host does not answer",
        "correct host and port in `url`, or look for a firewall or a proxy on the way",
    ),
    "self_signed": ConnectionCause(
        "certificate", "its certificate is self-signed", 'name its file, to trust it: "tls": {"ca": "/path/its.pem"}'
    ),
    "unknown_ca": ConnectionCause("certificate", "its certificate is of an authority that is not known here", _CA),
    "expired": ConnectionCause("certificate", "its certificate has expired", "renew the certificate of the server"),
    "not_yet_valid": ConnectionCause(
        "certificate",
        "its certificate is not valid yet",
        "correct the clock of this machine, or the certificate of the server",
    ),
    "wrong_name": ConnectionCause(
        "certificate",
        "its certificate is for another name",
        "write the name of the certificate into `url`, or renew the certificate",
    ),
    "bad_certificate": ConnectionCause(
        "certificate", "its certificate cannot be used", "renew the certificate of the server"
    ),
    "client_certificate": ConnectionCause(
        "certificate",
        "it wants a certificate of ours",
        "name one and its key in `tls.client_cert` and `tls.client_key` of its entry",
    ),
    "tls_on_plain": ConnectionCause(
        "tls", "it answers without TLS", "write http:// in `url`, or the port on which it serves https"
    ),
    "plain_on_tls": ConnectionCause(
        "tls", "it wants TLS", "write https:// in `url`, or the port on which it serves http"
    ),
    "handshake": ConnectionCause(
        "tls",
        "it refuses the TLS handshake",
        "name a certificate in `tls.client_cert` of its entry if it wants one, or have it offer TLS 1.2 or newer",
    ),
    "tls_version": ConnectionCause(
        "tls", "it has no version of TLS in common with us", "have the server offer TLS 1.2 or newer"
    ),
    "tls_other": ConnectionCause("tls", "the TLS handshake failed", "look into the log of the server"),
    "not_http": ConnectionCause("unreachable", "it answers what is not HTTP", "correct host and port in `url`"),
    "ended": ConnectionCause(
        "unreachable",
        "it ended the connection before an answer",
        "look into the log of the server, and check the port in `url`",
    ),
    "web_page": ConnectionCause(
        "path",
        "it answers with a web page, not with MCP",
        "correct the path in `url`: usual are /mcp and, for SSE, /sse",
    ),
    "not_mcp": ConnectionCause(
        "path",
        "it answers, and not with MCP",
        "correct host, port and path in `url`: usual are /mcp and, for SSE, /sse",
    ),
    "no_path": ConnectionCause(
        "path", "nothing is served under that path", "correct the path in `url`: usual are /mcp and, for SSE, /sse"
    ),
    "no_post": ConnectionCause(
        "path",
        "no MCP server takes requests under that path",
        'correct the path in `url`, or set "type": "sse" if it is an older server',
    ),
    "no_events": ConnectionCause(
        "path", "no event stream is served under that path", 'correct the path in `url`, or set "type": "http"'
    ),
    "proxy_login": ConnectionCause(
        "server", "the proxy wants a user name and password", "write them into `proxy`: http://USER:PASSWORD@HOST:PORT"
    ),
    "bad_gateway": ConnectionCause(
        "server", "what stands in front of it cannot reach it", "start the server behind that proxy, or try again later"
    ),
}

# X509_V_ERR_* of OpenSSL.
_VERIFY_CODES: Final = {
    9: "not_yet_valid",
    10: "expired",
    18: "self_signed",
    19: "unknown_ca",
    2: "unknown_ca",
    20: "unknown_ca",
    21: "unknown_ca",
    62: "wrong_name",
    64: "wrong_name",
}
# Parts of the reasons of OpenSSL, in the order of the search.
_REASONS: Final = (
    ("WRONG_VERSION_NUMBER", "tls_on_plain"),
    ("HTTP_REQUEST", "tls_on_plain"),
    ("PACKET_LENGTH_TOO_LONG", "tls_on_plain"),
    ("RECORD_LAYER_FAILURE", "tls_on_plain"),
    ("CERTIFICATE_REQUIRED", "client_certificate"),
    ("ALERT_BAD_CERTIFICATE", "client_certificate"),
    ("ALERT_UNKNOWN_CA", "client_certificate"),
    ("ALERT_CERTIFICATE", "client_certificate"),
    ("PROTOCOL_VERSION", "tls_version"),
    ("UNSUPPORTED_PROTOCOL", "tls_version"),
    ("HANDSHAKE_FAILURE", "handshake"),
    ("NO_SHARED_CIPHER", "handshake"),
    ("UNEXPECTED_EOF", "ended"),
)
_NUMBERS: Final = {
    errno.ECONNREFUSED: "refused",
    errno.ENETUNREACH: "no_route",
    errno.EHOSTUNREACH: "no_route",
    errno.ENETDOWN: "no_route",
    errno.ETIMEDOUT: "silent",
    errno.ECONNRESET: "ended",
    errno.EPIPE: "ended",
}
_STATUSES: Final = {404: "no_path", 410: "no_path", 405: "no_post", 501: "no_post", 407: "proxy_login"}
_GATEWAYS: Final = frozenset({502, 504})
# What servers that want TLS say to a request without it.
_WANTS_TLS: Final = re.compile(
    rb"(?i)plain HTTP request was sent to HTTPS|HTTP request to an HTTPS server|speaking plain HTTP to an SSL"
    rb"|requires? TLS|use (?:the )?https"
)
_WANTS_CERTIFICATE: Final = re.compile(rb"(?i)No required SSL certificate was sent")
# The beginning of a TLS alert, which answers a request without TLS.
_ALERT: Final = re.compile(rb"\x15\x03[\x00-\x04]")
_PAGE: Final = re.compile(rb"(?i)\s*(?:<!doctype html|<html|<head)")


def cause_of(error: BaseException) -> ConnectionCause | None:
    """Return the cause of an error of a connection, looked for along its causes too; None if it is none of the table.

    Sources: the error codes of OpenSSL (X509_V_ERR_*, SSL_R_*) and of the system.
    """
    for one in _chain(error):
        if (name := _name(one)) is not None:
            return CAUSES[name]
    return None


def cause_of_status(status: int, events: bool = False) -> ConnectionCause | None:
    """Return the cause shown by an HTTP status, or None; `events`: the request was for an event stream."""
    name = _STATUSES.get(status)
    if name == "no_post" and events:
        name = "no_events"
    if name is None and status in _GATEWAYS:
        name = "bad_gateway"
    return CAUSES[name] if name is not None else None


def cause_of_beginning(data: bytes) -> ConnectionCause | None:
    """Return the cause that the first bytes of a connection, or of a body, tell of; None if they tell nothing."""
    if _ALERT.match(data) or _WANTS_TLS.search(data):
        return CAUSES["plain_on_tls"]
    if _WANTS_CERTIFICATE.search(data):
        return CAUSES["client_certificate"]
    return CAUSES["web_page"] if _PAGE.match(data) else None


def cause_in(text: str) -> ConnectionCause | None:
    """Return the cause whose sentence a reason holds; None if it holds none."""
    return next((cause for cause in CAUSES.values() if cause.sentence in text), None)


def without_mend(text: str) -> str:
    """Return a reason without the mend in it."""
    cause = cause_in(text)
    return text.replace(f": {cause.mend}", "") if cause is not None else text


def _name(error: BaseException) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        # aiohttp has an error of this class that leads to the real one.
        code = getattr(error, "verify_code", None)
        return _VERIFY_CODES.get(code, "bad_certificate") if code is not None else None
    if isinstance(error, ssl.SSLError):
        told = (getattr(error, "reason", None) or str(error)).upper().replace(" ", "_")
        return next((name for part, name in _REASONS if part in told), "tls_other")
    # No name has labels that are empty or too long.
    if isinstance(error, socket.gaierror | UnicodeError):
        return "name_unknown"
    if isinstance(error, OSError) and error.errno in _NUMBERS:
        return _NUMBERS[error.errno]
    return "ended" if isinstance(error, ConnectionResetError | BrokenPipeError) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its system error, and their causes."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting and len(seen) < 20:
        one = waiting.pop(0)
        if one is None or one in seen:
            continue
        seen.append(one)
        yield one
        waiting += [getattr(one, "os_error", None), getattr(one, "certificate_error", None)]
        waiting += [one.__cause__, one.__context__]
