"""The envelope of each era: the revision that a request speaks, and the fields that an answer carries for it."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator import __version__
from aggregator.domain.errors import INVALID_PARAMS, INVALID_REQUEST, UNSUPPORTED_VERSION, HostError
from aggregator.domain.versions import (
    HOP_LOCAL_META_PREFIX,
    LATEST_MODERN,
    META_CLIENT_CAPABILITIES,
    META_SERVER_INFO,
    META_VERSION,
    MODERN_VERSIONS,
    SUPPORTED_VERSIONS,
)
from aggregator.gateway.host import Host

SERVER_INFO: Final = {"name": "aggregator", "title": "Aggregator", "version": __version__}

# What a server says of the data in a result.
TRUST_META: Final = "io.modelcontextprotocol/trust-annotations"
# Keys of one hop, and keys that only hosts and the aggregator exchange.
_NOT_PASSED_ON: Final = (HOP_LOCAL_META_PREFIX, "aggregator/")

# Methods that a legacy host may call before its handshake (L/basic/lifecycle).
_BEFORE_HANDSHAKE: Final = frozenset({"initialize", "ping"})


def version_spoken(host: Host, method: str, params: Mapping[str, Any]) -> str | None:
    """Return the revision that a request speaks; None only for methods allowed before a handshake.

    Raises:
        HostError: a modern envelope is incomplete or names another revision; a legacy request comes without a
            handshake.
    """
    meta = params.get("_meta")
    enveloped = isinstance(meta, dict) and META_VERSION in meta
    if method == "initialize" or (not enveloped and host.version is not None):
        return host.version
    if not enveloped:
        if method in _BEFORE_HANDSHAKE:
            return None
        if method == "server/discover":
            raise HostError(INVALID_PARAMS, f"`_meta` must carry {META_VERSION!r} and {META_CLIENT_CAPABILITIES!r}.")
        raise HostError(INVALID_REQUEST, f"Send `initialize` before {method}, or a {LATEST_MODERN} `_meta` with it.")
    assert isinstance(meta, dict)
    version = meta[META_VERSION]
    if META_CLIENT_CAPABILITIES not in meta or not isinstance(version, str):
        missing = META_CLIENT_CAPABILITIES if isinstance(version, str) else META_VERSION
        raise HostError(INVALID_PARAMS, f"`_meta` must carry {missing!r} (2026-07-28, basic/index).")
    if version not in MODERN_VERSIONS:
        raise unsupported(version)
    return version


def unsupported(version: str) -> HostError:
    """Return the error that names the revisions a host may speak here."""
    data = {"supported": list(reversed(SUPPORTED_VERSIONS)), "requested": version}
    return HostError(UNSUPPORTED_VERSION, f"Unsupported protocol version {version!r}", data)


def for_modern(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result in the form of 2026-07-28: with `resultType` and the name of this server."""
    meta = result.get("_meta")
    kept = meta if isinstance(meta, dict) else {}
    return {"resultType": "complete", **result, "_meta": {**kept, META_SERVER_INFO: SERVER_INFO}}


def for_legacy(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result in the form of the handshake eras: without fields of 2026-07-28, structured content only as an
    object.
    """
    shaped = result
    if "resultType" in result:
        shaped = {key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope")}
    if "structuredContent" in shaped and not isinstance(shaped["structuredContent"], dict):
        shaped = {key: value for key, value in shaped.items() if key != "structuredContent"}
    return shaped


def received(result: dict[str, Any]) -> dict[str, Any]:
    """Return an upstream's result without `_meta` keys of its own hop and without keys reserved for the aggregator.

    What a server says of its data is no matter of a hop, and stays (`trust-annotations`, a draft extension).
    """
    meta = result.get("_meta")
    if not isinstance(meta, dict) or not any(key.startswith(_NOT_PASSED_ON) for key in meta):
        return result
    kept = _passed_on(meta)
    if TRUST_META in meta:
        kept[TRUST_META] = meta[TRUST_META]
    rest = {key: value for key, value in result.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest


def onward(meta: Any, *, trusted: bool) -> dict[str, Any]:
    """Return the part of a request's `_meta` that goes on to the upstream: vendor keys and the trace context.

    Baggage goes to a trusted server only, since it may carry personal data (W3C Baggage, section 4).
    """
    if not isinstance(meta, dict):
        return {}
    kept = _passed_on(meta)
    kept.pop("progressToken", None)
    if not trusted:
        kept.pop("baggage", None)
    return kept


def _passed_on(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in meta.items() if not key.startswith(_NOT_PASSED_ON)}
