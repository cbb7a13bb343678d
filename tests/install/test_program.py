"""The command that is written into a host's file."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from aggregator.cli.hosts.install.program import RunningProgram, own_command, this_program


def running(tmp_path: Path, **facts: object) -> RunningProgram:
    """A program in a virtual environment at `tmp_path/env`, with its console script."""
    scripts = tmp_path / "env" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "aggregator").write_text("#!\n")
    made = RunningProgram(
        argv0=str(scripts / "aggregator"),
        executable=str(scripts / "python"),
        prefix=str(tmp_path / "env"),
        scripts=str(scripts),
        temporary="/nowhere",
        source="/src",
        requirement="aggregator==0.1.0",
        environ={},
        which=lambda name: None,
    )
    return replace(made, **facts)  # type: ignore[arg-type]


def test_the_console_script_that_runs(tmp_path: Path) -> None:
    assert own_command(running(tmp_path)).command == str(tmp_path / "env" / "bin" / "aggregator")


def test_a_link_on_path_is_kept_as_it_is(tmp_path: Path) -> None:
    """`uv tool` and pipx link scripts into one folder; the link outlives an upgrade."""
    program = running(tmp_path)
    link = tmp_path / "aggregator"
    link.symlink_to(program.argv0)
    own = own_command(replace(program, argv0="aggregator", which=lambda name: str(link)))
    assert (own.command, own.args, own.remark) == (str(link), (), None)


def test_a_module_finds_the_script_of_its_interpreter(tmp_path: Path) -> None:
    own = own_command(running(tmp_path, argv0="/x/aggregator/__main__.py"))
    assert own.command == str(tmp_path / "env" / "bin" / "aggregator")


def test_without_a_script_the_interpreter(tmp_path: Path) -> None:
    program = running(tmp_path, argv0="/x/aggregator/__main__.py", scripts=str(tmp_path))
    own = own_command(program)
    assert (own.command, own.args, own.env) == (program.executable, ("-m", "aggregator"), {})
    own = own_command(replace(program, requirement=None))
    assert own.env == {"PYTHONPATH": "/src"}


@pytest.mark.parametrize("cache", [".cache/uv/archive-v0/Xy_9", ".cache/uv/environments-v2/aggregator-1f"])
def test_uvx_is_asked_again_each_time(tmp_path: Path, cache: str) -> None:
    """The environment of a `uvx` run is emptied with the cache: the host must not depend on it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uvx").write_text("#!\n")
    prefix = f"/home/ada/{cache}/"
    own = own_command(running(tmp_path, prefix=prefix, environ={"UV": str(tools / "uv")}))
    assert own.command == str(tools / "uvx")
    assert own.args == ("--from", "aggregator==0.1.0", "aggregator")
    assert own.remark is not None
    assert "uvx" in own.remark
    (tools / "uvx").unlink()
    own = own_command(replace(running(tmp_path / "2"), prefix=prefix, environ={"UV": str(tools / "uv")}))
    assert (own.command, own.args[:2]) == (str(tools / "uv"), ("tool", "run"))


def test_uvx_that_is_gone_leaves_the_script_and_says_so(tmp_path: Path) -> None:
    own = own_command(running(tmp_path, prefix="/home/ada/.cache/uv/archive-v0/Xy_9/"))
    assert own.command.endswith("aggregator")
    assert own.remark is not None
    assert "temporary folder" in own.remark


def test_pipx_run_is_asked_again_each_time(tmp_path: Path) -> None:
    own = own_command(running(tmp_path, prefix="/home/ada/.cache/pipx/0a1b2c/", which=lambda name: f"/usr/bin/{name}"))
    assert (own.command, own.args) == ("/usr/bin/pipx", ("run", "--spec", "aggregator==0.1.0", "aggregator"))


def test_a_temporary_folder_is_told(tmp_path: Path) -> None:
    own = own_command(running(tmp_path, temporary=str(tmp_path)))
    assert own.remark is not None
    assert str(tmp_path) in own.remark


def test_this_process() -> None:
    own = own_command(this_program())
    assert os.path.isabs(own.command)
    assert os.path.exists(own.command)
