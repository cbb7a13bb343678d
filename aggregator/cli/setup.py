"""What every command does first: find and read the configuration, set up the log, and run a loop."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from aggregator.cli.logs import set_levels, start_logging
from aggregator.config.load import ConfigError, Loaded, find_config, load
from aggregator.config.model import Config
from aggregator.storage.locate import default_url

# Children can be given our own interpreter: `"command": "${AGGREGATOR_PYTHON}"`.
PYTHON_VARIABLE: Final = "AGGREGATOR_PYTHON"

T = TypeVar("T")


def load_config(
    path: Path | None, *, log_level: str | None = None, log_json: bool = False, report: bool = True
) -> Loaded:
    """The configuration a command works with; what is wrong with it goes to the log.

    Raises:
        OperatorError: there is none, or it cannot be read.
    """
    environ = {PYTHON_VARIABLE: sys.executable, **os.environ}
    loaded = load(find_config(path, Path.cwd(), environ), environ)
    config = loaded.config.log
    log = start_logging(log_level or config.level, log_json or config.json, loaded.redactor, config.levels)
    for problem in loaded.problems if report else ():
        log.warning("%s", problem)
    return loaded


def with_log(config: Config, level: str | None, as_json: bool) -> Config:
    """The configuration with the options of the command line for the log."""
    given: dict[str, Any] = ({"level": level} if level is not None else {}) | ({"json": True} if as_json else {})
    return config.model_copy(update={"log": config.log.model_copy(update=given)})


def reading(loaded: Loaded, amend: Callable[[Config], Config]) -> Callable[[], Loaded]:
    """Reads the same files again; `amend` puts the options of the command line over what they say.

    What it returns raises ConfigError.
    """
    environ = {PYTHON_VARIABLE: sys.executable, **os.environ}

    def read() -> Loaded:
        again = load(loaded.path, environ)
        return replace(again, config=amend(again.config))

    return read


def log_as(config: Config) -> None:
    """Log from the levels of a configuration that has come into force."""
    set_levels(config.log.level, config.log.levels)


def storage_url(config: Config) -> str:
    """Where keys and approvals are kept."""
    return config.storage or default_url(os.environ)


def configured_storage(path: Path | None) -> tuple[str | None, bool]:
    """The database the configuration names, None for the default one; and whether it wants an audit log.

    Without a configuration, the default one has one.

    Raises:
        OperatorError: the file that was asked for cannot be read.
    """
    environ = {PYTHON_VARIABLE: sys.executable, **os.environ}
    try:
        found = find_config(path, Path.cwd(), environ)
    except ConfigError:
        if path is not None:
            raise
        return None, True
    config = load(found, environ).config
    return config.storage, config.audit.enabled


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
