"""The command as a process, and what it writes into a host's file, started as the host would."""

import asyncio
import shlex
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.end_to_end.programs import ProgramResult, run
from tests.end_to_end.scripted_host import BOUND
from tests.end_to_end.server_harness import ROOT, raw_stdio_entry, write_config
from tests.install.conftest import json_of, tree


async def in_home(home: Path, *args: str) -> ProgramResult:
    """Run `aggregator` for a user with this home."""
    settings, data = home / "settings", home / "data"
    return await run(*args, HOME=str(home), XDG_CONFIG_HOME=str(settings), XDG_DATA_HOME=str(data))


async def test_the_host_finds_our_tools(tmp_path: Path) -> None:
    """E7: A host that starts the entry, in a folder of its own and without this shell's variables, lists the tools."""
    config, home = write_config(tmp_path, {"box": raw_stdio_entry()}), tmp_path / "home"
    home.mkdir()
    before = tree(home)
    ended = await in_home(home, "install", "cursor", "--config", str(config), "--agent", "shop", "--write")
    assert (ended.code, ended.err) == (0, "")
    entry = json_of(home / ".cursor" / "mcp.json")["mcpServers"]["aggregator"]
    program = StdioServerParameters(**entry, cwd=tmp_path)
    async with asyncio.timeout(BOUND), stdio_client(program) as streams, ClientSession(*streams) as session:
        await session.initialize()
        listed = await session.list_tools()
    assert "box__echo" in {tool.name for tool in listed.tools}
    assert (await in_home(home, "install", "cursor", "--undo", "--write")).code == 0
    left = {name: content for name, content in tree(home).items() if not name.startswith(("data", "settings"))}
    assert left == before


async def test_a_program_of_a_version_manager_starts_from_the_desktop(tmp_path: Path) -> None:
    """A host hands on the PATH of the desktop, in which no folder of uv, nvm and the like is."""
    entry = raw_stdio_entry()
    script = tmp_path / "home" / ".local" / "bin" / "my-server"
    script.parent.mkdir(parents=True)
    words = shlex.join([str(entry["command"]), *map(str, entry["args"])])
    script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    script.chmod(0o755)
    config = write_config(tmp_path, {"box": {**entry, "command": "my-server", "args": []}})
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    args = ["-m", "aggregator", "stdio", "--config", str(config)]
    program = StdioServerParameters(command=sys.executable, args=args, env=env, cwd=tmp_path)
    async with asyncio.timeout(BOUND), stdio_client(program) as streams, ClientSession(*streams) as session:
        await session.initialize()
        listed = await session.list_tools()
    assert "box__echo" in {tool.name for tool in listed.tools}


async def test_a_refusal_is_one_line(tmp_path: Path) -> None:
    """E7: An error is one line on stderr, with exit code 2."""
    ended = await run("install", "cursor", "--undo", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.splitlines()) == 1
