"""The negotiation of era and revision with an upstream (S/basic/versioning, Backward Compatibility).

Law: only a good `server/discover` result, or an error that names modern versions, is evidence of a modern server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aggregator import __version__
from aggregator.config.server_config import Protocol as EraChoice
from aggregator.domain.errors import (
    UNSUPPORTED_VERSION,
    RpcError,
    UpstreamBadAnswer,
    UpstreamHttpStatus,
    UpstreamRefused,
)
from aggregator.domain.versions import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY_VERSIONS,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_SERVER_INFO,
    META_VERSION,
    MODERN_VERSIONS,
    Era,
    era_of,
)
from aggregator.upstream.connection import Connection
from aggregator.upstream.redaction import ServerRedaction
from aggregator.wire.pieces import brief

# Seconds: a legacy server that ignores the probe must not cost the whole connect time-out.
PROBE_TIMEOUT: Final = 5.0

CLIENT_INFO: Final = {"name": "aggregator", "version": __version__}


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The description that an upstream gave of itself: in `initialize`, or in `server/discover`."""

    version: str
    server_info: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    instructions: str | None = None
    era: Era = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "era", era_of(self.version))

    def redacted(self, redaction: ServerRedaction) -> "Negotiated":
        """Return a copy without secrets and invisible characters."""
        return replace(
            self,
            server_info=redaction.of_itself(self.server_info),
            capabilities=redaction.of_itself(self.capabilities),
            instructions=redaction.of_itself(self.instructions),
        )

    def envelope(self) -> dict[str, Any]:
        """Return the `_meta` of every request to this upstream; empty for a legacy one."""
        return envelope(self.version) if self.era == "modern" else {}


def version_of(negotiated: Negotiated | None) -> str | None:
    """Return the revision that an upstream speaks; None while it is not known."""
    return negotiated.version if negotiated is not None else None


def envelope(version: str) -> dict[str, Any]:
    """Return the modern request `_meta` (S/basic/index), which declares no client capabilities yet."""
    return {META_VERSION: version, META_CLIENT_INFO: CLIENT_INFO, META_CLIENT_CAPABILITIES: {}}


# The function that returns the client capabilities for a handshake, called when it is about to begin.
DeclareCapabilities = Callable[[], Awaitable[Mapping[str, Any]]]


async def _none() -> Mapping[str, Any]:
    return {}


async def negotiate(
    server: str, connection: Connection, protocol: EraChoice, declare: DeclareCapabilities = _none
) -> Negotiated:
    """Find the era that an upstream speaks, and complete its handshake if it has one.

    protocol: `auto`, or the only era to try (`protocol` in its config).
    declare: returns our client capabilities for a handshake.

    Raises:
        UpstreamRefused: there is no common revision, or not the era that the config asks for.
        RpcError, PeerGone, UpstreamError: see `Connection.request`.
    """
    if protocol == "legacy":
        return await _initialize(server, connection, declare)
    version = LATEST_MODERN
    for last in (False, True):
        try:
            return await _discover(server, connection, version, bounded=protocol == "auto")
        except RpcError as error:
            mutual = _mutual(error)
            if mutual is not None:
                version = mutual
                continue
            if protocol == "modern":
                refused = f"{server} does not speak the modern protocol (JSON-RPC error {error.code})"
                raise UpstreamRefused(server, f"{refused}; set `protocol` to auto.", said=error.message) from error
            _not_disjoint(server, error)
        except (TimeoutError, UpstreamBadAnswer, UpstreamHttpStatus) as error:
            # Other answers to a method that a server does not know say nothing about its handshake.
            if protocol == "modern" or (isinstance(error, UpstreamHttpStatus) and "retry_after" in error.details):
                raise
        try:
            return await _initialize(server, connection, declare)
        except RpcError as error:
            # A slow modern server may have taken the late probe as its opening: it names its versions.
            mutual = _mutual(error)
            if mutual is None or last:
                raise
            version = mutual
    raise UpstreamRefused(server, f"{server} names a modern revision and then refuses it.")


async def _discover(server: str, connection: Connection, version: str, *, bounded: bool) -> Negotiated:
    connection.use_version(version)
    # `wait_for` loses a cancellation that comes together with the answer, before Python 3.12.
    async with asyncio.timeout(PROBE_TIMEOUT if bounded else None):
        result = await connection.request("server/discover", {"_meta": envelope(version)})
    offered = result.get("supportedVersions")
    shared = [v for v in MODERN_VERSIONS if isinstance(offered, list) and v in offered]
    if not shared:
        raise RpcError(UNSUPPORTED_VERSION, "no modern revision offered", {"supported": offered})
    meta = result.get("_meta")
    info = meta.get(META_SERVER_INFO) if isinstance(meta, dict) else None
    connection.use_version(shared[-1])
    return _negotiated(shared[-1], info, result)


async def _initialize(server: str, connection: Connection, declare: DeclareCapabilities) -> Negotiated:
    asked = {"protocolVersion": LATEST_LEGACY, "capabilities": await declare(), "clientInfo": CLIENT_INFO}
    result = await connection.request("initialize", asked)
    version = result.get("protocolVersion")
    if not isinstance(version, str):
        raise UpstreamBadAnswer(server, f"{server} answered `initialize` without a protocolVersion.")
    if version not in LEGACY_VERSIONS:
        said = f"protocolVersion: {brief(version, 80)}"
        raise UpstreamRefused(server, f"{server} speaks a protocol that the aggregator does not.", said=said)
    connection.use_version(version)
    await connection.notify("notifications/initialized")
    return _negotiated(version, result.get("serverInfo"), result)


def _negotiated(version: str, info: Any, result: Mapping[str, Any]) -> Negotiated:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Negotiated(
        version,
        info if isinstance(info, dict) else {},
        capabilities if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else None,
    )


def _supported(error: RpcError) -> list[Any] | None:
    if error.code != UNSUPPORTED_VERSION or not isinstance(error.data, dict):
        return None
    supported = error.data.get("supported")
    return supported if isinstance(supported, list) else None


def _listed(supported: list[Any]) -> str:
    """Return the first few versions that a server named, shortened."""
    return ", ".join(brief(version, 40) for version in supported[:5])


def _mutual(error: RpcError) -> str | None:
    shared = [v for v in MODERN_VERSIONS if v in (_supported(error) or ())]
    return shared[-1] if shared else None


def _not_disjoint(server: str, error: RpcError) -> None:
    supported = [version for version in _supported(error) or () if isinstance(version, str) and version[:1].isdigit()]
    if supported and not any(version in LEGACY_VERSIONS for version in supported):
        said = f"supported: {_listed(supported)}"
        raise UpstreamRefused(
            server, f"{server} speaks only protocols that the aggregator does not.", said=said
        ) from error
