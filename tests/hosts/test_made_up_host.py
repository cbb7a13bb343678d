"""A host that is one description and one line in a list: every command and the gateway know it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.doctor.gather.http_session import http_session
from tests.doctor.place import SERVER
from tests.end_to_end.programs import environment
from tests.end_to_end.scripted_host import BOUND

_PROGRAM: Final = (sys.executable, "-m", "tests.hosts.made_up_host")


class Kitchen:
    """The home of a person who has the made-up host, and a configuration with one server."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / ".teapot" / "servers.toml"
        self.config = home / ".config" / "aggregator" / "aggregator.json"
        self.file.parent.mkdir()
        self.config.parent.mkdir(parents=True)
        self.config.write_text(json.dumps({"mcpServers": {"box": {"command": sys.executable, "args": [str(SERVER)]}}}))
        self.config.chmod(0o600)

    @property
    def entries(self) -> Mapping[str, Any]:
        entries: Mapping[str, Any] = tomllib.loads(self.file.read_text())["brews"]
        return entries

    def env(self) -> dict[str, str]:
        mine = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / ".config"), "XDG_DATA_HOME": str(self.home)}
        return environment(**mine)

    def run(self, *args: str, **more: str) -> str:
        done = subprocess.run(
            [*_PROGRAM, *args], cwd=self.home, env={**self.env(), **more}, capture_output=True, text=True, timeout=BOUND
        )
        assert not done.stderr, done.stderr
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Run `aggregator serve`; yield its address for MCP."""
        with subprocess.Popen(
            [*_PROGRAM, "serve", "--port", "0"], cwd=self.home, env=self.env(), stderr=subprocess.PIPE, text=True
        ) as program:
            assert program.stderr is not None
            try:
                found = (re.search(r"Streamable HTTP at (\S+)", line) for line in program.stderr)
                yield next(address[1] for address in found if address)
            finally:
                program.terminate()
                program.stderr.read()


@pytest.fixture
def kitchen(tmp_path: Path) -> Kitchen:
    return Kitchen(tmp_path)


def test_import_takes_its_servers(kitchen: Kitchen) -> None:
    """E7: also by its other name."""
    kitchen.file.write_text('[brews.green]\ncommand = "brew"\nargs = ["green"]\n')
    kitchen.run("import", "kettle", "--write")
    servers = json.loads(kitchen.config.read_text())["mcpServers"]
    assert servers["green"] == {"command": "brew", "args": ["green"]}


def test_install_writes_its_file(kitchen: Kitchen) -> None:
    """E7: Its entry in its form, what a person does next, and the key as a reference; it is listed as there."""
    kitchen.file.write_text("# of mine\n")
    shown = kitchen.run("install", "teapot", "--write")
    assert "Written. Refill Teapot. Its steam shows the entry." in shown
    assert kitchen.entries["aggregator"]["args"][-3:] == ["stdio", "--config", str(kitchen.config)]
    assert kitchen.file.read_text().startswith("# of mine\n")
    kitchen.run("install", "teapot", "--http", "--agent", "local", "--write")
    assert kitchen.entries["aggregator"]["headers"] == {"Authorization": "Bearer <<AGGREGATOR_KEY>>"}
    (row,) = [row for row in json.loads(kitchen.run("install", "--json")) if row["host"] == "teapot"]
    assert (row["here"], row["points_here"]) == (True, [str(kitchen.file)])


def test_its_program_on_the_path_shows_that_it_is_here(kitchen: Kitchen) -> None:
    kitchen.file.parent.rmdir()
    program = kitchen.home / "bin" / "teapot-program"

    def is_here() -> bool:
        path = os.pathsep.join((str(program.parent), os.environ["PATH"]))
        rows = json.loads(kitchen.run("install", "--json", PATH=path))
        return bool(next(row for row in rows if row["host"] == "teapot")["here"])

    assert not is_here()
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert is_here()


def test_the_doctor_knows_its_limits(kitchen: Kitchen) -> None:
    """F2: It refuses dots, and more than two tools."""
    words = ["-m", "aggregator", "stdio", "--config", str(kitchen.config), "--names", "canonical"]
    kitchen.file.write_text(f"[brews.aggregator]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(words)}\n")
    done = subprocess.run(
        [*_PROGRAM, "doctor", "--host", "teapot", "--json"],
        cwd=kitchen.home, env=kitchen.env(), capture_output=True, text=True, timeout=BOUND,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert {"host_refuses_names", "host_tool_limit"} <= {finding["code"] for finding in report["findings"]}
    assert report["seen"][0]["title"] == "Teapot"


def test_the_gateway_spells_names_for_it(kitchen: Kitchen) -> None:
    """F2: by the name in its `clientInfo` alone."""
    with kitchen.serving() as url:
        for client, separator in (("Teapot-Client", "__"), ("teapots", ".")):
            seen = http_session(url, {}, client, BOUND)
            assert seen.fault is None, seen
            assert f"box{separator}tool_0" in seen.names
