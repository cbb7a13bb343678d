"""The answers that begin a session: to `initialize`, and to `server/discover` of 2026-07-28.

Rule: this module imports only what the first answer of a stdio process needs; the rest is loaded after that answer.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.freshness import OURS_FOR_ONE
from aggregator.domain.versions import LATEST_LEGACY, LEGACY_VERSIONS, SKILLS, SUPPORTED_VERSIONS, era_of
from aggregator.gateway.eras import SERVER_INFO, for_modern, version_spoken
from aggregator.gateway.host import Host

# Lists are declared even if no server has any: one may have some later, and hosts are then told.
_LISTS: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    # Deprecated, but a server that passes log lines on must declare it (S/server/utilities/logging).
    "logging": {},
}
# As SEP-2640 has it. Servers without `directoryRead` are answered for by the manifests of their skills.
_WITH_SKILLS: Final[Mapping[str, Any]] = {**_LISTS, "extensions": {SKILLS: {"directoryRead": True}}}


class MakeInstructions(Protocol):
    """The `instructions` for a model, made when they are needed."""

    def __call__(self) -> str: ...


def take_initialize(host: Host, params: Mapping[str, Any]) -> bool:
    """Store a host's data from `initialize`; return whether that changes the spelling of names.

    Raises:
        HostError: the params name no revision; nothing was stored.
    """
    asked, capabilities, info = (params.get(key) for key in ("protocolVersion", "capabilities", "clientInfo"))
    if not isinstance(asked, str):
        raise HostError(INVALID_PARAMS, "`initialize` needs `protocolVersion` as a string.")
    host.version = asked if asked in LEGACY_VERSIONS else LATEST_LEGACY
    host.capabilities = capabilities if isinstance(capabilities, dict) else {}
    return host.set_client_info(info)


def initialize_result(host: Host, instructions: str, *, skills: bool) -> dict[str, Any]:
    """Return the result of `initialize`, after `take_initialize`. `skills`: a server has some, or may have."""
    return {
        "protocolVersion": host.version,
        "capabilities": _WITH_SKILLS if skills else _LISTS,
        "serverInfo": SERVER_INFO,
        "instructions": instructions,
    }


def discover_result(instructions: str, *, skills: bool) -> dict[str, Any]:
    """Return the result of `server/discover`. `skills`: a server has some, or may have."""
    return {
        "supportedVersions": list(reversed(SUPPORTED_VERSIONS)),
        "capabilities": _WITH_SKILLS if skills else _LISTS,
        "instructions": instructions,
        **OURS_FOR_ONE.hints(),
    }


def first_answer(method: str, params: dict[str, Any], instructions: MakeInstructions) -> Mapping[str, Any] | None:
    """Return the answer to the first request of a new host over stdio; None for any but these two.

    It declares skills, since no server has said yet that it has none.

    Raises:
        HostError: the request is refused.
    """
    host = Host("stdio", None)
    version = version_spoken(host, method, params)
    modern = version is not None and era_of(version) == "modern"
    if method == "initialize" and not modern:
        take_initialize(host, params)
        return initialize_result(host, instructions(), skills=True)
    if method == "server/discover" and modern:
        return for_modern(discover_result(instructions(), skills=True))
    return None
