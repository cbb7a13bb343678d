"""The certificate of our own TLS, as its files are now."""

from aggregator.config.settings import TlsConfig
from aggregator.domain.errors import OperatorError
from aggregator.frontends.tls.certificate_facts import CertificateFacts, facts_of
from aggregator.frontends.tls.server_tls import server_context


def read_certificate(tls: TlsConfig) -> tuple[CertificateFacts | None, str | None]:
    """Return the facts of the certificate, or None and why the files cannot be used."""
    try:
        return facts_of(server_context(tls), tls.certificate), None
    except OperatorError as error:
        return None, str(error)
