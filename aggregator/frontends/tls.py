"""TLS of the web frontends: the certificate of the server, its names and validity, taken anew when its files change.

Rule: a certificate that cannot be used never replaces one that can; a file and the way to mend it are always named.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.config.files.watch import Stamp, signature
from aggregator.config.settings import TlsConfig
from aggregator.domain.bounds.ticks import until_next
from aggregator.domain.errors import OperatorError
from aggregator.domain.ordinary_files import read_ordinary

log = logging.getLogger(__name__)

# Seconds between two looks at the files.
EVERY: Final = 1.0
# More bytes than any file of certificates has.
_LARGEST: Final = 4 * 2**20
_HOW: Final = "in http.tls of the configuration"

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
            return "its names and its expiry cannot be read"
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
    """Take one side of the handshake as far as it goes; return whether it is complete."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


class ServerTls:
    """The TLS of a server. `context` is for its sockets; connections get the certificate that is in force then.

    Raises:
        OperatorError: a file cannot be used.
    """

    def __init__(self, settings: TlsConfig) -> None:
        self._settings = settings
        named = (settings.certificate, settings.key, settings.client_ca)
        self._files = [Path(path) for path in named if path is not None]
        self._seen: Mapping[Path, Stamp] = signature(self._files)
        self.context = self._current = server_context(settings)
        # A context cannot be emptied of its certificate, so that a new one is put in its place for each connection.
        self.context.sni_callback = self._choose
        self.facts = facts_of(self._current, settings.certificate)

    def __repr__(self) -> str:
        return f"<ServerTls {self._settings.certificate}, {self.facts}>"

    def log_facts(self) -> None:
        """Log how long the certificate is valid."""
        level = logging.WARNING if self.facts.problem is not None else logging.INFO
        log.log(level, "TLS with the certificate in %s: %s", self._settings.certificate, self.facts)

    async def run(self) -> None:
        """Watch the files until cancelled."""
        while True:
            await asyncio.sleep(until_next(EVERY))
            now: Mapping[Path, Stamp] = await asyncio.to_thread(signature, self._files)
            if now != self._seen:
                self._seen = now
                await self.reload()

    async def reload(self) -> None:
        """Load the files as they are now; if they cannot be used, keep the ones in force and log the reason."""
        try:
            found = await asyncio.to_thread(server_context, self._settings)
            self.facts = await asyncio.to_thread(facts_of, found, self._settings.certificate)
        except OperatorError as error:
            log.error("the certificate in force stays: %s", error)
            return
        self._current = found
        self.log_facts()

    def _choose(self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._current


def server_context(settings: TlsConfig) -> ssl.SSLContext:
    """Return a context for a server from the files as they are now.

    Raises:
        OperatorError: a file cannot be used.
    """
    for name, path in (("certificate", settings.certificate), ("key", settings.key), ("client_ca", settings.client_ca)):
        if path is not None:
            _check_readable(name, path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without a text in its place, OpenSSL would ask the terminal for a password.
        context.load_cert_chain(settings.certificate, settings.key, settings.key_password or "")
    except (OSError, ValueError) as error:
        raise OperatorError(_key_fault(settings, error)) from error
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise OperatorError(
                f"{settings.client_ca} holds no certificate authority in PEM: name another file as `client_ca` {_HOW}."
            ) from error
        # Hosts that show none are refused with words; the health pages are open to probes, which have none.
        context.verify_mode = ssl.CERT_OPTIONAL
        # A connection that goes on with an older session would not be asked for its certificate again.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def client_context(certificate: Path) -> ssl.SSLContext:
    """Return a context that trusts the one server that has this certificate, by whichever name it is reached.

    Raises:
        OSError: the file cannot be read.
        ValueError: it holds no certificate.
    """
    first = read_ordinary(certificate).decode("ascii", "replace").partition("-----BEGIN CERTIFICATE-----")[2]
    body = first.partition("-----END CERTIFICATE-----")[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(
        cadata=f"-----BEGIN CERTIFICATE-----{body}-----END CERTIFICATE-----\n" if body else ""
    )
    return context


def lacks_certificate(transport: asyncio.Transport) -> bool:
    """Return whether a host had to show a certificate of its own and showed none."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    return tls is not None and tls.context.verify_mode != ssl.CERT_NONE and tls.getpeercert(binary_form=True) is None


def _check_readable(name: str, path: str) -> None:
    try:
        size = len(read_ordinary(path, _LARGEST + 1))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise OperatorError(
            f"{path} cannot be read ({why}): make it readable for this user, or name another file as `{name}` {_HOW}."
        ) from error
    if size > _LARGEST:
        raise OperatorError(f"{path} is too large for a file of certificates: name another one as `{name}` {_HOW}.")


def _key_fault(settings: TlsConfig, error: Exception) -> str:
    """Return a sentence for what `load_cert_chain` says in the words of OpenSSL."""
    reason = (getattr(error, "reason", None) or "").upper()
    if "MISMATCH" in reason:
        return (
            f"The private key in {settings.key} is not that of the certificate in {settings.certificate}: name the "
            f"two that belong together, as `key` and `certificate` {_HOW}."
        )
    if b"-----BEGIN CERTIFICATE-----" not in read_ordinary(settings.certificate):
        return f"{settings.certificate} holds no certificate in PEM: name another file as `certificate` {_HOW}."
    text = read_ordinary(settings.key)
    if b"ENCRYPTED" in text:
        lacks = settings.key_password is None
        how = "is encrypted: set" if lacks else "cannot be opened with its password: correct"
        return f"The private key in {settings.key} {how} `key_password` {_HOW}."
    if b"PRIVATE KEY-----" not in text:
        return f"{settings.key} holds no private key in PEM: name another file as `key` {_HOW}."
    return (
        f"{settings.certificate} and {settings.key} hold no certificate and private key in PEM that can be used "
        f"({reason.replace('_', ' ').lower() or error}): name other files as `certificate` and `key` {_HOW}."
    )
