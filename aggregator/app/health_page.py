"""The health page of a running aggregator, read over HTTP: its address on this machine, and its report."""

import json
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.config.settings import HttpConfig, TlsConfig
from aggregator.frontends.tls import client_context

_PATIENCE: Final = 5.0
_LARGEST: Final = 64 * 2**20
# Addresses that mean every interface, and the loopback address among them.
_EVERY: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104


def address(http: HttpConfig) -> str:
    """Return the URL at which an aggregator with these settings is reached from this machine."""
    host = _EVERY.get(http.host.strip("[]"), http.host.strip("[]"))
    scheme = "https" if http.tls is not None else "http"
    return f"{scheme}://[{host}]:{http.port}" if ":" in host else f"{scheme}://{host}:{http.port}"


def connection_to(base: str, tls: TlsConfig | None, patience: float = _PATIENCE) -> HTTPConnection:
    """Return a connection to a running aggregator; with `tls`, to one that has this certificate, by any name.

    Raises:
        OSError, ValueError: the certificate cannot be read.
    """
    parts = urlsplit(base)
    # `http.client` ignores proxies of the environment: one would send the request from another machine.
    if parts.scheme != "https":
        return HTTPConnection(parts.hostname or "", parts.port, timeout=patience)
    context = client_context(Path(tls.certificate)) if tls is not None else None
    return HTTPSConnection(parts.hostname or "", parts.port, timeout=patience, context=context)


def asked(base: str, tls: TlsConfig | None = None) -> dict[str, Any]:
    """Return the health report of a running aggregator; with `tls`, of the one that has this certificate.

    Raises:
        OSError, HTTPException: nothing answers.
        ValueError: another program answers.
    """
    connection = connection_to(base, tls)
    try:
        connection.request("GET", "/readyz", headers={"accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read(_LARGEST)
    finally:
        connection.close()
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "ready" not in found:
        raise ValueError(f"something else answers there, with {answer.status}")
    return found
