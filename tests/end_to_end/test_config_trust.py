"""Which configuration file each command takes, as processes in a folder that somebody else wrote."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.end_to_end.forked_program import Program
from tests.end_to_end.programs import ProgramResult, run, start
from tests.end_to_end.scripted_host import BOUND
from tests.end_to_end.server_harness import raw_stdio_entry, write_config

COMMANDS: Final = (
    ("serve", "--port", "0"),
    ("stdio",),
    ("check",),
    ("tools",),
    ("call", "box.echo"),
    ("status",),
    ("policy", "check"),
    ("policy", "explain", "local", "box.echo"),
    ("policy", "test"),
    ("policy", "init"),
    ("keys", "list"),
    ("keys", "new", "shop"),
    ("approvals", "list"),
    ("audit", "tail"),
)


@dataclass(frozen=True)
class UserFolders:
    """A user's home, and a folder that was cloned from somewhere."""

    folder: Path

    @property
    def cloned(self) -> Path:
        return self.folder / "cloned"

    @property
    def ran(self) -> Path:
        """Return the file that exists once a program of the cloned folder has run."""
        return self.folder / "ran"

    @property
    def own(self) -> Path:
        return self.folder / ".config" / "aggregator" / "aggregator.json"

    def variables(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
        }

    def clone(self, **settings: Any) -> Path:
        """Put a configuration into the cloned folder whose server works, and leaves a mark when it is started."""
        self.cloned.mkdir(exist_ok=True)
        peer = raw_stdio_entry()
        script = f"open({str(self.ran)!r}, 'w'); import runpy; runpy.run_module('tests.peers.raw', run_name='__main__')"
        return write_config(self.cloned, {"box": {**peer, "args": ["-c", script]}}, **settings)

    async def run(self, *args: str) -> ProgramResult:
        """Run a command in the cloned folder."""
        return await run(*args, cwd=self.cloned, stdin=b"", **self.variables())

    @asynccontextmanager
    async def serving(self, *args: str) -> AsyncIterator[tuple[Program, list[str]]]:
        """`aggregator serve` in the cloned folder, and the lines of its log so far."""
        process = await start("serve", "--port", "0", *args, cwd=self.cloned, **self.variables())
        try:
            yield process, []
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.fixture
def home(tmp_path: Path) -> UserFolders:
    return UserFolders(tmp_path)


async def logged(serving: tuple[Program, list[str]], text: str) -> None:
    """Wait for a line of the log that was not waited for before."""
    process, lines = serving
    async with asyncio.timeout(BOUND):
        while True:
            line = (await process.stderr.readline()).decode()
            assert line, lines
            lines.append(line)
            if text in line:
                return


async def test_no_command_takes_a_cloned_configuration(home: UserFolders) -> None:
    """Proves: C2. Each says which file it leaves alone and how to use it; nothing is started or written."""
    config = home.clone(storage="sqlite:///theirs.db")
    ended = await asyncio.gather(*(home.run(*command) for command in COMMANDS))
    for command, one in zip(COMMANDS, ended, strict=True):
        assert one.code == 2, (command, one)
        assert f"{config} is in the working folder and is not trusted" in one.err, command
        assert f"--config {config}" in one.err, command
        assert one.out == "", command
    assert not home.ran.exists()
    assert os.listdir(home.cloned) == ["aggregator.json"]


async def test_ones_own_goes_first(home: UserFolders) -> None:
    """Proves: C2. Also where the folder's is trusted; the file that is taken is told, and the one that is not."""
    config = home.clone()
    assert (await home.run("trust")).code == 0
    home.own.parent.mkdir(parents=True, exist_ok=True)
    write_config(home.own.parent, {"mine": raw_stdio_entry()})
    ended = await home.run("call", "mine.echo", "n=1")
    assert (ended.code, json.loads(ended.out)) == (0, {"n": 1})
    assert ended.err == (
        f"aggregator: configuration: {home.own} (your own); {config} is not used, name it with --config to use it\n"
    )
    assert "goes before it" in (await home.run("trust")).out
    assert not home.ran.exists()
    named = await home.run("call", "box.echo", "n=1", "--config", str(config))
    assert (named.code, named.err) == (0, "")
    assert home.ran.exists()


async def test_a_trusted_folder_until_its_file_is_edited(home: UserFolders) -> None:
    """Proves: C2. What the file would do is shown; trust is taken back by an edit, or by its owner."""
    config = home.clone()
    trusted = await home.run("trust")
    assert trusted.code == 0
    assert f"box: starts {sys.executable} -c open(" in trusted.out
    assert f"{config} is trusted as it is now" in trusted.out
    assert not home.ran.exists(), "trusted, not started"
    called = await home.run("call", "box.echo", "n=1")
    assert (called.code, json.loads(called.out)) == (0, {"n": 1})
    assert called.err == f"aggregator: configuration: {config} (of this folder, which is trusted)\n"
    assert (await home.run("trust", "--list")).out.splitlines()[1].split() == [str(config), "trusted"]
    config.write_text(config.read_text() + "\n")
    edited = await home.run("call", "box.echo", "n=1")
    assert edited.code == 2
    assert "was changed since it was trusted" in edited.err
    assert "changed since" in (await home.run("trust", "--list")).out
    assert (await home.run("trust", str(home.cloned))).code == 0
    assert (await home.run("call", "box.echo", "n=1")).code == 0
    assert (await home.run("trust", "--remove")).out == f"{config} is not trusted any more.\n"
    assert "is not trusted" in (await home.run("tools")).err
    assert (await home.run("trust", "--remove")).code == 2


@pytest.mark.parametrize("args", [("nothing",), ("other.json",), ("--list", "--remove"), ("broken",)])
async def test_what_cannot_be_trusted(home: UserFolders, args: tuple[str, ...]) -> None:
    """Proves: E9."""
    home.clone()
    (home.cloned / "other.json").write_text("{}")
    (home.cloned / "broken").mkdir()
    (home.cloned / "broken" / "aggregator.json").write_text("{")
    ended = await home.run("trust", *args)
    assert ended.code == 2
    assert ended.err.startswith("aggregator: ")
    assert "Traceback" not in ended.err
    assert not (home.folder / ".config").exists()


async def test_an_edit_under_a_running_program_waits_for_trust(home: UserFolders) -> None:
    """Proves: C2, D11. The program goes on with what it has, and takes the file once it is trusted again."""
    config = home.clone()
    await home.run("trust")
    async with home.serving() as serving:
        await logged(serving, f"configuration: {config} (of this folder, which is trusted)")
        await logged(serving, "SSE at")
        write_config(home.cloned, {"two": {"command": "no-such-program-anywhere"}})
        await logged(serving, "was changed since it was trusted")
        await logged(serving, "the one in force stays")
        assert not any("no-such-program" in line for line in serving[1])
        await home.run("trust")
        await logged(serving, "'no-such-program-anywhere' was not found")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('{"mcpServer": {"box": {"command": "x"}}}', "mcpServer: This key is not known and has no effect. Did you"),
        ('{"mcpServers": {"box": {"command": "x"}}, "polices": "rules"}', "Did you mean `policies`?"),
        ('{"box": {"command": "x"}}', 'It looks like a server: put it inside "mcpServers".'),
    ],
)
async def test_no_program_starts_with_a_misspelt_root(tmp_path: Path, text: str, meant: str) -> None:
    """Proves: E9. An empty gateway, or one without its policies, is not what was meant; nothing is written."""
    config = tmp_path / "aggregator.json"
    config.write_text(text)
    commands = (("serve", "--port", "0"), ("stdio",), ("keys", "list"))
    ended = await asyncio.gather(*(run(*command, "--config", str(config)) for command in commands))
    quiet = await run("stdio", "--log-level", "error", "--config", str(config))
    assert f"configuration: {config} (named with --config)" in quiet.err, "told at any level"
    for one in ended:
        assert one.code == 2, one
        assert meant in one.err
    assert os.listdir(tmp_path) == ["aggregator.json"]
    checked = await run("check", "--json", "--config", str(config))
    assert checked.code == 1
    assert meant in "".join(json.loads(checked.out)["problems"])


async def test_modules_of_the_working_folder_are_not_run(tmp_path: Path) -> None:
    """Proves: C2. Started as `python -m aggregator`, where Python itself looks there first."""
    config = write_config(tmp_path, {"box": {"target": "planted:server"}})
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "aggregator", "check", "--json", "--config", str(config)),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(BOUND):
        out, _ = await process.communicate()
    assert "planted" in json.loads(out)["servers"][0]["problem"]
    assert not (tmp_path / "ran").exists()
