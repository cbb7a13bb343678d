"""The tools that the servers had when they were last connected, from the database."""

import json
from collections.abc import Iterator
from contextlib import suppress

from aggregator.app.catalog_sync import fingerprint
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.names import canonical
from aggregator.domain.records import ToolRecord
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
