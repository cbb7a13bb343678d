"""What every command does first: find and read the configuration, set up the log, and run a loop."""

import asyncio
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from aggregator.cli.logs import start_logging
from aggregator.config.load import Loaded, find_config, load

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
    log = start_logging(
        log_level or loaded.config.log.level, log_json or loaded.config.log.json, loaded.secrets - {sys.executable}
    )
    for problem in loaded.problems if report else ():
        log.warning("%s", problem)
    return loaded


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on the fastest loop there is."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
