"""What relays A and B have in common: the tools of one upstream, reading a request, and the rows of the audit.

A relay is the least that can be called a gateway: it finds the tool, holds the arguments against its schema, sends the
call with an id of its own, restores the id, and records a row. No policies, identities, limits, metrics or revisions.
"""

import hashlib
import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import jsonschema_rs
import orjson

from benchmarks.messages import LEGACY

AGENT: Final = "local"
SESSION: Final = b"0d7c0e1c3b1f4a52a5b9c7d1e8f60a43"
# Seconds for which rows are gathered.
FLUSH_INTERVAL: Final = 0.1

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_COLUMNS: Final = "time REAL, agent TEXT, tool TEXT, outcome TEXT, duration REAL, sent INT, received INT, hash BLOB"


Row = tuple[float, str, str, str, float, int, int]
"""One call as the audit keeps it, without the hash: the columns of the table in order."""


class AuditFile:
    """A table of calls; each row has the hash of itself and of the row before."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(f"CREATE TABLE calls ({_COLUMNS})")
        self._last = bytes(32)

    def append(self, rows: Sequence[Row]) -> None:
        """Write rows in one transaction."""
        hashed, last = [], self._last
        for row in rows:
            last = hashlib.blake2b(last + orjson.dumps(row), digest_size=32).digest()
            hashed.append((*row, last))
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)", hashed)
        self._database.execute("COMMIT")
        self._last = last


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the upstream, with its schema compiled."""

    name: str
    definition: Mapping[str, Any]
    validator: jsonschema_rs.Validator


@dataclass(slots=True)
class Call:
    """One call under way. `request_id` is the host's."""

    request_id: Any
    tool: Tool
    arguments: Any
    is_modern: bool
    sent: int
    began: float

    def request(self, own_id: int) -> bytes:
        """Return the message to the upstream."""
        params = {"name": self.tool.name, "arguments": self.arguments}
        return orjson.dumps({"jsonrpc": "2.0", "id": own_id, "method": "tools/call", "params": params})

    def answer(self, message: dict[str, Any]) -> bytes:
        """Return the upstream's answer as that to the host."""
        message["id"] = self.request_id
        if self.is_modern and "result" in message:
            message["result"] = {"resultType": "complete", **message["result"]}
        return orjson.dumps(message)

    def row(self, message: Mapping[str, Any], received: int) -> Row:
        """Return what the audit keeps of it, once it is answered."""
        outcome = "error" if "error" in message else "ok"
        duration = time.perf_counter() - self.began
        return time.time(), AGENT, self.tool.name, outcome, duration, self.sent, received


@dataclass(frozen=True, slots=True)
class Settings:
    """What a relay reads of a configuration of the aggregator: its one server, and the folder of the database.

    `command` is that of a stdio upstream, `url` the address of one over HTTP.
    """

    server: str
    command: Sequence[str]
    url: str | None
    audit: Path

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a configuration file with one server."""
        config = json.loads(path.read_text())
        ((name, server),) = config["mcpServers"].items()
        command = [server["command"], *server["args"]] if "command" in server else []
        return cls(name, command, server.get("url"), path.parent / "calls.db")


class Tools:
    """The tools of the upstream under their exposed names, and the answers that need no upstream."""

    def __init__(self, server: str, definitions: Sequence[Mapping[str, Any]]) -> None:
        self._tools = {
            f"{server}.{one['name']}": Tool(one["name"], one, jsonschema_rs.validator_for(one["inputSchema"]))
            for one in definitions
        }

    def read(self, body: bytes) -> Call | bytes:
        """Return the call in a request, or the answer to what is no call or not to be made; empty for 202."""
        began = time.perf_counter()
        try:
            message = orjson.loads(body)
            params = message.get("params", {})
            if message["method"] != "tools/call":
                return self._other(message, params)
            tool = self._tools.get(params["name"])
            arguments = params.get("arguments", {})
            is_modern = _VERSION in params.get("_meta", ())
        except (ValueError, KeyError, AttributeError, TypeError):
            return _error(None, -32600, "Not a request.")
        if tool is None:
            return _error(message.get("id"), -32602, "Unknown tool.")
        if not tool.validator.is_valid(arguments):
            return _error(message.get("id"), -32602, "The arguments do not fit the tool's schema.")
        return Call(message.get("id"), tool, arguments, is_modern, len(body), began)

    def _other(self, message: Mapping[str, Any], params: Mapping[str, Any]) -> bytes:
        if "id" not in message:
            return b""
        result: dict[str, Any] = {}
        if message["method"] == "initialize":
            own = {"name": "relay", "version": "1"}
            result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": own}
        elif message["method"] == "tools/list":
            result = {"tools": [{**tool.definition, "name": name} for name, tool in self._tools.items()]}
            if _VERSION in params.get("_meta", ()):
                result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        elif message["method"] != "ping":
            return _error(message["id"], -32601, "Method not found.")
        return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


def _error(request_id: Any, code: int, text: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})
