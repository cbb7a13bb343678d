"""Programs are found as Windows finds them, and started without a shell unless they are batch files."""

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from aggregator.doctor.gather.machine import node_version
from aggregator.packages.carried_name import npm_name
from aggregator.system import program_words
from aggregator.system.program_words import find_program, windows_words
from tests.windows.cmd_exe import batch_words, words_in_c


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
    made(tmp_path / "two", "RUN.EXE", "RUN.EXE.cmd")
    for given in (endings, endings.upper()):
        assert find_program("RUN.EXE", path, given) == f"{two}/RUN.EXE", "an ending counts in any case"
    assert find_program(f"{two}/only", None, endings) == f"{two}/only.bat"
    assert find_program("none", path, endings) is None
    assert find_program("", path, endings) is None
    assert find_program("a\0b", path, endings) is None


def test_the_current_folder_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder where the aggregator runs does not take the place of a program."""
    made(tmp_path, "npx.cmd")
    monkeypatch.chdir(tmp_path)
    assert find_program("npx", os.pathsep.join(["", ".", "/nowhere"]), ".cmd") is None


def test_a_batch_file_is_run_by_the_system_s_own_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of an entry choose where programs are found; its COMSPEC and SystemRoot have no say."""
    folder = made(tmp_path, "npx.cmd", "uvx.exe")
    monkeypatch.setenv("SYSTEMROOT", "C:\\Windows")
    env = {"Path": folder, "pathext": ".exe;.cmd", "COMSPEC": "/evil", "SystemRoot": '/evil" & calc "'}
    line = windows_words("npx", ["-y", "pkg", "a b"], env)
    assert line == (rf'"C:\Windows\System32\cmd.exe" /d /e:ON /v:OFF /c ""{folder}/npx.cmd" "-y" "pkg" "a b""')
    assert windows_words("uvx", ["a b"], env) == [f"{folder}/uvx.exe", "a b"]
    with pytest.raises(FileNotFoundError):
        windows_words("other", [], env)


def test_a_relative_program_starts_from_its_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on POSIX: a file of that name where the aggregator runs is another program."""
    for folder in ("here", "there"):
        (tmp_path / folder / "bin").mkdir(parents=True)
    made(tmp_path / "here/bin", "run.cmd", "tool.exe")
    there = made(tmp_path / "there/bin", "run.cmd")
    monkeypatch.chdir(tmp_path / "here")
    env = {"PATHEXT": ".exe;.cmd"}
    line = windows_words("bin/run", [], env, str(tmp_path / "there"))
    assert f'"{there}/run.cmd"' in line
    assert windows_words("bin/tool", [], env) == [f"{tmp_path}/here/bin/tool.exe"]
    with pytest.raises(FileNotFoundError):
        windows_words("bin/tool", [], env, str(tmp_path / "there"))


def test_a_version_of_a_registry_is_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`add` asks npm, a batch file, about a package whose version is from a registry's entry; so does `doctor`."""
    made(tmp_path, "npm.cmd", "node.cmd")
    lines: list[object] = []

    def run(words: object, **_: object) -> "subprocess.CompletedProcess[bytes]":
        lines.append(words)
        return subprocess.CompletedProcess([], 0, b'{"name": "x"}')

    monkeypatch.setattr(program_words, "sys", SimpleNamespace(platform="win32"))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"{tmp_path}/{name}.cmd")
    assert npm_name("x", '1.0.0"&calc&"') is None
    assert node_version({}) is None
    for line, name, words in zip(
        lines,
        ("npm", "node"),
        (["view", 'x@1.0.0"&calc&"', "name", "mcpName", "--json"], ["--version"]),
        strict=True,
    ):
        assert isinstance(line, str)
        file, text = batch_words(line, {"cd": "/"})
        assert (file, words_in_c(text)) == (f"{tmp_path}/{name}.cmd", words)
    assert npm_name("x", "1.0.0\n2") is None, "what cannot be quoted is not asked"
    assert len(lines) == 2
