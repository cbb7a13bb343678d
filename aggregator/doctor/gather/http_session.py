"""A session over Streamable HTTP with a running gateway, and the program that listens at a port.

Rule: these functions wait for sockets: call them in a thread. Proxies of the environment are not used.
"""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from threading import Timer
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.app.health_page import connection_to
from aggregator.config.settings import TlsConfig
from aggregator.doctor.gather.one_session import (
    INITIALIZED,
    LINE_KEPT,
    MOST_PAGES,
    SessionTools,
    initialize,
    list_tools,
    session_with,
)

_LARGEST: Final = 64 * 2**20
_LISTENING: Final = "0A"
# Processes whose open files are searched for a socket.
_MOST_PROCESSES: Final = 20_000


class _Refused(Exception):
    """An answer with an HTTP status that is no success."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status
        self.said = said


def http_session(
    url: str, headers: Mapping[str, str], client: str | None, patience: float, tls: TlsConfig | None = None
) -> SessionTools:
    """Return the tools that a host gets from an address, with these headers; `tls` applies to our own address."""
    began, ends = time.monotonic(), time.monotonic() + patience
    try:
        parts = urlsplit(url)
        with closing(connection_to(url, tls, patience)) as connection, _ending(connection, ends):
            talk = _Talk(connection, f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}", headers, ends)
            found = talk.run(client)
    except _Refused as refused:
        found = SessionTools(fault="refused", status=refused.status, said=refused.said)
    except (OSError, HTTPException, ValueError) as error:
        found = SessionTools(fault="no_answer", said=getattr(error, "strerror", None) or type(error).__name__)
    return replace(found, seconds=time.monotonic() - began)


@contextmanager
def _ending(connection: HTTPConnection, ends: float) -> Iterator[None]:
    """End the connection at a moment, even if the other end sends a byte now and then."""

    def end() -> None:
        with suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = Timer(max(0.0, ends - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Talk:
    """The requests of one session."""

    def __init__(self, connection: HTTPConnection, target: str, headers: Mapping[str, str], ends: float) -> None:
        self._connection = connection
        self._target = target
        self._headers = {
            **headers,
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        self._ends = ends

    def run(self, client: str | None) -> SessionTools:
        """Return the tools. Raises _Refused, OSError, HTTPException and ValueError."""
        begun = self._ask(initialize(client))
        self._send(INITIALIZED).read(_LARGEST)
        tools: list[dict[str, Any]] = []
        cursor: str | None = None
        for page in range(MOST_PAGES):
            result = self._ask(list_tools(page + 2, cursor))
            tools += [tool for tool in result.get("tools", ()) if isinstance(tool, dict)]
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        session = {name: value for name, value in self._headers.items() if name == "mcp-session-id"}
        if session:
            self._connection.request("DELETE", self._target, headers=self._headers)
            self._connection.getresponse().read(_LARGEST)
        return session_with(begun, tools)

    def _ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        response = self._send(message)
        if response.headers.get_content_type() == "text/event-stream":
            answer = self._event(response, message["id"])
        else:
            answer = json.loads(response.read(_LARGEST))
        if (session := response.headers.get("mcp-session-id")) is not None:
            self._headers["mcp-session-id"] = session
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict):
            raise ValueError("the answer is not MCP")
        return result

    def _send(self, message: Mapping[str, Any]) -> HTTPResponse:
        self._connection.request("POST", self._target, json.dumps(message).encode(), self._headers)
        response = self._connection.getresponse()
        if response.status >= 300:
            raise _Refused(response.status, _sentence(response.read(_LARGEST)))
        return response

    def _event(self, response: HTTPResponse, request_id: object) -> Any:
        """Return the answer in an event stream, which is then left."""
        while time.monotonic() < self._ends:
            line = response.readline(_LARGEST)
            if not line:
                break
            if line.startswith(b"data:") and line[5:].strip():
                message = json.loads(line[5:])
                if isinstance(message, dict) and message.get("id") == request_id and "method" not in message:
                    # The stream may go on; the next request gets a connection of its own.
                    self._connection.close()
                    return message
        raise ValueError("the stream holds no answer")


def listens(base: str, patience: float = 1.0) -> bool:
    """Return whether a program listens at an address of this machine."""
    parts = urlsplit(base)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), patience):
            return True
    except OSError:
        return False


def owner_of(port: int) -> str | None:
    """Return the program that listens at a port, as `name, pid 123`, or None."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _inodes(Path("/proc/net") / table, port)}
    if not inodes:
        return None
    try:
        processes = [entry for entry in os.scandir("/proc") if entry.name.isdigit()][:_MOST_PROCESSES]
    except OSError:
        return None
    for process in processes:
        try:
            with os.scandir(f"{process.path}/fd") as files:
                if any(_target(file.path) in inodes for file in files):
                    name = Path(f"{process.path}/comm").read_text(encoding="utf-8", errors="replace").strip()
                    return f"{name}, pid {process.name}"
        except OSError:
            continue
    return None


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text(encoding="ascii", errors="replace").splitlines()[1:]]
    except OSError:
        return []
    wanted = f":{port:04X}"
    return [f"socket:[{row[9]}]" for row in rows if len(row) > 9 and row[1].endswith(wanted) and row[3] == _LISTENING]


def _sentence(body: bytes) -> str:
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    error = told.get("error") if isinstance(told, dict) else None
    text = error.get("message") if isinstance(error, dict) else error
    plain = str(text) if text is not None else ""
    return "".join(c if c.isprintable() else " " for c in plain[:LINE_KEPT])
