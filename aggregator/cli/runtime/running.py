"""The files by which `aggregator stop` finds each running `aggregator serve` of this user, and asks it to end.

Law: a file belongs to a running process as long as the lock beside it is held; the system frees the lock when the
process ends. No process is found by its id alone, since the system gives ids out again, and none is sent a signal.
"""

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.domain.ordinary_files import NotOrdinary, read_ordinary
from aggregator.domain.patient_files import move_over, patiently
from aggregator.domain.text.error_text import error_text
from aggregator.storage.engine.lockfile import hold, is_held
from aggregator.storage.errors import StorageError
from aggregator.storage.locate import data_folder

log = logging.getLogger(__name__)

_FACTS: Final = ".json"
_NEW: Final = ".new"
_LOCK: Final = ".lock"
# The wish of `aggregator stop` that the process ends.
_WISH: Final = ".stop"
# Seconds between two looks for the wish.
LOOK_EVERY: Final = 0.5
_LARGEST: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class RunningServe:
    """A process that serves, or the supervisor of its workers. `config` is its configuration file; empty if none.

    pid: None, with an empty `config` and `address`, for a process that runs and whose file cannot be read.
    """

    facts: Path
    pid: int | None
    config: str
    address: str

    def ask_to_end(self) -> None:
        """Leave the wish that it ends. Raises OSError if the file cannot be written."""
        with suppress(FileExistsError):
            os.close(os.open(self.facts.with_suffix(_WISH), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))

    def runs(self) -> bool:
        """Return whether it runs. It waits for the disk."""
        return bool(is_held(self.facts.with_suffix(_LOCK)))

    def left_its_file(self) -> bool:
        """Return whether its file is still there, which a process that ends by itself removes."""
        return self.facts.exists()

    def forget(self) -> None:
        """Remove the files of a process that was killed."""
        _remove(self.facts)


def running_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of these files. Raises StorageError if the user has no home folder."""
    return data_folder(environ) / "aggregator" / "running"


def find_running(folder: Path) -> list[RunningServe]:
    """Return the processes that serve, and remove the files of those that were killed.

    The lock alone tells which were: a file that cannot be read says nothing about its process.

    Raises:
        OSError: the folder cannot be read.
    """
    found: list[RunningServe] = []
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            path = folder / name
            if path.suffix == _FACTS:
                serve = _read(path)
                if serve.runs():
                    found.append(serve)
                else:
                    _remove(path)
    return sorted(found, key=lambda serve: (serve.address, serve.pid or 0))


@contextmanager
def announced(environ: Mapping[str, str], config: Path | None, address: str) -> Iterator[Callable[[], bool]]:
    """Let `aggregator stop` find this process; yields the function that tells whether it must end.

    A process that cannot be announced serves all the same, and its log says so.
    """
    made: tuple[Path, int] | None = None
    try:
        made = _announce(running_folder(environ), config, address)
    except (OSError, StorageError) as error:
        log.info("`aggregator stop` will not find this process: %s", error_text(error))
    try:
        yield (lambda: False) if made is None else made[0].with_suffix(_WISH).exists
    finally:
        if made is not None:
            path, lock = made
            # While the lock is held: with the file and without the lock, the process would count as killed.
            _remove(path, but=_LOCK)
            os.close(lock)
            _remove(path)


async def wait_asked(asked: Callable[[], bool]) -> None:
    """Return once a request to end has come."""
    import asyncio  # the supervisor of workers loads no event loop

    from aggregator.domain.bounds.ticks import until_next

    while not await asyncio.to_thread(asked):  # noqa: ASYNC110 - another process gives no event
        await asyncio.sleep(until_next(LOOK_EVERY))


def _announce(folder: Path, config: Path | None, address: str) -> tuple[Path, int]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    path = folder / f"{secrets.token_hex(8)}{_FACTS}"
    # First the lock: a file without one is that of a killed process.
    lock = hold(path.with_suffix(_LOCK))
    facts = {"pid": os.getpid(), "config": "" if config is None else os.path.abspath(config), "address": address}
    written = path.with_suffix(_NEW)
    try:
        written.write_text(json.dumps(facts), "utf-8")
        move_over(written, path)
    except OSError:
        os.close(lock)
        _remove(path)
        raise
    return path, lock


def _read(path: Path) -> RunningServe:
    try:
        facts = json.loads(read_ordinary(path, _LARGEST))
        return RunningServe(path, int(facts["pid"]), str(facts["config"]), str(facts["address"]))
    except (OSError, NotOrdinary, ValueError, KeyError, TypeError, RecursionError):
        return RunningServe(path, None, "", "")


def _remove(facts: Path, but: str = "") -> None:
    for ending in (_FACTS, _WISH, _NEW, _LOCK):
        if ending != but:
            with suppress(OSError):
                patiently(facts.with_suffix(ending).unlink)
