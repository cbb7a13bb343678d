"""`aggregator install claude-desktop` in the states of a machine: never started, running, a package, a broken file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.domain.errors import OperatorError
from aggregator.hosts.every_host import host_named
from aggregator.hosts.model import Machine, System
from tests.hosts.grounds import SYSTEMS, put
from tests.install.conftest import Install, json_of, tree

OnSystem = Callable[[System], Machine]
NAME = "claude_desktop_config.json"
PACKAGE = "AppData/Local/Packages/Claude_pzs8sxrjxfjjc"
FILES = {
    "linux": f".config/Claude/{NAME}",
    "macos": f"Library/Application Support/Claude/{NAME}",
    "windows": f"AppData/Roaming/Claude/{NAME}",
}


def runs(system: System, folder: Path, pid: int | str = os.getpid()) -> Path:
    """Leave the mark of a running program in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if system == "windows":
        return put(folder / "lockfile", b"")
    mark = folder / "SingletonLock"
    mark.symlink_to(f"a-host-{pid}")
    return mark


@pytest.fixture
def ended_pid() -> int:
    """The number of a process that has ended."""
    program = subprocess.Popen([sys.executable, "-c", ""])
    program.wait()
    return program.pid


@pytest.mark.parametrize("system", SYSTEMS)
def test_never_installed(system: System, home: Path, config: Path, install: Install, on_system: OnSystem) -> None:
    """A machine without it: the file is made where it looks, and the command says that it was not found."""
    on_system(system)
    before = tree(home)
    shown = install("claude-desktop", "--write")
    assert "Claude Desktop was not found on this machine" in shown
    assert json_of(home / FILES[system])["mcpServers"]["aggregator"]["args"][0] == "stdio"
    install("claude-desktop", "--undo", "--write")
    assert tree(home) == before


def test_other_packages_of_windows_are_not_it(home: Path, config: Path, install: Install, on_system: OnSystem) -> None:
    on_system("windows")
    (home / "AppData/Local/Packages/Other_8wekyb3d8bbwe").mkdir(parents=True)
    install("claude-desktop", "--write")
    assert (home / FILES["windows"]).is_file()
    assert not (home / PACKAGE).exists()


@pytest.mark.parametrize(
    ("system", "program", "file"),
    [
        ("macos", "Applications/Claude.app", FILES["macos"]),
        ("windows", "AppData/Local/AnthropicClaude", FILES["windows"]),
        ("windows", PACKAGE, f"{PACKAGE}/LocalCache/Roaming/Claude/{NAME}"),
        (
            "windows",
            "AppData/Local/Packages/Claude_other",
            f"AppData/Local/Packages/Claude_other/LocalCache/Roaming/Claude/{NAME}",
        ),
    ],
)
def test_never_started(
    system: System, program: str, file: str, home: Path, config: Path, install: Install, on_system: OnSystem
) -> None:
    """It is installed, and has no folder yet: its first start finds the entry."""
    machine = on_system(system)
    (home / program).mkdir(parents=True)
    before = tree(home)
    shown = install("claude-desktop", "--write")
    assert "has not been started here yet" in shown
    assert "was not found" not in shown
    assert "aggregator" in json_of(home / file)["mcpServers"]
    assert ("as a package" in shown) == ("Packages" in program)
    desktop = host_named("claude-desktop")
    assert any(os.path.lexists(place) for place in desktop.programs(machine))
    install("claude-desktop", "--undo", "--write")
    assert tree(home) == before


def test_a_package_and_a_file_of_the_older_kind(
    home: Path, config: Path, install: Install, on_system: OnSystem
) -> None:
    """The package reads its own file, so a file that the older kind has left stays as it is."""
    on_system("windows")
    old = put(home / FILES["windows"], '{"mcpServers": {"old": {"command": "x"}}}')
    own = put(home / PACKAGE / "LocalCache/Roaming/Claude" / NAME, '{\r\n  "preferences": {}\r\n}\r\n')
    (home / "AppData/Local/AnthropicClaude").mkdir()
    shown = install("claude-desktop", "--write")
    assert "as a package" in shown
    assert f"it does not read {old} beside it" in shown
    assert "The older kind of Claude Desktop is here too" in shown
    assert "aggregator" in json_of(own)["mcpServers"]
    assert own.read_bytes().count(b"\n") == own.read_bytes().count(b"\r\n")
    assert json_of(old) == {"mcpServers": {"old": {"command": "x"}}}
    install("claude-desktop", "--file", str(old), "--write")
    assert "aggregator" in json_of(old)["mcpServers"]


def test_a_package_without_a_file_of_its_own(home: Path, config: Path, install: Install, on_system: OnSystem) -> None:
    """A new file in the package would hide the servers of the file that it reads until then."""
    on_system("windows")
    old = put(home / FILES["windows"], '{"mcpServers": {"old": {"command": "x"}}}')
    (home / PACKAGE).mkdir(parents=True)
    shown = install("claude-desktop", "--write")
    assert "has no file of its own yet and reads this one" in shown
    assert set(json_of(old)["mcpServers"]) == {"old", "aggregator"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_running(
    system: System,
    home: Path,
    config: Path,
    install: Install,
    refused: Callable[..., str],
    on_system: OnSystem,
) -> None:
    """It writes its file from memory, so nothing is written while it runs, and neither is an undo."""
    on_system(system)
    file = put(home / FILES[system], '{"mcpServers": {}}')
    mark = runs(system, file.parent)
    before = tree(home)
    shown = install("claude-desktop")
    assert "Claude Desktop is running." in shown
    assert "quit it first" in shown
    assert json.loads(install("claude-desktop", "--json"))["running"] is True
    said = refused("claude-desktop", "--write")
    assert "Claude Desktop is running, so nothing was written." in said
    assert str(mark) in said
    assert tree(home) == before
    install("claude-desktop", "--write", "--while-running")
    assert "is running" in refused("claude-desktop", "--undo", "--write")
    assert "aggregator" in json_of(file)["mcpServers"]
    mark.unlink()
    assert "is running" not in install("claude-desktop", "--undo", "--write")
    assert file.read_text() == '{"mcpServers": {}}'


def test_a_running_package_that_reads_the_older_file(
    home: Path, config: Path, install: Install, refused: Callable[..., str], on_system: OnSystem
) -> None:
    on_system("windows")
    old = put(home / FILES["windows"], '{"mcpServers": {}}')
    mark = runs("windows", home / PACKAGE / "LocalCache/Roaming/Claude")
    assert str(mark) in refused("claude-desktop", "--write")
    assert old.read_text() == '{"mcpServers": {}}'
    own = put(mark.with_name(NAME), '{"mcpServers": {}}')
    mark.unlink()
    runs("windows", old.parent)
    assert "is running" not in install("claude-desktop", "--write")
    assert "aggregator" in json_of(own)["mcpServers"]


@pytest.mark.parametrize("pid", ["", "0", "x", "99999999999999999999999"])
def test_a_mark_that_names_no_process(
    pid: str, home: Path, config: Path, install: Install, on_system: OnSystem
) -> None:
    on_system("macos")
    runs("macos", (home / FILES["macos"]).parent, pid)
    assert "is running" not in install("claude-desktop", "--write")


def test_a_mark_that_a_crash_has_left(
    ended_pid: int, home: Path, config: Path, install: Install, on_system: OnSystem
) -> None:
    on_system("macos")
    runs("macos", (home / FILES["macos"]).parent, ended_pid)
    assert "is running" not in install("claude-desktop", "--write")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{\n  "mcpServers": {\n    "a": {"command": "x"}\n', "line 4, column 1"),
        (b'{\n  // mine\n  "mcpServers": {}\n}', "line 2, column 3: this is not plain JSON"),
        (b'{"mcpServers": {"a": {"command": "canary"},}}', "this is not plain JSON"),
        ('{"mcpServers": {}}'.encode("utf-16"), "it is in UTF-16"),
        (b'{"mcpServers": {"a": {"command": "\xe9"}}}', "UTF-8"),
        (b'{"mcpServers": {}, "x": NaN}', "number"),
        (b'{"mcpServers": {}}{"mcpServers": {}}', "line 1, column 19"),
        (b'{"mcpServers": []}', "`mcpServers` is not an object"),
        (b"[]", "expected an object"),
    ],
    ids=["cut", "comment", "comma", "utf16", "latin1", "nan", "twice", "list", "array"],
)
def test_a_broken_file(
    content: bytes, said: str, home: Path, config: Path, refused: Callable[..., str], on_system: OnSystem
) -> None:
    """A file that it refuses as a whole: the place is named, no value is shown, and nothing is written."""
    on_system("macos")
    file = put(home / FILES["macos"], content)
    before = tree(home)
    shown = refused("claude-desktop", "--write")
    assert said in shown
    assert str(file) in shown
    assert "canary" not in shown
    assert tree(home) == before


def test_a_byte_order_mark_is_kept_and_named(home: Path, config: Path, install: Install, on_system: OnSystem) -> None:
    on_system("windows")
    file = put(home / FILES["windows"], '\ufeff{\r\n  "mcpServers": {}\r\n}\r\n')
    assert "begins with a byte order mark" in install("claude-desktop", "--write")
    assert file.read_bytes().startswith(b"\xef\xbb\xbf{\r\n")
    assert "byte order mark" not in install("cursor")


@pytest.mark.parametrize("content", [b"", b"\r\n", b"{}"])
def test_an_empty_file_is_filled(
    content: bytes, home: Path, config: Path, install: Install, on_system: OnSystem
) -> None:
    on_system("macos")
    file = put(home / FILES["macos"], content)
    install("claude-desktop", "--write")
    assert "aggregator" in json_of(file)["mcpServers"]
    install("claude-desktop", "--undo", "--write")
    assert file.read_bytes() == content


def test_other_hosts_take_comments(home: Path, config: Path, install: Install, on_system: OnSystem) -> None:
    on_system("macos")
    put(home / ".cursor/mcp.json", "\ufeff{\n  // mine\n}")
    install("cursor", "--write")


def test_over_http_nothing_is_written(home: Path, config: Path, on_system: OnSystem, install: Install) -> None:
    on_system("macos")
    with pytest.raises(OperatorError, match="starts programs alone"):
        install("claude-desktop", "--http", "--write")
