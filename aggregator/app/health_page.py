"""The health page of a running aggregator, read over HTTP: its address on this machine, and what it reports."""

import json
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.config.settings import HttpConfig

_PATIENCE: Final = 5.0
_LARGEST: Final = 64 * 2**20
# Addresses that mean every interface, and the loopback address among them.
_EVERY: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104


def address(http: HttpConfig) -> str:
    """Return the URL at which an aggregator with these settings is reached from this machine."""
    host = _EVERY.get(http.host.strip("[]"), http.host.strip("[]"))
    return f"http://[{host}]:{http.port}" if ":" in host else f"http://{host}:{http.port}"


def asked(base: str) -> dict[str, Any]:
    """Return what the health page of a running aggregator reports.

    Raises:
        OSError, HTTPException: nothing answers.
        ValueError: another program answers.
    """
    parts = urlsplit(base)
    # `http.client` ignores proxies of the environment: one would send the request from another machine.
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_PATIENCE)
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
