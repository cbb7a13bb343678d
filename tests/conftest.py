"""Fixtures of every test: the loggers restored afterwards, no helper process left, empty folders for data and
configuration, work that is done once for all, and a PostgreSQL for those who ask. At the end of a run without it, or a
browser, that is told.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from aggregator.storage.database import open_database
from tests import ON_WINDOWS, lanes, once, with_folders_of_windows
from tests.console.browser import chromium
from tests.peers.processes import children, commands_of
from tests.postgres import programs
from tests.postgres.cluster import Cluster, running_cluster

_HELPERS: Final = ("schemas.workers", "process/reaper.py")
# Rarer than the collector of Python runs by itself: it took a twentieth of the time of the tests.
_COLLECTED: Final = (20_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    lanes.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts us in the background has us ignore Ctrl+C, and with us each program of a test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    lanes.choose_examples(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and keep it off what stays to the end: a quarter of the collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_COLLECTED)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return lanes.is_elsewhere(collection_path, config) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lanes.keep_lane(config, items)


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in ("aggregator", "uvicorn.error", "mcp"))]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        # It empties the caches of all loggers.
        if logger.level != level:
            logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _no_helper_process_left() -> Iterator[None]:
    """Fail the test that leaves a worker or a reaper: the garbage collector would report it in a later test."""
    before = children()
    yield
    left = [
        command
        for command in commands_of(children() - before).values()
        if any(helper in command for helper in _HELPERS)
    ]
    assert not left, f"{left} still run: close the harness, the `CheckWorkers` or the `Reaper` in its event loop"


@pytest.fixture(autouse=True, scope="session")
def _data_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the programs that tests start an empty data folder, and no configuration of the user."""
    with pytest.MonkeyPatch.context() as patch:
        folders = {
            "XDG_DATA_HOME": tmp_path_factory.mktemp("data"),
            "XDG_CONFIG_HOME": tmp_path_factory.mktemp("config"),
        }
        for name, value in with_folders_of_windows({key: str(folder) for key, folder in folders.items()}).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True, scope="session")
def _temporary_files_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep locks of folders, which are temporary files on Windows, out of the files of the user."""
    with pytest.MonkeyPatch.context() as patch:
        if ON_WINDOWS:
            folder = str(tmp_path_factory.mktemp("temporary"))
            patch.setenv("TMPDIR", folder)
            # Here, not in `tempfile`: other users must reach what some tests make, and many replace all variables.
            patch.setattr("aggregator.editing.replace.gettempdir", lambda: folder)
        yield


@pytest.fixture(autouse=True, scope="session")
def _once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        once.build_commands_once(patch)
        once.read_certificates_once(patch)
        once.copy_new_databases(patch, tmp_path_factory.mktemp("template"))
        once.share_statements(patch)
        yield


@pytest.fixture
def made_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each new database as a program does; others may be copies."""
    once.make_databases(monkeypatch)


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """A PostgreSQL server that runs; each process of the tests has its own. A run without it says so loudly."""
    found = programs.find_programs()
    if found is None:
        pytest.skip(programs.NOT_RUN)
    with running_cluster(found) as cluster:
        yield cluster


@pytest.fixture
def postgres_database(postgres_cluster: Cluster) -> Iterator[str]:
    """The name of an empty database on the cluster, which runs again if an earlier test stopped it."""
    with _database(postgres_cluster) as name:
        yield name


@pytest.fixture
def postgres_url(postgres_cluster: Cluster, postgres_database: str) -> str:
    """The URL of an empty database, as an operator writes it."""
    return postgres_cluster.url(postgres_database)


@pytest.fixture(scope="session")
def _postgres_template(postgres_cluster: Cluster) -> str:
    _let_run(postgres_cluster)
    name = postgres_cluster.new_database()

    async def make_tables() -> None:
        async with open_database(postgres_cluster.url(name)):
            pass

    asyncio.run(make_tables())
    return name


@pytest.fixture
def postgres_url_with_tables(postgres_cluster: Cluster, _postgres_template: str) -> Iterator[str]:
    """The URL of a database that has its tables: a copy, for a third of what opening an empty one costs."""
    with _database(postgres_cluster, _postgres_template) as name:
        yield postgres_cluster.url(name)


def _let_run(cluster: Cluster) -> None:
    if cluster.pid is None:
        cluster.start()
    cluster.thaw()


@contextmanager
def _database(cluster: Cluster, *template: str) -> Iterator[str]:
    _let_run(cluster)
    name = cluster.new_database(*template)
    yield name
    if cluster.pid is not None:
        cluster.thaw()
        cluster.drop_database(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests a missing program kept from running: a line among other skipped tests would be missed."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    for not_run in (chromium.NOT_RUN, programs.NOT_RUN):
        if any(not_run in reason for reason in skipped):
            terminalreporter.write_sep("=", "NOT RUN", red=True, bold=True)
            terminalreporter.write_line(not_run, red=True)
