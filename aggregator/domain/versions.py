"""Protocol revisions and the two eras they fall into (S/basic/versioning)."""

from typing import Final, Literal

Era = Literal["legacy", "modern"]

# Reachable by the `initialize` handshake, oldest first.
LEGACY_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
# Every request carries its own envelope; there is no handshake.
MODERN_VERSIONS: Final = ("2026-07-28",)
SUPPORTED_VERSIONS: Final = LEGACY_VERSIONS + MODERN_VERSIONS
LATEST_LEGACY: Final = LEGACY_VERSIONS[-1]
LATEST_MODERN: Final = MODERN_VERSIONS[-1]

# Keys of the modern envelope, in a request's `_meta` (S/basic/index, `_meta`).
META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
META_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
HOP_LOCAL_META_PREFIX: Final = "io.modelcontextprotocol/"

# The extension by which servers list skills (SEP-2640), in `capabilities.extensions`.
SKILLS: Final = "io.modelcontextprotocol/skills"


def era_of(version: str) -> Era:
    """Return `modern` for a revision without a handshake, else `legacy`."""
    return "modern" if version in MODERN_VERSIONS else "legacy"
