"""Both serving commands as on Windows, from the start of a server to the end of all, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.end_to_end.server_harness import ROOT
from tests.operating.program_harness import server
from tests.peers.processes import is_alive
from tests.polling import until

_BOUND: Final = 60.0
_INITIALIZE: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "aggregator.json"
    storage = f"sqlite+aiosqlite:///{tmp_path / 'aggregator.db'}"
    content = {"mcpServers": {"near": server()}, "storage": storage, "http": {"port": 0}}
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


@contextmanager
def program(*args: str) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.windows.program", *args],
        cwd=ROOT,
        env={**os.environ, "TESTS_ON": "windows"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def send(process: "subprocess.Popen[bytes]", method: str, request_id: int | None = None, **params: Any) -> None:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    assert process.stdin is not None
    process.stdin.write(json.dumps(message if request_id is None else {**message, "id": request_id}).encode() + b"\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[bytes]", request_id: int) -> Any:
    assert process.stdout is not None
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == request_id and "method" not in message:
            return message["result"]
    raise AssertionError("the program closed its stdout")


def test_stdio(config: Path) -> None:
    """Threads read and write the pipes of the host; the server ends with the program."""
    with program("stdio", "--config", str(config)) as process:
        send(process, "initialize", 1, **_INITIALIZE)
        assert answer(process, 1)["serverInfo"]["name"] == "aggregator"
        send(process, "notifications/initialized")
        send(process, "tools/list", 2)
        assert {tool["name"] for tool in answer(process, 2)["tools"]} >= {"near__who"}
        send(process, "tools/call", 3, name="near__who", arguments={})
        served_by = answer(process, 3)
        assert not served_by.get("isError"), served_by
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(_BOUND) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_a_newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import`, `add`, `install`, `doctor`, a session as Claude Desktop starts it, and the undo, byte for byte."""
    home = tmp_path / "home of ä"
    folders = {"HOME": home, "APPDATA": home / "Roaming", "LOCALAPPDATA": home / "Local"}
    for name, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv(name, str(folder))
    desktop, cursor = home / "Roaming" / "Claude" / "claude_desktop_config.json", home / ".cursor" / "mcp.json"
    before = b'\xef\xbb\xbf{\r\n  "theme": "dark"\r\n}\r\n'
    near = server()
    for path, content in ((desktop, before), (cursor, json.dumps({"mcpServers": {"near": near}}).encode())):
        path.parent.mkdir()
        path.write_bytes(content)

    def run(*args: str) -> bytes:
        with program(*args) as process:
            said, errors = process.communicate(timeout=_BOUND)
        assert process.returncode == 0, (args, said, errors)
        return said

    run("import", "--write", "cursor")
    run("add", "far", "--yes", "--", str(near["command"]), *near["args"])
    run("install", "claude-desktop", "--write")
    entry = json.loads(desktop.read_text("utf-8-sig"))["mcpServers"]["aggregator"]
    assert desktop.read_bytes().startswith(before[:3])
    found = json.loads(run("doctor", "--json"))["findings"]
    assert [one for one in found if one["severity"] == "error"] == []
    monkeypatch.setattr(os, "environ", {**os.environ, **entry.get("env", {})})
    with program(*entry["args"][entry["args"].index("stdio") :]) as process:
        send(process, "initialize", 1, **_INITIALIZE)
        assert answer(process, 1)["serverInfo"]["name"] == "aggregator"
        send(process, "notifications/initialized")
        for request_id, name in ((2, "near__who"), (3, "far__who")):
            send(process, "tools/call", request_id, name=name, arguments={})
            assert not answer(process, request_id).get("isError")
    run("install", "claude-desktop", "--undo", "--write")
    assert desktop.read_bytes() == before


async def test_serve(config: Path) -> None:
    """Connections are taken without `add_reader`, and CTRL+BREAK drains: the exit code is 0."""
    log: list[bytes] = []
    with program("serve", "--config", str(config)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            log.append(line)
            if b"Streamable HTTP at" in line:
                break
        url = log[-1].split()[-1].decode().removesuffix("/mcp")
        async with httpx2.AsyncClient(timeout=_BOUND) as client:
            answers = [(await client.get(f"{url}/healthz", headers={"connection": "close"})).status_code for _ in "abc"]
            assert answers == [200, 200, 200]
        process.send_signal(signal.SIGTTIN)  # the number of SIGBREAK
        assert process.wait(_BOUND) == 0, b"".join([*log, process.stderr.read()])
    await until(lambda: not is_alive(process.pid), "the program has ended")


def test_stop(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`aggregator stop` needs no signal: the process that serves drains, and the exit codes are 0."""
    for name in ("HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    with program("serve", "--config", str(config)) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if b"Streamable HTTP at" in line:
                break
        with program("stop", "--config", str(config)) as stop:
            said, _ = stop.communicate(timeout=_BOUND)
            assert (stop.returncode, b"has ended" in said) == (0, True), said
        assert process.wait(_BOUND) == 0
    assert list((tmp_path / "home/aggregator/running").iterdir()) == []


def test_what_doctor_says_to_run_is_there(config: Path) -> None:
    """No fix has a program or the quotes of POSIX: neither shell of Windows would take them."""
    content = json.loads(config.read_text(encoding="utf-8"))
    database = config.parent / "a database"
    database.mkdir()
    content["storage"] = f"sqlite:///{database}"
    config.write_text(json.dumps(content), encoding="utf-8")
    with program("doctor", "--json", "--config", str(config)) as process:
        said, _ = process.communicate(timeout=_BOUND)
    fixes = {one["code"]: one["fix"] for one in json.loads(said)["findings"]}
    assert f'`move "{database}" "{database}.old"`' in fixes["database_damaged"]


def test_workers_are_refused(config: Path) -> None:
    """`--workers` says that it needs POSIX."""
    with program("serve", "--workers", "2", "--config", str(config)) as process:
        _, said = process.communicate(timeout=_BOUND)
        assert process.returncode == 2
        assert b"--workers needs a POSIX system" in said
        assert b"Traceback" not in said
