"""Containers that servers started by `docker run` and its like leave behind: known by a file of their id, and removed.

A container belongs to a daemon: the end of `docker run` by a signal is not the end of the container.
"""

import asyncio
import json
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.upstream.process.container_removal import CID, RECORD, container_in, removal
from aggregator.upstream.process.container_starts import ContainerStart, container_start, removing

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

# Variables by which these programs find their daemon.
_VARIABLES: Final = ("PATH", "HOME", "USERPROFILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "SYSTEMROOT")
_PREFIXES: Final = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "CONTAINERD_")
# Seconds that a removal may take.
_REMOVED_WITHIN: Final = 10.0
_LOCK: Final = "lock"


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One start of a container: its arguments with the file for its id, and the file with what removes it."""

    args: tuple[str, ...]
    record: Path


class Containers:
    """The containers of this process, noted in a folder that it locks, so that the next process knows it is gone."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._held: int | None = None

    def __repr__(self) -> str:
        return f"<Containers in {self._folder}>"

    @property
    def folder(self) -> Path:
        """The folder of this process, which is created if it is missing. It waits for the disk: use a thread."""
        if self._folder is None:
            self._folder = _base() / secrets.token_hex(8)
            self._folder.mkdir(mode=0o700)
            self._held = _lock(self._folder)
        return self._folder

    def placed(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None = None
    ) -> ContainerRun | None:
        """Return the start in a folder with a file for the container's id; None if it starts none. Use a thread."""
        start = container_start(command, args)
        removal = removing(start, command, env.get("PATH")) if start is not None else None
        if start is None or removal is None:
            return None
        try:
            name = secrets.token_hex(8)
            record, file = self.folder / f"{name}{RECORD}", self.folder / f"{name}{CID}"
            kept = {key: value for key, value in env.items() if key in _VARIABLES or key.startswith(_PREFIXES)}
            written = {"command": removal, "env": kept, **_known_by(start, name, file, cwd)}
            with os.fdopen(os.open(record, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                json.dump(written, opened)
        except OSError as error:
            log.warning("the container of %s cannot be noted, so it may be left behind: %s", command, error)
            return None
        if start.named:
            placed = start.with_options("--name", str(written["name"]))
        else:
            placed = start.args if start.own_file else start.with_options("--cidfile", str(file))
        return ContainerRun(placed, record)

    async def remove(self, run: ContainerRun, hurry: asyncio.Event) -> None:
        """Remove the container of a start, if there is one; in a hurry, that is left to the reaper."""
        if hurry.is_set():
            return
        async with Tasks("the removal of a container") as tasks:
            ends = {tasks.start(hurry.wait()), tasks.start(self._remove(run.record))}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    async def _remove(self, record: Path) -> None:
        found = await asyncio.to_thread(container_in, str(record))
        if found is not None:
            command, env = removal(found)
            try:
                async with asyncio.timeout(_REMOVED_WITHIN):
                    process = await asyncio.create_subprocess_exec(
                        *command,
                        env=env,
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=asyncio.subprocess.DEVNULL,
                        stderr=asyncio.subprocess.DEVNULL,
                        start_new_session=True,
                    )
                    await process.wait()
            except (OSError, TimeoutError) as error:
                log.warning("a container could not be removed: %s", str(error) or "the daemon does not answer")
                return
            # A file that the entry names itself: with it there, the next start would be refused.
            if "cid" in found:
                await asyncio.to_thread(_unlink, Path(found["cid"]))
        await asyncio.to_thread(_forget, record)

    async def remove_left(self) -> None:
        """Remove the containers of earlier processes that are gone, whose reaper could not."""
        left = await asyncio.to_thread(_left, self._folder)
        await asyncio.gather(*(self._remove(record) for records in left.values() for record in records))
        if count := sum(map(len, left.values())):
            log.info("%d containers of an earlier life were removed", count)
        for folder in left:
            await asyncio.to_thread(_forget_folder, folder)

    def close(self) -> None:
        """Forget the folder of this process, if nothing is left in it."""
        if self._folder is None:
            return
        if not any(self._folder.glob(f"*{RECORD}")):
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
        self._folder = self._held = None


def _known_by(start: ContainerStart, name: str, file: Path, cwd: str | None) -> dict[str, str]:
    """Return the file that gets the id of the container, or the name that the container gets."""
    if start.named:
        return {"name": f"aggregator{name}"}
    # As the program reads it, and not the process that removes the container.
    return {"cid": os.path.join(cwd or os.getcwd(), start.own_file) if start.own_file else str(file)}


def _base() -> Path:
    """Return the folder of this user for all processes. Raises OSError where others could read or write it."""
    user = os.getuid() if hasattr(os, "getuid") else "user"
    base = Path(tempfile.gettempdir()) / f"aggregator-containers-{user}"
    base.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(base)
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077 or base.is_symlink()):
        raise PermissionError(None, "it is not a folder of this user alone", str(base))
    return base


def _lock(folder: Path) -> int | None:
    """Return a handle that holds the lock of a folder; None if another process holds it, or there are no locks."""
    if sys.platform == "win32" or fcntl is None:
        return None
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _left(own: Path | None) -> dict[Path, list[Path]]:
    """Return the folders of processes that have ended, and the notes in each."""
    found = {}
    with suppress(OSError):
        for folder in _base().iterdir():
            if folder != own and folder.is_dir() and (handle := _lock(folder)) is not None:
                os.close(handle)
                found[folder] = sorted(folder.glob(f"*{RECORD}"))
    return found


def _forget_folder(folder: Path) -> None:
    """Remove the folder of a process that is gone, once nothing is noted in it."""
    if not any(folder.glob(f"*{RECORD}")):
        shutil.rmtree(folder, ignore_errors=True)


def _forget(record: Path) -> None:
    _unlink(record.with_name(record.name.removesuffix(RECORD) + CID))
    _unlink(record)


def _unlink(file: Path) -> None:
    with suppress(OSError):
        file.unlink(missing_ok=True)
