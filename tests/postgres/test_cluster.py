"""Holds what the other tests of PostgreSQL stand on: a server that is there, stops, hangs, and is never left behind."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.end_to_end.server_harness import ROOT
from tests.peers.processes import is_alive
from tests.polling import until
from tests.postgres.cluster import Cluster
from tests.postgres.programs import NEEDED, NOT_RUN, find_programs


def test_the_programs_count_only_together(tmp_path: Path) -> None:
    assert find_programs({"POSTGRES_PROGRAMS": str(tmp_path)}) is None
    for name in NEEDED:
        (tmp_path / name).write_text("#!/bin/sh\n")
    assert find_programs({"POSTGRES_PROGRAMS": str(tmp_path)}) == tmp_path


def test_a_missing_server_is_told_loudly(tmp_path: Path) -> None:
    environ = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    environ |= {"POSTGRES_PROGRAMS": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ["-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    test = "tests/postgres/test_cluster.py::test_it_stops_and_comes_back"
    command = [sys.executable, "-m", "pytest", *plugins, "-r", "N", "--tb=line", test]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout
    assert NOT_RUN in done.stdout
    assert "NOT RUN =" in done.stdout


async def test_it_stops_and_comes_back(postgres_cluster: Cluster, postgres_url: str) -> None:
    """With what was written, by a user who is no administrator."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE TABLE kept (n integer)")
    await connection.close()
    postgres_cluster.restart()
    connection = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT count(*) FROM kept") == 0
    assert await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    await connection.close()


async def test_it_can_hang_and_go_on(postgres_cluster: Cluster, postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    postgres_cluster.freeze()
    with pytest.raises(TimeoutError):
        await connection.execute("SELECT 1", timeout=0.2)
    postgres_cluster.thaw()
    assert await connection.fetchval("SELECT 2", timeout=30) == 2
    await connection.close()


async def test_a_standby_follows_until_it_is_promoted(postgres_cluster: Cluster, postgres_database: str) -> None:
    with postgres_cluster.standby() as standby:
        connection = await asyncpg.connect(standby.url(postgres_database))
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("CREATE TABLE t (n integer)")
        standby.promote()
        await connection.execute("CREATE TABLE t (n integer)")
        await connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with the parent that was killed")
def test_it_is_not_left_behind_by_tests_that_are_killed() -> None:
    found = find_programs()
    if found is None:
        pytest.skip(NOT_RUN)
    script = """
import sys, time
from pathlib import Path
from tests.postgres.cluster import running_cluster
with running_cluster(Path(sys.argv[1])) as cluster:
    print(cluster.pid, cluster.folder, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, found], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, _, folder = process.stdout.readline().strip().partition(" ")
        assert is_alive(int(pid))
        process.send_signal(signal.SIGKILL)
    asyncio.run(until(lambda: not is_alive(int(pid))))
    shutil.rmtree(folder)
