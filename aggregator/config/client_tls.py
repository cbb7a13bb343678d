"""The field `tls` of a server: whose certificates of it are trusted, and which of ours it gets; and their files in use.

Rule: `client_context` reads files: call it in a thread.
"""

import ssl
from typing import Final

from pydantic import Field

from aggregator.config.fields import ConfigModel
from aggregator.domain.ordinary_files import read_ordinary

# Bytes: a bundle of all public authorities has 250 KiB.
_LARGEST: Final = 8 * 2**20


class ServerTlsConfig(ConfigModel):
    """TLS towards one server: an authority of its own, and a certificate of ours. Relative paths are from the
    configuration file's folder; the files are read for each new connection to the server.
    """

    ca: str | None = Field(
        default=None,
        min_length=1,
        description="A file of certificate authorities, in PEM, that count for this server besides those of the "
        "system; or the certificate of the server itself. It also applies to OAuth requests for this "
        "server.",
        examples=["/etc/aggregator/company-ca.pem"],
    )
    client_cert: str | None = Field(
        default=None,
        min_length=1,
        description="The file of the certificate, in PEM, that the aggregator shows to the server (mutual TLS). It is "
        "shown to no other host.",
        examples=["/etc/aggregator/client.pem"],
    )
    client_key: str | None = Field(
        default=None,
        min_length=1,
        description="The file of its private key, in PEM. Default: the key is in the file of the certificate.",
        examples=["/etc/aggregator/client.key"],
    )
    client_key_password: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="The password of the private key, if the file is encrypted.",
        examples=["${CLIENT_KEY_PASSWORD}"],
    )


class UnusableTlsFile(OSError):
    """A file of `tls` that cannot be read or used; the text names the setting and the file."""


def client_context(tls: ServerTlsConfig, *, with_certificate: bool = True) -> ssl.SSLContext:
    """Return the TLS settings for requests to a server; `with_certificate`: ours is shown to it.

    Raises:
        UnusableTlsFile: a file cannot be read, or holds no certificate or key.
    """
    context = ssl.create_default_context()
    if tls.ca is not None:
        try:
            context.load_verify_locations(cadata=_text("ca", tls.ca))
        except (ssl.SSLError, ValueError):
            raise UnusableTlsFile(f"`tls.ca`: {tls.ca} holds no certificate in PEM") from None
        # A certificate that is trusted by itself need not be of an authority.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if tls.client_cert is not None and with_certificate:
        _text("client_cert", tls.client_cert)
        if tls.client_key is not None:
            _text("client_key", tls.client_key)
        # Without a password, OpenSSL would ask for one at the terminal.
        password = tls.client_key_password or ""
        try:
            context.load_cert_chain(tls.client_cert, tls.client_key, lambda: password)
        except ssl.SSLError as error:
            named = tls.client_key or tls.client_cert
            why = "one is not PEM, or the password of the key is wrong or missing"
            if error.reason == "KEY_VALUES_MISMATCH":
                why = "the key is of another certificate"
            raise UnusableTlsFile(f"`tls.client_cert`: {tls.client_cert} and {named} cannot be used: {why}") from None
        except OSError as error:
            raise UnusableTlsFile(f"`tls.client_cert`: {error.strerror or 'it cannot be used'}") from None
    return context


def _text(setting: str, path: str) -> str:
    try:
        return read_ordinary(path, _LARGEST).decode("ascii", "ignore")
    except OSError as error:
        raise UnusableTlsFile(f"`tls.{setting}`: {path} cannot be read: {error.strerror or error}") from None
