"""The answers that begin a session: to `initialize`, and to `server/discover` of 2026-07-28.

Rule: imported here is only what the first answer of a stdio process needs, which is sent before the rest is loaded.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.freshness import OURS_FOR_ONE
from aggregator.domain.versions import LATEST_LEGACY, LEGACY_VERSIONS, SKILLS, SUPPORTED_VERSIONS, era_of
from aggregator.gateway.eras import SERVER_INFO, for_legacy, for_modern, version_spoken
from aggregator.gateway.host import Host

# What is declared to hosts does not depend on the configured servers; a list may be empty.
CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    # As SEP-2640 has it. Servers without `directoryRead` are answered for by the manifests of their skills.
    "extensions": {SKILLS: {"directoryRead": True}},
    # Deprecated, but a server that passes log lines on must declare it (S/server/utilities/logging).
    "logging": {},
}


class MakeInstructions(Protocol):
    """The `instructions` for a model, made when they are needed."""

    def __call__(self) -> str: ...


def take_initialize(host: Host, params: Mapping[str, Any]) -> bool:
    """Take what a host says of itself in `initialize`; return whether that changes the spelling of names.

    Raises:
        HostError: the params name no revision; nothing was taken.
    """
    asked, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
    if not isinstance(asked, str):
        raise HostError(INVALID_PARAMS, "`initialize` needs `protocolVersion` as a string.")
    host.version = asked if asked in LEGACY_VERSIONS else LATEST_LEGACY
    host.capabilities = capabilities if isinstance(capabilities, dict) else {}
    return host.set_client_info(info)


def initialize_result(host: Host, instructions: str) -> dict[str, Any]:
    """Return the result of `initialize`, once the host was taken."""
    return {
        "protocolVersion": host.version,
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": instructions,
    }


def discover_result(instructions: str) -> dict[str, Any]:
    """Return the result of `server/discover`."""
    return {
        "supportedVersions": list(reversed(SUPPORTED_VERSIONS)),
        "capabilities": CAPABILITIES,
        "instructions": instructions,
        **OURS_FOR_ONE.hints(),
    }


def first_answer(method: str, params: dict[str, Any], instructions: MakeInstructions) -> Mapping[str, Any] | None:
    """Return the answer to the first request of a new host over stdio; None for any but these two.

    Raises:
        HostError: the request is refused.
    """
    host = Host("stdio", None)
    version = version_spoken(host, method, params)
    modern = version is not None and era_of(version) == "modern"
    if method == "initialize" and not modern:
        take_initialize(host, params)
        return for_legacy(initialize_result(host, instructions()))
    if method == "server/discover" and modern:
        return for_modern(discover_result(instructions()))
    return None
