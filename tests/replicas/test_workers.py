"""`aggregator serve --workers`: one port, several processes, and one answer whichever of them is asked."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ON_WINDOWS
from tests.end_to_end.programs import environment, run, until_ended
from tests.end_to_end.scripted_host import over_http
from tests.end_to_end.server_harness import ROOT
from tests.polling import until
from tests.replicas.worker_harness import HANDSHAKE, BusyHost, busy_hosts, workers, write_config

pytestmark = pytest.mark.skipif(os.name != "posix" or ON_WINDOWS, reason="there are no workers on Windows")


async def test_workers_share_the_connections_and_speak_for_all(tmp_path: Path) -> None:
    async with workers(tmp_path) as running:

        async def shared_out() -> bool:
            return await running.asked(8) == {1: 4, 2: 4}

        await until(shared_out, "both workers take connections in turns")
        async with busy_hosts(running.url, 2) as hosts:
            for _ in range(5):
                await asyncio.gather(*(host.call() for host in hosts))
            assert len(set.union(*(host.servers for host in hosts))) == 2

            async def counted_by_all() -> bool:
                return [await running.counted() for _ in range(4)] == [20] * 4

            await until(counted_by_all, "each page has the calls of both")

            async def both_are_told() -> bool:
                return [one["worker"] for one in (await running.report())["replicas"]] == [1, 2]

            await until(both_are_told, "the report has a row of each")

        async def told_of_both() -> bool:
            shown = await run("status", "--config", str(tmp_path / "aggregator.json"), "--url", running.url)
            assert shown.code == 0, shown
            return "worker 1" in shown.out and "worker 2" in shown.out

        await until(told_of_both, "each worker has heard of the other")
        running.process.send_signal(signal.SIGHUP)
        lines = [f"[worker {number}]: configuration: nothing changed" for number in (1, 2)]
        await until(lambda: all(line in running.log for line in lines), "each worker reads the configuration")
        running.process.terminate()
        assert await running.ended() == 0
        assert running.log.count("Streamable HTTP at") == 1
        assert "Traceback" not in running.log, running.log
    told = await run("audit", "verify", "--config", str(tmp_path / "aggregator.json"))
    assert told.code == 0, told


async def test_stop_ends_all_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`aggregator stop` finds their supervisor, and the workers drain."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with workers(tmp_path) as running:
        ended = await run("stop", "--config", str(tmp_path / "aggregator.json"))
        assert (ended.code, f"process {running.process.pid} has ended." in ended.out) == (0, True), ended
        assert await running.ended() == 0
        assert "shutting down: 2 workers answer what they have begun" in running.log
    assert os.listdir(tmp_path / "data/aggregator/running") == []


async def test_a_worker_that_is_killed_takes_no_connection_and_no_count_with_it(tmp_path: Path) -> None:
    async with workers(tmp_path) as running:
        async with busy_hosts(running.url, 2) as hosts:
            await asyncio.gather(*(host.call() for host in hosts for _ in range(3)))
        await running.has_counted(12)
        os.kill(running.pids()[1], signal.SIGKILL)
        # From now on: the listening socket is the supervisor's.
        for _ in range(4):
            async with over_http(running.url, HANDSHAKE) as late:
                await BusyHost(late).call()
        await running.has_counted(16)
        await running.wait_begun(3)
        await running.settle()
        await running.has_counted(16)
        assert running.pids()[1] != running.begun()[0][1]
        assert "worker 1 ended with signal SIGKILL" in running.log
        assert running.log.count("configuration: ") == 1


async def test_workers_are_replaced_one_by_one_and_no_call_fails(tmp_path: Path) -> None:
    async with workers(tmp_path, shutdown_timeout="5s") as running, busy_hosts(running.url, 2) as hosts:
        enough = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for host in hosts:
                tasks.create_task(host.run(enough))
            old = {pid for _, pid in running.begun()}
            running.process.send_signal(signal.SIGUSR2)
            await running.logged("every worker was replaced")
            counts = {host: host.answers for host in hosts}
            await until(lambda: all(host.answers > counts[host] for host in hosts), "every host is answered after it")
            enough.set()
        await until_ended(*old)
        assert not old & set(running.pids().values())
        await running.settle()
        assert await running.counted() == sum(host.answers for host in hosts)


async def test_no_worker_outlives_its_supervisor(tmp_path: Path) -> None:
    async with workers(tmp_path) as running:
        async with over_http(running.url, HANDSHAKE) as host:
            busy = BusyHost(host)
            await busy.call()
        stopped = running.pids()[2]
        os.kill(stopped, signal.SIGSTOP)
        running.process.kill()
        await until_ended(*running.pids().values(), *busy.servers)


async def test_what_no_worker_can_start_with_is_told_once(tmp_path: Path) -> None:
    config = tmp_path / "broken.json"
    config.write_text("{")
    ended = await run("serve", "--config", str(config), "--workers", "3")
    assert ended.code == 2, ended
    assert ended.err.count("broken.json") == 1, ended.err
    for given, said in (("0", "1 to 64"), ("65", "1 to 64"), ("many", "1 to 64"), ("-2", "1 to 64")):
        refused = await run("serve", "--config", str(config), "--workers", given)
        assert refused.code != 0
        assert said in refused.err
    async with workers(tmp_path, http={"path": "/mcp"}) as running:
        port = running.url.rpartition(":")[2]
        taken = await run("serve", "--config", str(tmp_path / "aggregator.json"), "--workers", "2", "--port", port)
        assert taken.code != 0
        assert taken.err.count("Another program has that port") == 1, taken.err


# Impatient from a signal on: on a loaded machine a worker that starts may be silent for seconds.
_IMPATIENT = """
import logging, signal, sys
from aggregator.workers.supervisor import WorkerSupervisor

logging.basicConfig(level="INFO")
supervisor = WorkerSupervisor(2, sys.argv[1:], lambda first: None, hung_after=1_000)

def lose_patience(*_):
    supervisor._hung_after = 6
    for worker in supervisor._workers:
        worker.silent = 0

signal.signal(signal.SIGUSR1, lose_patience)
sys.exit(supervisor.run())
"""


@pytest.mark.timeout(300)
async def test_a_worker_that_hangs_is_replaced(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    command = [sys.executable, "-c", _IMPATIENT, "--config", str(config), "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment(), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    log = b""

    async def logged(text: bytes) -> None:
        nonlocal log
        while text not in log:
            assert process.stderr is not None
            line = await process.stderr.readline()
            assert line, log.decode()
            log += line

    try:
        async with asyncio.timeout(250):
            await logged(b"worker 2 serves")
            pid = int(log.rpartition(b"process id ")[2])
            os.kill(pid, signal.SIGSTOP)
            process.send_signal(signal.SIGUSR1)
            await logged(b"worker 2 does not run any more")
            await logged(b"worker 2 ended with signal SIGKILL")
            log = b""
            await logged(b"worker 2 serves")
            process.terminate()
            await asyncio.gather(process.wait(), process.stderr.read())
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0


_OTHER_PROGRAM = """
import logging, sys
from aggregator.workers.supervisor import WorkerSupervisor

logging.basicConfig(level="INFO")
sys.executable = sys.argv[1]
sys.exit(WorkerSupervisor(2, sys.argv[2:], lambda first: None).run())
"""


async def test_workers_go_on_while_no_further_one_can_be_started(tmp_path: Path) -> None:
    """The program may be missing for a while, as when its package is being replaced; so may the right to fork."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    config = write_config(tmp_path)
    command = [sys.executable, "-c", _OTHER_PROGRAM, str(program), "--config", str(config), "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment(), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    log = b""

    async def logged(text: bytes) -> None:
        nonlocal log
        while text not in log:
            assert process.stderr is not None
            line = await process.stderr.readline()
            assert line, log.decode()
            log += line

    try:
        async with asyncio.timeout(100):
            await logged(b"worker 1 serves")
            await logged(b"worker 2 serves")
            pid = int(log.partition(b"worker 2 serves, with process id ")[2].split()[0])
            away = program.rename(tmp_path / "away")
            process.send_signal(signal.SIGUSR2)
            await logged(b"no new worker 1 can be started (No such file or directory")
            os.kill(pid, signal.SIGKILL)
            await logged(b"worker 2 cannot be started (No such file or directory")
            away.rename(program)
            log = b""
            await logged(b"worker 2 serves")
            process.terminate()
            await asyncio.gather(process.wait(), process.stderr.read())
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0


def test_the_supervisor_loads_nothing_large() -> None:
    # A gateway takes four times as much memory.
    script = "import sys, aggregator.cli.workers; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"pydantic", "asyncio", "ssl", "uvicorn", "typer", "tempfile"} & set(loaded.stdout.split())
