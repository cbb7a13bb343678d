"""The lock file beside the configuration, read again when it changes. Reads the disk: its method is run in a thread."""

import logging
from collections.abc import Mapping
from pathlib import Path

from aggregator.config.files.watch import Stamp, stamp
from aggregator.domain.ordinary_files import read_ordinary
from aggregator.domain.text.error_text import error_text
from aggregator.pins.decide.lock_file import LOCK_FILE, LockFileError, read_lock
from aggregator.pins.decide.values import ItemKey, PinnedItem

log = logging.getLogger(__name__)


def lock_beside(config: Path | None) -> Path | None:
    """Return the path of the lock file of a configuration file, existing or not; None for a configuration without a
    file.
    """
    return config.parent / LOCK_FILE if config is not None else None


class LockWatch:
    """The pins of the lock file at `path`, or None without a path.

    servers: the pins by server, of the last valid file. problem: why the current file cannot be used; None if it can,
    or does not exist.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.servers: Mapping[str, Mapping[ItemKey, PinnedItem]] = {}
        self.problem: str | None = None
        self._stamp: Stamp | None = None
        self._good = False

    @property
    def unusable(self) -> bool:
        """True if no file could be used since the start, and there is one."""
        return self.problem is not None and not self._good

    def read(self) -> bool:
        """Read the file if it is another one; return whether other pins count now."""
        if self.path is None:
            return False
        now = stamp(self.path)
        if now == self._stamp:
            return False
        self._stamp = now
        before, problem = self.servers, self.problem
        try:
            self.servers = read_lock(read_ordinary(self.path), self.path.name)
            self._good, self.problem = True, None
        except FileNotFoundError:
            self.servers, self._good, self.problem = {}, True, None
        except (OSError, LockFileError) as error:
            self.problem = error_text(error)
            stays = "; the pins that were in force stay" if self._good else ""
            log.error("the lock file of pins cannot be used%s: %s", stays, error)
        if problem is not None and self.problem is None:
            log.info("the lock file of pins can be used again")
        return self.servers is not before
