"""Programs are found as Windows finds them, and started without a shell unless they are batch files."""

import os
from pathlib import Path

import pytest

from aggregator.system.program_words import find_program, windows_words


def made(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).touch()
    return str(folder)


def test_names_get_the_endings_of_pathext(tmp_path: Path) -> None:
    """The order of PATHEXT decides within a folder, and the order of PATH between folders."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = made(tmp_path / "one", "uvx.exe", "npx", "npx.cmd"), made(tmp_path / "two", "npx.exe", "only.bat")
    path = os.pathsep.join([one, two])
    endings = ".com;.exe;.bat;.cmd"
    assert find_program("npx", path, endings) == f"{one}/npx.cmd", "not the script for a POSIX shell beside it"
    assert find_program("npx.exe", path, endings) == f"{two}/npx.exe"
    assert find_program("uvx", path, None) is None, "names have the case of Linux here"
    assert find_program("uvx", path, endings) == f"{one}/uvx.exe"
    assert find_program("only", path, endings) == f"{two}/only.bat"
    assert find_program(f"{two}/only", None, endings) == f"{two}/only.bat"
    assert find_program("none", path, endings) is None
    assert find_program("", path, endings) is None
    assert find_program("a\0b", path, endings) is None


def test_the_current_folder_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder where the aggregator runs does not take the place of a program."""
    made(tmp_path, "npx.cmd")
    monkeypatch.chdir(tmp_path)
    assert find_program("npx", os.pathsep.join(["", ".", "/nowhere"]), ".cmd") is None


def test_a_batch_file_is_run_by_the_system_s_own_shell(tmp_path: Path) -> None:
    """The variables of an entry choose where programs are found; COMSPEC has no say."""
    folder = made(tmp_path, "npx.cmd", "uvx.exe")
    env = {"Path": folder, "pathext": ".exe;.cmd", "COMSPEC": "/evil", "SystemRoot": "C:\\Windows"}
    line = windows_words("npx", ["-y", "pkg", "a b"], env)
    assert line == (rf'"C:\Windows\System32\cmd.exe" /d /e:ON /v:OFF /c ""{folder}/npx.cmd" "-y" "pkg" "a b""')
    assert windows_words("uvx", ["a b"], env) == [f"{folder}/uvx.exe", "a b"]
    with pytest.raises(FileNotFoundError):
        windows_words("other", [], env)
