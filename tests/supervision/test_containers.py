"""Containers that outlive `docker run`: removed at the end, by the reaper, and at the next start."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.upstream.process.container_starts import container_start
from aggregator.upstream.process.containers import ContainerRun, Containers
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper
from tests.polling import until

# A client of a daemon: the container is a file that only `rm -f` removes; its id is in the file that was named.
DOCKER = """#!/bin/sh
id=c0ffee$$
case "$1" in
  --context) shift 2;;
esac
if [ "$1" = container ] || [ "$1" = compose ]; then shift; fi
case "$1" in
  run)
    case " $* " in *" --name "*) id="${{*#*--name }}"; id="${{id%% *}}";; esac
    touch "{state}/$id"
    echo "$*" > "{state}.args"
    while [ $# -gt 0 ]; do
      case "$1" in
        --cidfile) [ -e "$2" ] && exit 125; printf %s "$id" > "$2"; shift;;
        --cidfile=*) printf %s "$id" > "${{1#--cidfile=}}";;
      esac
      shift
    done
    trap "" TERM
    echo up
    while [ -e "{state}/$id" ]; do read line || sleep 1; done;;
  rm) [ "$2" = -f ] && rm "{state}/$3";;
esac
"""
LIFE = """
import asyncio, sys
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper
async def main():
    reaper = Reaper()
    up = asyncio.Event()
    async with run_child("box", "docker", ("run", "-i", "--rm", "box"), {}, None, lambda _: up.set(), reaper):
        await up.wait()
        print(reaper._process.pid, flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


class Daemon:
    """The containers that there are, and the arguments of the last `run`."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        program = folder / "bin" / "docker"
        program.parent.mkdir()
        program.write_text(DOCKER.format(state=self.state))
        program.chmod(0o755)
        program.with_name("docker-compose").symlink_to(program)
        self.path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    @property
    def containers(self) -> list[str]:
        return os.listdir(self.state)

    @property
    def args(self) -> str:
        return Path(f"{self.state}.args").read_text().strip()


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    daemon = Daemon(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("PATH", daemon.path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return daemon


def noted(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "tmp").glob("aggregator-containers-*/*"))


@pytest.mark.parametrize(
    "before", [("run",), ("container", "run"), ("--context", "run", "run")], ids=["run", "container run", "options"]
)
async def test_a_container_is_removed_when_its_server_ends(
    daemon: Daemon, tmp_path: Path, before: tuple[str, ...]
) -> None:
    """C5: the arguments keep their order, and nothing is left in the folder of notes."""
    reaper, up = Reaper(), asyncio.Event()
    async with asyncio.timeout(20):
        async with run_child("box", "docker", (*before, "-i", "box"), {}, None, lambda _: up.set(), reaper, 0.0):
            await up.wait()
            assert len(daemon.containers) == 1
        assert not daemon.containers
        await reaper.close()
    assert daemon.args.startswith("run --cidfile ")
    assert daemon.args.endswith(" -i box")
    assert not noted(tmp_path)


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("env", ("A=b", "docker", "run", "-i", "box")),
        ("timeout", ("600", "docker", "--context", "run", "run", "-i", "box")),
        ("sh", ("-c", 'cd / && exec docker run -i "$@"', "--", "box")),
        ("env", ("-S", "docker run -i box")),
        ("env", ("-iS", "PATH=${PATH} A=b docker run -i", "box")),
        ("env", ("--split-string=docker run -i box",)),
        ("docker", ("compose", "run", "-i", "box")),
        ("env", ("docker", "compose", "run", "-i", "box")),
        ("docker-compose", ("run", "-i", "box")),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
async def test_a_container_that_another_program_starts_is_removed(
    daemon: Daemon, tmp_path: Path, command: str, args: tuple[str, ...]
) -> None:
    """C5: behind a wrapper, in the script of a shell, and by compose, which has no file for an id."""
    reaper, up = Reaper(), asyncio.Event()
    async with asyncio.timeout(20):
        async with run_child("box", command, args, {}, None, lambda _: up.set(), reaper, 0.0):
            await up.wait()
            assert len(daemon.containers) == 1
        assert not daemon.containers
        await reaper.close()
    assert daemon.args.startswith("run --")
    assert daemon.args.endswith(" -i box")
    assert not noted(tmp_path)


async def test_a_file_for_the_id_that_the_entry_names_itself_is_used(daemon: Daemon, tmp_path: Path) -> None:
    reaper, up = Reaper(), asyncio.Event()
    args = ("run", f"--cidfile={tmp_path}/mine", "box")
    async with asyncio.timeout(20):
        async with run_child("box", "docker", args, {}, None, lambda _: up.set(), reaper, 0.0):
            await up.wait()
        await reaper.close()
    assert not daemon.containers
    assert daemon.args == f"run --cidfile={tmp_path}/mine box"


@pytest.mark.parametrize("option", [("--cidfile", "mine"), ("--cidfile=mine",)])
async def test_a_file_of_the_entry_is_in_its_folder_and_free_for_the_next_start(
    daemon: Daemon, tmp_path: Path, option: tuple[str, ...]
) -> None:
    """`docker run` refuses a file that is there."""
    folder = tmp_path / "work"
    folder.mkdir()
    reaper = Reaper()
    async with asyncio.timeout(20):
        for _ in range(2):
            up = asyncio.Event()
            args = ("run", *option, "box")

            def take(_: bytes, up: asyncio.Event = up) -> None:
                up.set()

            async with run_child("box", "docker", args, {}, str(folder), take, reaper, 0.0):
                await up.wait()
                assert (folder / "mine").exists()
                assert len(daemon.containers) == 1
            assert not daemon.containers
            assert not (folder / "mine").exists()
        await reaper.close()


async def _life() -> tuple[asyncio.subprocess.Process, int]:
    """Start a process with a container; return it, and the process id of its reaper."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIFE, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    return process, int(await process.stdout.readline())


async def test_the_reaper_removes_the_container_of_an_aggregator_that_was_killed(daemon: Daemon) -> None:
    async with asyncio.timeout(30):
        process, _ = await _life()
        assert len(daemon.containers) == 1
        process.kill()
        await process.wait()
        await until(lambda: not daemon.containers)


async def test_the_next_start_removes_what_was_left_with_the_reaper_killed_too(daemon: Daemon, tmp_path: Path) -> None:
    """C5: containers of processes that go on are left alone."""
    async with asyncio.timeout(30):
        process, reaper = await _life()
        other, _ = await _life()
        os.kill(reaper, signal.SIGKILL)
        process.kill()
        await process.wait()
        assert len(daemon.containers) == 2
        await Containers().remove_left()
        assert len(daemon.containers) == 1
        assert len(noted(tmp_path)) == 1
        other.kill()
        await other.wait()
        await until(lambda: not daemon.containers)


def test_what_takes_too_long_to_remove_stays_noted(tmp_path: Path) -> None:
    """C5: the next start removes it; the notes of containers that are gone go."""
    folder, gate, gone = tmp_path / "notes", tmp_path / "gate", tmp_path / "gone"
    folder.mkdir()
    waits = f"until [ -e {gate} ]; do sleep 0.01; done; "
    for name, program in (("a", f'echo "$0" >> {gone}'), ("b", f'{waits}echo "$0" >> {gone}')):
        note = {"name": name, "command": ["sh", "-c", program], "env": {"PATH": os.environ["PATH"]}}
        (folder / f"{name}.json").write_text(json.dumps(note))
    within = "import sys; from aggregator.upstream.process import container_removal as removal; "
    within += "removal.REMOVED_WITHIN = float(sys.argv[2]); removal.remove_containers(sys.argv[1])"
    # The daemon does not answer: nothing waits for it longer than it may.
    subprocess.run([sys.executable, "-c", within, str(folder), "0"], check=True, timeout=30)
    assert sorted(os.listdir(folder)) == ["a.json", "b.json"]
    gate.touch()
    subprocess.run([sys.executable, "-c", within, str(folder), "30"], check=True, timeout=30)
    assert not folder.exists()
    assert {*gone.read_text().split()} == {"a", "b"}


async def _remove(containers: Containers, run: ContainerRun, id: str) -> None:
    """Remove the container of a start whose file has this id."""
    await asyncio.to_thread(Path(json.loads(run.record.read_text())["cid"]).write_text, id)
    await containers.remove(run, asyncio.Event())


async def test_what_is_noted_is_for_this_user_alone_and_no_option(daemon: Daemon, tmp_path: Path) -> None:
    """C5: a folder that others can write is not used; what is no id is not handed to the program."""
    containers = Containers()
    run = containers.placed("docker", ("run", "box"), {"PATH": daemon.path, "API_TOKEN": "canary", "DOCKER_HOST": "h"})
    assert run is not None
    assert run.record.stat().st_mode & 0o077 == 0
    written = json.loads(run.record.read_text())
    assert written["env"] == {"PATH": daemon.path, "DOCKER_HOST": "h"}
    (daemon.state / "--all").touch()
    await _remove(containers, run, "--all")
    assert daemon.containers == ["--all"]
    containers.close()
    base = next((tmp_path / "tmp").iterdir())
    base.chmod(0o777)
    assert Containers().placed("docker", ("run", "box"), {"PATH": daemon.path}) is None


def test_what_starts_a_container() -> None:
    for command, args in (
        ("/usr/bin/podman", ["--url=ssh://a", "run", "box"]),
        ("nerdctl", ["-n", "space", "container", "run", "box"]),
        ("docker.exe", ["run", "box"]),
        ("docker", ["compose", "-f", "run", "--profile=x", "run", "box"]),
        ("podman-compose", ["run", "box"]),
        ("cmd", ["/c", "docker", "run", "box"]),
        ("bash", ["-lc", "docker pull box; docker container run box"]),
        ("sh", ["-c", "docker run a & docker run b"]),
    ):
        assert container_start(command, args) is not None, (command, args)
    for command, args in (
        ("docker", ["exec", "box", "run"]),
        ("docker", ["compose", "up", "run"]),
        ("docker", ["compose", "run", "--name", "mine", "box"]),
        ("docker", ["--context", "run", "ps"]),
        ("docker", []),
        ("uvx", ["run"]),
        ("dockerize", ["run"]),
        ("env", ["A=b", "uvx", "run"]),
        ("env", ["-S", "uvx run"]),
        ("env", ["-S"]),
        ("timeout", ["-S", "docker run box"]),
        ("sh", ["-c", "docker run --cidfile mine box"]),
        ("sh", ["-c", "./my-docker run box"]),
        ("sh", ["docker", "run"]),
        ("sh", ["-c"]),
    ):
        assert container_start(command, args) is None, (command, args)


def test_the_last_container_of_a_script_is_the_servers() -> None:
    """C5: those before it prepare it."""
    start = container_start("sh", ["-c", "docker run a true && docker run -i b"])
    assert start is not None
    assert start.with_options("--cidfile", "c") == ("-c", "docker run a true && docker run --cidfile c -i b")
