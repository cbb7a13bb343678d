"""The provenance of a result: the server, when it was fetched, the tool's schema version, and how old its data are."""

import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.records import ToolRecord

PROVENANCE_KEY: Final = "aggregator/provenance"

# Keys for the time when its data changed; content blocks have `annotations.lastModified` (S/schema, Annotations).
_UPDATED: Final = ("updated_at", "updatedAt", "last_updated", "lastUpdated", "last_modified", "lastModified")
_PARTS: Final = ("_meta", "structuredContent")
_LONGEST: Final = 40


def attributed(
    server: ServerConfig, tool: ToolRecord, result: Mapping[str, Any], now: float, called: str | None = None
) -> dict[str, Any]:
    """Return the result with its provenance in `_meta` and, if the config wants it visible, as a last block of text.

    `called` is the id of the called server, for which this one may stand in. `now` is wall-clock time in
    seconds since 1970; times are written in UTC (RFC 3339).
    """
    retrieved = _written(int(now))
    provenance = {"server": server.id, "retrieved_at": retrieved, "schema_version": tool.version}
    if called is not None and called != server.id:
        provenance["in_place_of"] = called
    updated = updated_at(result)
    if updated is not None:
        provenance["updated_at"] = updated
    meta = result.get("_meta")
    said_by_us = {PROVENANCE_KEY: provenance}
    made = {**result, "_meta": {**meta, **said_by_us} if isinstance(meta, dict) else said_by_us}
    if server.attribution == "visible" and isinstance(content := result.get("content"), list):
        said = f"Source: {server.id}" + (f" ({server.description})" if server.description != server.key else "")
        said += f", in place of {called}" if "in_place_of" in provenance else ""
        said += f", retrieved {retrieved}" + (f", data of {updated}" if updated is not None else "")
        made["content"] = [*content, {"type": "text", "text": f"[{said}]"}]
    return made


def updated_at(result: Mapping[str, Any]) -> str | None:
    """Return the newest time that the upstream itself gives for its data, as it wrote it."""
    # Every result passes here: plain loops, and no objects for results without such a time.
    newest: str | None = None
    for name in _PARTS:
        if name in result and isinstance(part := result[name], dict):
            for key in _UPDATED:
                if key in part:
                    newest = _newer(newest, part[key])
    content = result.get("content")
    if isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and "annotations" in block and isinstance(block["annotations"], dict):
                newest = _newer(newest, block["annotations"].get("lastModified"))
    return newest


def _newer(newest: str | None, said: Any) -> str | None:
    if isinstance(said, str) and 0 < len(said) <= _LONGEST and (newest is None or said > newest):
        return said
    return newest


@lru_cache(maxsize=4)
def _written(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
