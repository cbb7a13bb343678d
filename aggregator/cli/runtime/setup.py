"""What every command does first: find and read the configuration, set up the log, and run a loop."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from aggregator.cli.runtime.logs import set_levels, start_logging
from aggregator.cli.runtime.tables import one_line
from aggregator.config.errors import ConfigMissing
from aggregator.config.files.find import ConfigLocation, find_config
from aggregator.config.load import Loaded, load, load_found, must_start
from aggregator.config.model import Config
from aggregator.storage.locate import default_url

# Children can be given our own interpreter: `"command": "${AGGREGATOR_PYTHON}"`.
PYTHON_VARIABLE: Final = "AGGREGATOR_PYTHON"

T = TypeVar("T")


def load_config(path: Path | None, *, log_level: str, report: bool = True, usable: bool = True) -> Loaded:
    """The configuration that a command works with; what is wrong with it goes to the log if it is to `report`.

    Raises:
        ConfigError: there is none, it cannot be read, or no program must start with it, unless it need not be `usable`.
    """
    loaded = _load(find(path))
    log = _start_logging(loaded, log_level, as_json=loaded.config.log.json)
    if usable:
        must_start(loaded)
    for problem in loaded.problems if report else ():
        log.warning("%s", problem)
    return loaded


def load_to_serve(path: Path | None, log_level: str | None, log_json: bool) -> Loaded:
    """The configuration to serve hosts with. Which file it is goes to the log at any level, and what is wrong with it.

    Raises:
        ConfigError: there is none, it cannot be read, or no program must start with it.
    """
    found = find_config(path, Path.cwd(), os.environ)
    loaded = _load(found)
    log = _start_logging(loaded, "info", as_json=log_json or loaded.config.log.json)
    log.info("%s", found)
    set_levels(log_level or loaded.config.log.level, loaded.config.log.levels)
    must_start(loaded)
    for problem in loaded.problems:
        log.warning("%s", problem)
    return loaded


def find(path: Path | None) -> ConfigLocation:
    """The configuration file of a command that ends by itself; one that was not named is told on stderr.

    Raises:
        ConfigError: there is none.
    """
    found = find_config(path, Path.cwd(), os.environ)
    if path is None:
        print(f"aggregator: {one_line(str(found))}", file=sys.stderr)
    return found


def _load(found: ConfigLocation) -> Loaded:
    return load_found(found, environment())


def environment() -> dict[str, str]:
    """The variables that a configuration is filled in from."""
    return {PYTHON_VARIABLE: sys.executable, **os.environ}


def _start_logging(loaded: Loaded, level: str, as_json: bool) -> logging.Logger:
    return start_logging(level, as_json, loaded.redactor, loaded.config.log.levels)


def with_log(config: Config, level: str | None, as_json: bool) -> Config:
    """The configuration with the options of the command line for the log."""
    given: dict[str, Any] = ({"level": level} if level is not None else {}) | ({"json": True} if as_json else {})
    return config.model_copy(update={"log": config.log.model_copy(update=given)})


def reading(loaded: Loaded, amend: Callable[[Config], Config]) -> Callable[[], Loaded]:
    """Reads the same files again; `amend` puts the options of the command line over what they say.

    What it returns raises ConfigError.
    """
    environ = environment()

    def read() -> Loaded:
        again = load(loaded.path, environ, loaded.trust)
        return replace(again, config=amend(again.config))

    return read


def log_as(config: Config) -> None:
    """Log from the levels of a configuration that has come into force."""
    set_levels(config.log.level, config.log.levels)


def storage_url(loaded: Loaded) -> str:
    """Where keys and approvals are kept."""
    return loaded.storage or default_url(os.environ)


class Stored(NamedTuple):
    """The database that a configuration names, None for the default one; whether it wants an audit log, and its key."""

    url: str | None = None
    audited: bool = True
    chain_key: str | None = None


def configured_storage(path: Path | None) -> Stored:
    """What the configuration says of the database; without one, it is the default one with an audit log.

    Raises:
        ConfigError: the file that was asked for cannot be read, or that of the working folder is not trusted.
    """
    try:
        found = find(path)
    except ConfigMissing:
        return Stored()
    loaded = _load(found)
    must_start(loaded)
    audit = loaded.config.audit
    return Stored(loaded.storage, audit.enabled, audit.chain_key)


def all_started(config: Config) -> Config:
    """The same for a command that wants to see every server, whatever `start` and `idle_timeout` say."""
    awake = {"start": "eager", "idle_timeout": None}
    return config.model_copy(update={"servers": tuple(server.model_copy(update=awake) for server in config.servers)})


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on the fastest loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
