"""What every command does first: find and read the configuration, set up the log, and run a loop."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from aggregator.cli.logs import start_logging
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


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on the fastest loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
