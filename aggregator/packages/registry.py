"""An MCP Registry: look-ups of servers by name, with similar names.

The API is defined in https://github.com/modelcontextprotocol/registry (docs/reference/api): `/v0.1/servers/...`, and
`/v0` for registries that have only that.
"""

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

from aggregator.packages.download import Downloaded, DownloadLimits, checked_address, download, is_loopback
from aggregator.packages.errors import PackageError
from aggregator.packages.inputs import objects, text_of
from aggregator.packages.plan import one_line
from aggregator.packages.server_json import ServerDescription, read_description

_SIZE: Final = 2**20
_SECONDS: Final = 20.0
_VERSIONS: Final = ("v0.1", "v0")
_SUGGESTED: Final = 5


def registry_limits(registry: str) -> DownloadLimits:
    """Return the limits of requests to a registry; plain HTTP only for one on this machine."""
    return DownloadLimits(_SIZE, _SECONDS, loopback=is_loopback(registry))


async def look_up(registry: str, name: str, version: str = "latest") -> ServerDescription:
    """Return the description of a server in the registry at this address.

    Raises:
        PackageError: the registry is unreachable, has no such server, or answers with something else.
    """
    base = checked_address(registry, registry_limits(registry), "the registry").rstrip("/")
    place = f"servers/{quote(name, safe='')}/versions/{quote(version, safe='')}"
    for api in _VERSIONS:
        answer = await _ask(f"{base}/{api}/{place}", base)
        if answer.status == 200:
            found = read_description(_decoded(answer, base), f"{name} in {base}")
            if found.name != name:
                raise PackageError(f"The registry {base} answered with {found.name!r:.80} when asked for {name}.")
            return found
        if answer.status != 404:
            raise PackageError(f"The registry {base} answered with status {answer.status}. Try again later.")
    near = await _near(base, name)
    wanted = name if version == "latest" else f"{name} in version {version}"
    known = f" It has {', '.join(near)}." if near else ""
    raise PackageError(f"The registry {base} has no {wanted}.{known}")


async def _near(base: str, name: str) -> list[str]:
    """Return a few names of the registry that contain the last part of a name; none on failure."""
    query = urlencode({"search": name.rpartition("/")[2], "limit": _SUGGESTED})
    try:
        answer = await _ask(f"{base}/{_VERSIONS[0]}/servers?{query}", base)
        root = _decoded(answer, base) if answer.status == 200 else {}
    except PackageError:
        return []
    servers = root.get("servers") if isinstance(root, Mapping) else None
    listed = (item.get("server") for item in objects(servers))
    names = (one_line(text_of(server.get("name")), 100) for server in listed if isinstance(server, Mapping))
    return list(dict.fromkeys(found for found in names if found))[:_SUGGESTED]


async def _ask(address: str, base: str) -> Downloaded:
    return await download(address, registry_limits(base), f"The registry {base}")


def _decoded(answer: Downloaded, base: str) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise PackageError(f"The registry {base} answered with something that is not JSON.") from None
