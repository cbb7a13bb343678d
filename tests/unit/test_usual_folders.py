"""Programs of version managers, for a program that a desktop starts."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.usual_folders import usual_folders, with_usual_folders


def program(folder: Path, name: str = "npx") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    "folder",
    [
        *(".local/bin", ".volta/bin", ".asdf/shims", ".local/share/mise/shims", ".cargo/bin", ".bun/bin"),
        *(".nvm/versions/node/v22.1.0/bin", "Library/Application Support/fnm/aliases/default/bin", "Library/pnpm"),
    ],
)
def test_a_program_of_a_manager_is_found(folder: str, tmp_path: Path) -> None:
    there = program(tmp_path / folder)
    path = with_usual_folders("/nowhere", tmp_path, {}, windows=False)
    assert shutil.which("npx", path=path) == str(there)
    assert path.startswith("/nowhere:")


def test_the_own_path_comes_first(tmp_path: Path) -> None:
    mine = program(tmp_path / "mine")
    program(tmp_path / ".volta/bin")
    path = with_usual_folders(f"{tmp_path}/mine", tmp_path, {}, windows=False)
    assert shutil.which("npx", path=path) == str(mine)
    assert with_usual_folders(path, tmp_path, {}, windows=False) == path


@pytest.mark.parametrize(
    ("aliases", "version"),
    [
        ({}, "v22.10.0"),
        ({"default": "20"}, "v20.11.1"),
        ({"default": "v20.2.0"}, "v20.2.0"),
        ({"default": "lts/*", "lts/*": "lts/iron", "lts/iron": "v20.11.1"}, "v20.11.1"),
        ({"default": "system"}, "v22.10.0"),
        ({"default": "18"}, "v22.10.0"),
        ({"default": "default"}, "v22.10.0"),
        ({"default": "../../secret"}, "v22.10.0"),
        ({"default": ""}, "v22.10.0"),
    ],
)
def test_the_version_that_nvm_uses(aliases: dict[str, str], version: str, tmp_path: Path) -> None:
    nvm = tmp_path / ".nvm"
    for there in ("v9.0.0", "v20.2.0", "v20.11.1", "v22.10.0", "notes"):
        program(nvm / "versions/node" / there / "bin")
    for name, text in aliases.items():
        (nvm / "alias" / name).parent.mkdir(parents=True, exist_ok=True)
        (nvm / "alias" / name).write_text(f"{text}\n")
    found = [folder for folder in usual_folders(tmp_path, {}, tmp_path / "root") if ".nvm" in folder.parts]
    assert found == [nvm / "versions/node" / version / "bin"]


def test_variables_move_managers(tmp_path: Path) -> None:
    for name in ("volta/bin", "asdf/shims", "pnpm", "nvm/versions/node/v1.0.0/bin"):
        (tmp_path / name).mkdir(parents=True)
    environ = {
        "VOLTA_HOME": f"{tmp_path}/volta",
        "ASDF_DATA_DIR": f"{tmp_path}/asdf",
        "PNPM_HOME": f"{tmp_path}/pnpm",
        "NVM_DIR": f"{tmp_path}/nvm",
        "BUN_INSTALL": "relative",
    }
    found = list(usual_folders(tmp_path / "home", environ, tmp_path / "root"))
    assert found == [
        tmp_path / "volta/bin",
        tmp_path / "asdf/shims",
        tmp_path / "pnpm",
        tmp_path / "nvm/versions/node/v1.0.0/bin",
    ]


def test_homebrew_on_both_processors(tmp_path: Path) -> None:
    for name in ("opt/homebrew/bin", "usr/local/bin"):
        (tmp_path / name).mkdir(parents=True)
    assert list(usual_folders(tmp_path / "home", {}, tmp_path)) == [
        tmp_path / "opt/homebrew/bin",
        tmp_path / "usr/local/bin",
    ]


def test_on_windows_the_path_stays(tmp_path: Path) -> None:
    program(tmp_path / ".local/bin")
    assert with_usual_folders("C:\\Windows", tmp_path, {}, windows=True) == "C:\\Windows"


@given(st.lists(st.sampled_from(["/bin", "/usr/bin", "", "relative", "/home/ada/.local/bin"]), max_size=6))
def test_what_a_path_has_stays_as_it_is(folders: list[str]) -> None:
    path = os.pathsep.join(folders)
    made = with_usual_folders(path, Path("/nowhere"), {}, windows=False)
    assert made.split(os.pathsep)[: len(folders)] == folders or not path
    assert with_usual_folders(made, Path("/nowhere"), {}, windows=False) == made
