"""A host that does one thing at a time, over stdio or Streamable HTTP: for everything that is not a load."""

import http.client
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Protocol, Self
from urllib.parse import urlsplit

from aggregator.wire.codec import decode, encode
from benchmarks.messages import INITIALIZE, INITIALIZED, headers, request


class Host(Protocol):
    """Send a request and return the whole response, with `result` or `error`."""

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


class StdioHost:
    """A host that starts a server and uses its pipes; the user of the class sends `initialize`."""

    def __init__(self, command: Sequence[str], stderr: IO[bytes] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr or subprocess.DEVNULL
        )
        self._ids = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdout is not None
        self._ids += 1
        self._write(request("legacy", self._ids, method, params))
        for line in self.process.stdout:
            message: dict[str, Any] = decode(line)
            if message.get("id") == self._ids:
                return message
        raise RuntimeError(f"the server ended during {method}")

    def initialize(self) -> dict[str, Any]:
        answer = self.ask("initialize", INITIALIZE)
        self._write(INITIALIZED)
        return answer

    def _write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()


class HttpHost:
    """One connection and one session of the handshake era. `session` is its id, once there is one."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=120)
        self.session: str | None = None
        self._ids = 0

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._ids += 1
        body = request("legacy", self._ids, method, params)
        status, answer = self._post(body, headers("legacy", method, params, self.session))
        message = decode(answer) if answer else None
        if not isinstance(message, dict):
            raise RuntimeError(f"HTTP {status} for {method}: {answer[:200]!r}")
        return message

    def initialize(self) -> dict[str, Any]:
        answer = self.ask("initialize", INITIALIZE)
        self._post(INITIALIZED, headers("legacy", "notifications/initialized", {}, self.session))
        return answer

    def close(self) -> None:
        self._connection.close()

    def _post(self, body: bytes, lines: Mapping[str, str]) -> tuple[int, bytes]:
        self._connection.request("POST", self._path, body, dict(lines))
        response = self._connection.getresponse()
        self.session = self.session or response.headers.get("mcp-session-id")
        data = response.read()
        if response.headers.get_content_type() == "text/event-stream":
            # The answer is the last event; nothing else is asked for here.
            data = data.rpartition(b"data: ")[2].split(b"\r\n\r\n")[0]
        return response.status, data


def list_tools(host: Host) -> tuple[list[dict[str, Any]], list[int]]:
    """Every tool of every page, and how many bytes of JSON each page is."""
    tools: list[dict[str, Any]] = []
    sizes: list[int] = []
    cursor: str | None = None
    while cursor is not None or not sizes:
        result = host.ask("tools/list", {} if cursor is None else {"cursor": cursor})["result"]
        tools += result["tools"]
        sizes.append(len(encode(result)))
        cursor = result.get("nextCursor")
    return tools, sizes
