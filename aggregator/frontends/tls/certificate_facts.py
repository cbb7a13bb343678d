"""The names of a server's certificate, and how long it is valid, as a client of the server sees it."""

import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Seconds before its end from which a certificate counts as about to end.
SOON: Final = 7 * 86_400.0
# Turns that a handshake takes at most; three are usual.
_TURNS: Final = 10
_MOST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The facts of one certificate. `ends` is in seconds since 1970; `problem`: what a client would say against it."""

    names: tuple[str, ...] = ()
    ends: float | None = None
    problem: str | None = None

    def __str__(self) -> str:
        if self.problem is not None:
            return self.problem
        if self.ends is None:
            return "nothing is known of how long it is valid"
        more = ", ..." if len(self.names) > _MOST_NAMES else ""
        until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self.ends))
        return f"for {', '.join(self.names[:_MOST_NAMES]) or 'no name'}{more}, valid until {until} UTC"

    def ends_soon(self, now: float) -> bool:
        """Return whether the certificate ends within a week."""
        return self.ends is not None and self.ends - now < SOON


def facts_of(server: ssl.SSLContext, certificate: str) -> CertificateFacts:
    """Return the facts of the certificate that a server shows, by a handshake in memory."""
    # The standard library reads a certificate only where a peer shows it.
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        client.load_verify_locations(Path(certificate))
        shown = _shown(client, server)
    except ssl.SSLCertVerificationError as error:
        return CertificateFacts(problem=f"clients refuse it: {error.verify_message}")
    except (OSError, ValueError) as error:
        return CertificateFacts(problem=f"it cannot be looked at: {getattr(error, 'reason', None) or error}")
    listed, ends = shown.get("subjectAltName"), shown.get("notAfter")
    entries = listed if isinstance(listed, tuple) else ()
    names = tuple(str(entry[1]) for entry in entries if entry[0] in ("DNS", "IP Address"))
    return CertificateFacts(names, ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None)


def _shown(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    """Return the certificate that the client gets from the server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server)
    asked = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_TURNS):
        done = [_stepped(asking), _stepped(asked)]
        if all(done):
            break
    return dict(asking.getpeercert() or {})


def _stepped(side: ssl.SSLObject) -> bool:
    """Take one side of the handshake as far as it goes; return whether it is done."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
