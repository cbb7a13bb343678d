"""`aggregator serve --workers N`: starts the workers and keeps them running; loads no gateway itself."""

import os
import sys
from pathlib import Path
from typing import Any

from aggregator.cli.runtime.logs import start_logging
from aggregator.cli.runtime.running import announced
from aggregator.config.errors import ConfigError
from aggregator.config.files.find import find_config
from aggregator.domain.errors import OperatorError
from aggregator.workers.cores import cores
from aggregator.workers.supervisor import MOST, WorkerSupervisor


def run(
    path: Path | None,
    host: str | None,
    port: int | None,
    names: str | None,
    workers: str | None,
    log_level: str | None,
    log_json: bool,
) -> int:
    """Serve with so many workers until a signal comes; with one, in this process.

    Raises:
        OperatorError: `workers` is no number of processes, or this platform has no workers.
    """
    count = _count(workers)
    if count == 1:
        from aggregator.cli import serve

        return serve.run(path, host, port, names, None, log_level, log_json)
    if sys.platform == "win32":
        raise OperatorError("--workers needs a POSIX system, such as Linux or macOS: leave it out here.")
    given = {"--config": path, "--host": host, "--port": port, "--names": names, "--log-level": log_level}
    command = [word for name, value in given.items() if value is not None for word in _words(name, str(value))]
    start_logging(log_level or "info", log_json, ())

    def log_as(first: dict[str, Any]) -> None:
        start_logging(first["level"], first["json"], ())

    with announced(os.environ, _config(path), "") as asked:
        return WorkerSupervisor(count, [*command, *(["--log-json"] if log_json else [])], log_as, asked=asked).run()


def _config(path: Path | None) -> Path | None:
    """Return the configuration file of the workers; None if they will find none, and say why."""
    try:
        return find_config(path, Path.cwd(), os.environ).path
    except ConfigError:
        return None


def _words(name: str, value: str) -> tuple[str, ...]:
    """Return an option as words; one word if its value could be read as another option."""
    return (f"{name}={value}",) if value.startswith("-") else (name, value)


def _count(workers: str | None) -> int:
    if workers == "auto":
        return min(cores(), MOST)
    text = workers if workers is not None else "1"
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MOST):
        raise OperatorError(
            f"--workers takes a number from 1 to {MOST}, or `auto` for one on each core, not {text!r:.40}."
        )
    return int(text)
