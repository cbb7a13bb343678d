"""Reload of the configuration: an edited file takes effect within two seconds; a broken one changes nothing.

Law: secrets in a new file are hidden before anything of the file is logged, whether or not it comes into force.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from aggregator.app.reload.file_look import FileLook
from aggregator.config.difference import ConfigChanges, difference, emptied, forbidding
from aggregator.config.errors import ConfigError
from aggregator.config.files.watch import Stamp, signature
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.bounds.ticks import until_next
from aggregator.domain.errors import OperatorError
from aggregator.domain.problems import Problem
from aggregator.redaction.redactor import Redactor

log = logging.getLogger(__name__)

EVERY: Final = 0.5
# Seconds that a file must stay unchanged before it is read, and the longest wait for that.
STILL: Final = 0.1
PATIENCE: Final = 2.0

# Reads the configuration files, which takes long: call it in a thread. Raises: ConfigError: the files are invalid.
ConfigReader = Callable[[], Loaded]
# The notification about a configuration that came into force, for what lies outside the app, such as logging.
ConfigListener = Callable[[Config], None]


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The files of a configuration. `loaded` is the configuration read at the start."""

    loaded: Loaded
    read: ConfigReader
    applied: ConfigListener


class ConfigTarget(Protocol):
    """The program that takes a configuration."""

    async def prepare(self, config: Config) -> None:
        """Do slow preparations ahead."""

    def apply(self, found: ConfigChanges) -> None:
        """Put a configuration into force, at once and whole.

        Raises:
            OperatorError: it cannot be used; nothing has changed.
        """


class ConfigEvents(Protocol):
    """The audit of reloads."""

    def config_read(self, taken: ConfigChanges | None, refused: tuple[str, ...]) -> None:
        """Record the configuration that came into force, or None and the reasons why none did."""


class ConfigReload:
    """Watches the configuration files, reads them in a thread when they change, and applies them."""

    def __init__(self, source: ConfigSource, redactor: Redactor, target: ConfigTarget, events: ConfigEvents) -> None:
        self._source = source
        self._redactor = redactor
        self._target = target
        self._events = events
        loaded = source.loaded
        self._config = loaded.config
        self._problems = loaded.problems
        self._listed = loaded.listed
        self._path = loaded.path
        self._files = loaded.files
        self._seen: Mapping[Path, Stamp] = signature(loaded.files)
        self._requested = asyncio.Event()
        self._look = FileLook("configuration", str(loaded.path))
        self.refused: tuple[str, ...] = ()
        self.kept_back: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<ConfigReload of {len(self._files)} files{', refused' if self.refused else ''}>"

    def request_reload(self) -> None:
        """Read the files now, changed or not."""
        self._requested.set()

    def report(self) -> dict[str, Any]:
        """Return the part of `/readyz` about the files: their path, and whether they differ from the ones in force."""
        return {
            "file": str(self._path.absolute()) if self._path is not None else None,
            "broken": bool(self.refused),
            "problems": [*self.refused, *([self._look.problem] if self._look.problem is not None else [])],
            "wait_for_restart": list(self.kept_back),
        }

    async def run(self) -> None:
        """Watch the files until cancelled."""
        while True:
            requested = await self._wait()
            seen: Mapping[Path, Stamp] = await self._look.take(signature, self._files)
            if seen != self._seen:
                seen = await self._until_unchanged(seen)
            if requested or seen != self._seen:
                self._seen = seen
                try:
                    await self._reload(requested)
                except Exception:
                    log.exception("another configuration could not be put into force: an unexpected error")

    async def _wait(self) -> bool:
        """Wait until the next check is due; return whether a reload was requested."""
        try:
            async with asyncio.timeout(until_next(EVERY)):
                await self._requested.wait()
        except TimeoutError:
            return False
        self._requested.clear()
        return True

    async def _until_unchanged(self, seen: Mapping[Path, Stamp]) -> Mapping[Path, Stamp]:
        """Return the signature of the files once they are no longer being written."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            await asyncio.sleep(STILL)
            now = await self._look.take(signature, self._files)
            if now == seen or asyncio.get_running_loop().time() > deadline:
                return now
            seen = now

    async def _reload(self, requested: bool) -> None:
        try:
            loaded = await self._look.take(self._source.read)
        except ConfigError as error:
            self._refuse((str(error),))
            return
        except Exception:
            log.exception("the configuration could not be read: an unexpected error")
            self._refuse(("an error of ours; the log says more",))
            return
        self._redactor.add(loaded.hidden)
        if loaded.files != self._files:
            self._files = loaded.files
            # Files known before keep the signature from before the read: they may have been written to since.
            new = await asyncio.to_thread(signature, self._files - self._seen.keys())
            self._seen = {**{path: was for path, was in self._seen.items() if path in self._files}, **new}
        found = forbidding(self._config, loaded.config, self._problems, loaded.problems, str(loaded.path))
        empty = emptied(self._config, self._listed, loaded.listed, str(loaded.path))
        if found or empty:
            self._refuse(tuple(map(str, filter(None, (*found, empty)))))
        else:
            await self._apply(loaded, requested)

    async def _apply(self, loaded: Loaded, requested: bool) -> None:
        found_now = difference(self._config, loaded.config)
        if found_now:
            await self._target.prepare(found_now.config)
            try:
                self._target.apply(found_now)
            except OperatorError as error:
                self._refuse((str(error),))
                return
            self._source.applied(found_now.config)
            self._redactor.update(loaded.redactor)
        before = self._problems
        if self.refused:
            log.info("configuration: its files can be used again")
        self._config, self._problems, self._listed = found_now.config, loaded.problems, loaded.listed
        self.refused, self.kept_back = (), found_now.kept_back
        self._log_changes(found_now, [problem for problem in loaded.problems if problem not in before], requested)
        if found_now:
            self._events.config_read(found_now, ())

    def _refuse(self, reasons: tuple[str, ...]) -> None:
        self.refused = reasons
        for reason in reasons:
            log.error("%s", reason)
        log.error("the configuration as it is now cannot be used, so the one in force stays")
        self._events.config_read(None, reasons)

    def _log_changes(self, taken: ConfigChanges, problems: list[Problem], requested: bool) -> None:
        for problem in problems:
            log.warning("%s", problem)
        for line in taken.lines():
            log.info("configuration: %s", line)
        for name in taken.kept_back:
            log.warning("configuration: `%s` cannot be changed while the program runs; it waits for a restart", name)
        if requested and not taken and not taken.kept_back:
            log.info("configuration: nothing changed")
