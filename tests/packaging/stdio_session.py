"""`python -m tests.packaging.stdio_session [--bundle FOLDER] [COMMAND ...]`: a host's session on this system.

COMMAND is the installed program; with `--bundle`, the unpacked `aggregator.mcpb` is started as its manifest says, with
the uv on PATH. A small server is listed and called through it. This needs the standard library alone, and ends with an
error if an answer is not the expected one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Timer
from typing import IO, Any, Final

_SERVER: Final = Path(__file__).resolve().parents[1] / "doctor" / "small_server.py"
# Seconds for everything, uv's downloads included.
_PATIENCE: Final = 300.0
_FIRST: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "journey", "version": "0"},
}

Json = dict[str, Any]


def session(command: list[str], environ: dict[str, str]) -> None:
    """Start the program, list the tools, call one, and close stdin, after which it has to end by itself.

    Raises:
        AssertionError, ValueError: an answer is not the expected one, or does not come.
    """
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        watch = Timer(_PATIENCE, process.kill)
        watch.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _ask_and_leave(process.stdin, process.stdout)
            assert process.wait() == 0, process.returncode
        finally:
            watch.cancel()
            process.kill()


def _ask_and_leave(stdin: IO[bytes], stdout: IO[bytes]) -> None:
    pipes = stdin, stdout
    told = _ask(pipes, 1, "initialize", _FIRST)
    assert told["serverInfo"]["name"] == "aggregator", told
    _send(stdin, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    names = [tool["name"] for tool in _ask(pipes, 2, "tools/list", {})["tools"]]
    name = next((name for name in names if "tool_0" in name), None)
    assert name is not None, names
    called = _ask(pipes, 3, "tools/call", {"name": name, "arguments": {}})
    assert called["content"][0]["text"] == "tool_0 was called", called
    stdin.close()


def _ask(pipes: tuple[IO[bytes], IO[bytes]], number: int, method: str, params: Json) -> Json:
    _send(pipes[0], {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    while True:
        message = json.loads(pipes[1].readline())
        if message.get("id") == number:
            return dict(message["result"])


def _send(stdin: IO[bytes], message: Json) -> None:
    stdin.write(json.dumps(message).encode() + b"\n")
    stdin.flush()


def main(words: list[str]) -> int:
    """Make a configuration with one server in a temporary folder, and hold the session."""
    parser = argparse.ArgumentParser(prog="stdio_session", description=__doc__)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("command", nargs="*", default=["aggregator"])
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "aggregator.json")
        server = {"command": sys.executable, "args": [str(_SERVER)]}
        database = f"sqlite:///{Path(folder, 'journey.db').as_posix()}"
        settings = {"mcpServers": {"box": server}, "http": {"port": 0}, "storage": database}
        config.write_text(json.dumps(settings), encoding="utf-8")
        if options.bundle is None:
            session([*options.command, "stdio", "--config", str(config)], dict(os.environ))
        else:
            told = json.loads((options.bundle / "manifest.json").read_text(encoding="utf-8"))["server"]["mcp_config"]
            args = [text.replace("${__dirname}", str(options.bundle.resolve())) for text in told["args"]]
            # The other fields of the form are left out, as a host leaves them: with their placeholders.
            environ = {**os.environ, **told["env"], "AGGREGATOR_BUNDLE_CONFIG": str(config)}
            session([told["command"], *args], environ)
    print("The tools of a server were listed and called over stdio.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
