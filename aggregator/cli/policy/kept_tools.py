"""The tools of the servers when they were last connected, and names that neither they nor the configuration have."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

from aggregator.app.catalog_sync import fingerprint
from aggregator.catalog.validate import is_taken
from aggregator.config.files.report import nearest
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.names import canonical
from aggregator.domain.records import ToolRecord
from aggregator.policy.files.known_names import KnownNames
from aggregator.policy.full_names import meant_name
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import target_of
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.quick_read import glance


def kept_tools(config: Config | None, storage: str | None) -> tuple[ToolRecord, ...]:
    """Return the tools of all servers, as far as an SQLite file has them."""
    return tuple(tool for server in config.servers for tool in of_server(server, storage)) if config else ()


def of_server(server: ServerConfig, storage: str | None) -> Iterator[ToolRecord]:
    """Yield the tools of one server."""
    path = sqlite_path(full_url(storage)) if storage is not None else None
    if path is None:
        return
    for kept in glance(path, [fingerprint(server)]).values():
        for tool in kept.tools:
            definition = {"name": tool.name}
            with suppress(ValueError):
                definition = json.loads(tool.text)
            name = canonical(server.prefix, tool.name)
            yield ToolRecord(
                server.id, server.prefix, tool.name, definition, {"canonical": name, "compatible": name}, server.timeout
            )


def said_of_missing(
    thing: ToolRecord | Target, known: KnownNames, config: Config | None, storage: str | None
) -> str | None:
    """Return a sentence if nothing has this name; None if something has, or if that is unknown.

    Without tools in `known`, the stored lists in the database at the URL `storage` count.
    """
    target = thing if isinstance(thing, Target) else target_of(thing)
    mark = "" if target.kind == "tool" else f"{target.kind}:"
    if known.servers and target.prefix not in known.servers:
        meant = meant_name(target.full, known.servers)
        return f"There is no server {target.prefix}.{_hint(meant and f'{mark}{meant}')}"
    if target.kind != "tool":
        return None
    configured = _configured(target.server, config)
    if configured is not None and not is_taken(configured, target.name):
        return f"The configuration leaves {target.name} of server {target.server} out (`tools` of its entry)."
    if known.tools is None:
        names, when = _kept(target.server, config, storage), "had no such tool when it was last connected"
    else:
        names, when = [one.own_name for one in known.tools if one.server == target.server], "has no such tool now"
    if not names or target.name in names:
        return None
    meant = nearest(target.name, names)
    return f"Server {target.server} {when}.{_hint(meant and f'{target.prefix}.{meant}')}"


def _hint(meant: str | None) -> str:
    return f" Did you mean {meant}?" if meant else ""


def _configured(server: str, config: Config | None) -> ServerConfig | None:
    return next((one for one in config.servers if one.id == server), None) if config is not None else None


def _kept(server: str, config: Config | None, storage: str | None) -> Sequence[str]:
    """Return the names of a server's tools when it was last connected, as far as an SQLite file has them."""
    configured = _configured(server, config)
    return [tool.own_name for tool in of_server(configured, storage)] if configured is not None else []
