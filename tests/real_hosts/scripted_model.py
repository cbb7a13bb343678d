"""A model that plays a script: an HTTP server on loopback that hosts take for their maker's API."""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from tests.real_hosts.model_apis import APIS, ModelView, ToolRequest

_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """A tool that the model asks for, by the end of its name; `before` runs first, and may change the world."""

    ending: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request of a host that has tools: what it shows, and when it came, by the monotonic clock."""

    view: ModelView
    at: float


class ScriptedModel:
    """A model that asks for the tool of each step, one after the other, and then says that it is done.

    `requests` are the requests with tools, oldest first; `faults` what could not be played. Requests without tools
    (titles, summaries) get a short text.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self.requests: list[ModelRequest] = []
        self.faults: list[str] = []
        self._steps = steps
        self._begun = 0
        self._turn = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            """One request of the host."""

            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: object) -> None:
                """Say nothing: the report has what is of interest."""

            def do_HEAD(self) -> None:
                """Tell a host that looks that this listens."""
                self._send(200, b"")

            def do_GET(self) -> None:
                """Know no models, files or accounts."""
                self._send(200 if self.path.partition("?")[0].endswith("/models") else 404, b'{"data":[],"models":[]}')

            def do_POST(self) -> None:
                """Play the next step of the script."""
                body = self._body()
                path = self.path.partition("?")[0]
                api = next((api for api in APIS if path.endswith(api.path)), None)
                if api is None or body is None:
                    self._send(404, b'{"error":{"message":"not in the script"}}')
                    return
                try:
                    answer = api.answer(*model.next_step(api.view(body)))
                except (KeyError, TypeError, AttributeError) as error:
                    model.faults.append(f"{path}: not a request of this API: {error!r}")
                    self._send(400, b'{"error":{"message":"not a request of this API"}}')
                    return
                self._send(200, answer, "text/event-stream")

            def _body(self) -> dict[str, Any] | None:
                length = int(self.headers.get("content-length") or 0)
                if not 0 < length <= _MAX_BYTES:
                    self.close_connection = True
                    return None
                try:
                    value = json.loads(self.rfile.read(length))
                except ValueError:
                    return None
                return value if isinstance(value, dict) else None

            def _send(self, code: int, data: bytes, kind: str = "application/json") -> None:
                self.send_response(code)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_step(self, view: ModelView) -> tuple[ToolRequest | None, int]:
        """Return what the model asks for now, by how many results it was shown, and the number of the answer.

        A host that sends a request again, or in parallel, gets the same step again; its `before` runs once.
        """
        with self._turn:
            if not view.definitions:
                return None, len(self.requests)
            self.requests.append(ModelRequest(view, time.monotonic()))
            done = len(view.results)
            if done >= len(self._steps):
                return None, len(self.requests)
            step = self._steps[done]
            if done == self._begun:
                self._begun += 1
                if step.before is not None:
                    step.before()
            try:
                return ToolRequest(view.named(step.ending), step.arguments), len(self.requests)
            except LookupError as error:
                self.faults.append(f"step {done + 1}: {error}")
                return None, len(self.requests)
