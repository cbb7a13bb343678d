"""First steps of a command: find and read the configuration, set up the log."""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from aggregator.cli.runtime.logs import set_levels, start_logging
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.errors import ConfigMissing
from aggregator.config.files.find import ConfigLocation, find_config
from aggregator.config.load import Loaded, load, load_found, must_start
from aggregator.config.model import Config
from aggregator.config.settings import AuditConfig
from aggregator.storage.locate import default_url

# The variable that names this interpreter in a configuration: `"command": "${AGGREGATOR_PYTHON}"`.
PYTHON_VARIABLE: Final = "AGGREGATOR_PYTHON"


def load_config(path: Path | None, *, log_level: str, report: bool = True, usable: bool = True) -> Loaded:
    """Return the configuration that a command works with, and set up the log.

    With `report`, the problems of the file are logged. Without `usable`, one with fatal problems is returned too.

    Raises:
        ConfigError: there is no file, it cannot be read, or it has fatal problems.
    """
    loaded = _load(find(path))
    log = _start_logging(loaded, log_level, as_json=loaded.config.log.json)
    if usable:
        must_start(loaded)
    for problem in loaded.problems if report else ():
        log.warning("%s", problem)
    return loaded


def load_to_serve(path: Path | None, log_level: str | None, log_json: bool, *, repeats: bool = False) -> Loaded:
    """Return the configuration to serve hosts with; log its problems, and at any level the name of its file.

    With `repeats`, another process has logged that; only fatal problems are logged.

    Raises:
        ConfigError: there is no file, it cannot be read, or it has fatal problems.
    """
    found = find_config(path, Path.cwd(), os.environ)
    loaded = _load(found)
    log = _start_logging(loaded, "info", as_json=log_json or loaded.config.log.json)
    if not repeats:
        log.info("%s", found)
    set_levels(log_level or loaded.config.log.level, loaded.config.log.levels)
    must_start(loaded)
    for problem in loaded.problems if not repeats else ():
        log.warning("%s", problem)
    return loaded


def find(path: Path | None) -> ConfigLocation:
    """Return the configuration file of a command that ends by itself; print its name to stderr if `path` is None.

    Raises:
        ConfigError: there is no file.
    """
    found = find_config(path, Path.cwd(), os.environ)
    if path is None:
        say(f"aggregator: {one_line(str(found))}", file=sys.stderr)
    return found


def _load(found: ConfigLocation) -> Loaded:
    return load_found(found, environment())


def environment() -> dict[str, str]:
    """Return the variables that references in a configuration are resolved from."""
    return {PYTHON_VARIABLE: sys.executable, **os.environ}


def _start_logging(loaded: Loaded, level: str, as_json: bool) -> logging.Logger:
    return start_logging(level, as_json, loaded.redactor, loaded.config.log.levels)


def with_log(config: Config, level: str | None, as_json: bool) -> Config:
    """Return the configuration with the options of the command line for the log."""
    given: dict[str, Any] = ({"level": level} if level is not None else {}) | ({"json": True} if as_json else {})
    return config.model_copy(update={"log": config.log.model_copy(update=given)})


# Lays the options of the command line over a configuration.
Options = Callable[[Config], Config]


@dataclass(frozen=True, slots=True)
class FileReader:
    """A function that reads the configuration files again for a reload; `options` override the files."""

    loaded: Loaded
    options: Options
    environ: Mapping[str, str] = field(repr=False)

    def __call__(self) -> Loaded:
        """Return the current configuration of the files. Raises ConfigError."""
        again = load(self.loaded.path, self.environ, self.loaded.trust)
        return replace(again, config=self.options(again.config))


def log_as(config: Config) -> None:
    """Set the levels of the log from a configuration that came into force."""
    set_levels(config.log.level, config.log.levels)


def storage_url(loaded: Loaded) -> str:
    """Return the URL of the database of a configuration."""
    return loaded.storage or default_url(os.environ)


class DatabaseSettings(NamedTuple):
    """The settings of the database: its URL (None: the default one), whether the audit is on, the key of its chain.

    `keep_for` and `keep_bytes` bound the audit log; None sets no bound. `policies` is the folder of the policy files.
    """

    url: str | None = None
    audited: bool = True
    chain_key: str | None = None
    keep_for: float | None = AuditConfig.model_construct().keep_for
    keep_bytes: int | None = AuditConfig.model_construct().keep_bytes
    policies: Path | None = None


def configured_database(path: Path | None) -> DatabaseSettings:
    """Return the settings of the database; without a configuration, the default database with an audit log.

    Raises:
        ConfigError: the file at `path` cannot be read, or the one of the working folder is not trusted.
    """
    try:
        found = find(path)
    except ConfigMissing:
        return DatabaseSettings()
    loaded = _load(found)
    must_start(loaded)
    audit = loaded.config.audit
    kept = (audit.keep_for, audit.keep_bytes)
    return DatabaseSettings(loaded.storage, audit.enabled, audit.chain_key, *kept, loaded.policies)
