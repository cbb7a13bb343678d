"""Misconfigurations of servers, as they show when they are started."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

from tests.doctor.place import Examined, Json, Place
from tests.doctor.seeds import Make, Seed


def _small(*words: str, **fields: Any) -> Make:
    """Return the seed of one server that misbehaves."""
    return lambda place: place.configure({"box": place.server(*words, **fields)})


def _entry(**fields: Any) -> Make:
    return lambda place: place.configure({"box": fields})


def _says(words: str) -> Make:
    return _small("--die", words)


def _good(place: Place, _: Examined) -> None:
    place.configure()


class _Answers(BaseHTTPRequestHandler):
    """`/401` and `/403` refuse, `/sse` is an event stream for GET alone, all else is not there."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self._answer({"/401": 401, "/sse": 405}.get(self.path, 404))

    def do_GET(self) -> None:
        self._answer({"/401": 401}.get(self.path, 404))

    def do_DELETE(self) -> None:
        self._answer(404)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def answers() -> Iterator[str]:
    """A web server that is no MCP server; yields its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _at(path: str, **fields: Any) -> Make:
    """Return the seed of a server at a path of a web server that is none."""

    def make(place: Place) -> None:
        base = place.stack.enter_context(answers())
        entry: Json = {"type": "http", "url": f"{base}{path}", **fields}
        place.configure({"box": entry})

    return make


def _docker(place: Place) -> None:
    place.program(
        "docker",
        "#!/bin/sh\necho 'docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
        "Is the docker daemon running?' >&2\nexit 125\n",
    )
    place.configure({"box": {"command": "docker", "args": ["run", "-i", "--rm", "mcp/box"]}})


SECRET_HEADER: Final = {"Authorization": "Bearer canary-0123456789-abcdef"}
NODE: Final = "npm warn EBADENGINE Unsupported engine { package: 'x', required: { node: '>=22' }, current: 'v16' }"

SEEDS: Final = tuple(
    Seed(name, code, make, _good, tells, args, connects=True)
    for name, code, make, tells, args in (
        ("uvx that is missing", "server_command_missing", _entry(command="/no/such/uvx", args=["x"]), "Install uv", ()),
        ("program that is missing", "server_command_missing", _entry(command="no-such-program"), "Install it", ()),
        (
            "module that is missing",
            "server_module_missing",
            _says("ModuleNotFoundError: No module named 'fastmcp'"),
            "Install",
            (),
        ),
        ("package that is missing", "server_module_missing", _says("npm error code E404"), "Install", ()),
        ("end at the start", "server_crashes", _says("panic: no database"), "in a terminal", ()),
        (
            "no answer to initialize",
            "server_hangs",
            _small("--silent", limits={"connect_timeout": 1}),
            "`limits.connect_timeout`",
            ("--timeout", "8"),
        ),
        ("old Node.js", "server_node_version", _says(NODE), "current Node.js", ()),
        (
            "variable that a server lacks",
            "server_environment",
            _says("Error: BRAVE_API_KEY environment variable is required"),
            "Write BRAVE_API_KEY",
            (),
        ),
        ("Docker that does not run", "server_docker", _docker, "Start Docker", ()),
        ("print to stdout", "server_stdout", _small("--noise"), "stderr", ()),
        ("token that has ended", "server_unauthorized", _at("/401", headers=SECRET_HEADER), "Renew", ()),
        ("no account", "server_login", _at("/401", auth={"per": "shared"}), "aggregator connect", ()),
        ("wrong path", "server_not_there", _at("/wrong"), "/mcp", ()),
        ("SSE as HTTP", "server_other_transport", _at("/sse"), '"type": "sse"', ()),
        ("nothing listens", "server_unreachable", _entry(type="http", url="http://127.0.0.1:9/mcp"), "Start", ()),
        ("folder that is missing", "server_folder_missing", _small(cwd="/no/such/folder"), "`cwd`", ()),
        ("schema that cannot be used", "tools_left_out", _small("--bad-schema"), "author", ()),
        ("pages in circles", "server_faulty", _small("--circles"), "author", ()),
        ("setting of no tool", "server_tool_unlisted", _small(tools={"timeout": {"nothing": 5}}), "take it out", ()),
        ("no tool is taken", "server_no_tools", _small(tools={"exclude": ["*"]}), "tools.exclude", ()),
    )
)
