"""`aggregator stop`: ends a running `aggregator serve` of this user gently, waits, and says what happened."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aggregator.cli.runtime.running import RunningServe, find_running, running_folder
from aggregator.cli.runtime.setup import find
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.cli.status import NOT_RUNNING
from aggregator.config.durations import format_duration, parse_duration
from aggregator.config.errors import ConfigMissing
from aggregator.domain.errors import OperatorError
from aggregator.domain.patient_files import same_path
from aggregator.domain.text.error_text import error_text

_LOOK_AGAIN: Final = 0.05


def run(path: Path | None, pid: int | None, everything: bool, timeout: str | None) -> int:
    """Ask the process that serves a configuration to end, and wait; `pid` names one of several, `everything` all.

    Returns 0 once it has ended, 1 if it has not in time or was killed meanwhile, 69 if none runs.

    Raises:
        OperatorError: several serve this configuration, or an option cannot be used.
    """
    if everything and (pid is not None or path is not None):
        raise OperatorError("--all ends every `aggregator serve` of this user: leave --pid and --config out.")
    patience = _patience(timeout)
    folder = running_folder(os.environ)
    try:
        running = find_running(folder)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be read: {error.strerror or error_text(error)}. Make it readable."
        ) from None
    config = None if everything or pid is not None else _config(path)
    chosen = [one for one in running if _is_chosen(one, config, pid)]
    if not chosen:
        return _say_none(running, config, pid)
    if len(chosen) > 1 and not everything:
        raise OperatorError(
            f"{len(chosen)} processes serve this configuration: {', '.join(map(_named, chosen))}. Name one with --pid, "
            "or end all of this user with --all."
        )
    for one in chosen:
        try:
            one.ask_to_end()
        except OSError as error:
            why = error.strerror or error_text(error)
            said = f"{_named(one)} cannot be asked to end: {folder}: {why}. Make the folder writable."
            raise OperatorError(said) from None
        say(f"{_named(one)} was asked to end. It first answers the requests that it has begun.")
    return _wait(chosen, patience)


def _patience(timeout: str | None) -> float:
    try:
        return parse_duration(timeout if timeout is not None else "60s")
    except ValueError as error:
        raise OperatorError(f"--timeout: {error_text(error)}.") from None


def _config(path: Path | None) -> Path | None:
    """Return the configuration whose process is to be stopped; None for any. A named file need not exist any more."""
    if path is not None:
        return Path.cwd() / os.path.expanduser(path)
    try:
        return find(None).path
    except ConfigMissing:
        return None


def _is_chosen(one: RunningServe, config: Path | None, pid: int | None) -> bool:
    if pid is not None:
        return one.pid == pid
    return config is None or (bool(one.config) and same_path(one.config, config))


def _say_none(running: Sequence[RunningServe], config: Path | None, pid: int | None) -> int:
    what = f"with the process id {pid}" if pid is not None else f"with {config}" if config is not None else "here"
    say(one_line(f"No `aggregator serve` of this user runs {what}. A service is ended by what started it."))
    for one in running:
        if one.pid is None:
            say(f"Another one runs: {_named(one)}. Make that file readable, or end all of this user with --all.")
        else:
            say(one_line(f"Another one runs: {_named(one)}, with {one.config or 'a configuration without a file'}."))
    return NOT_RUNNING


def _named(one: RunningServe) -> str:
    if one.pid is None:
        return one_line(f"the process whose file {one.facts} cannot be read")
    return one_line(f"process {one.pid} at {one.address}" if one.address else f"process {one.pid}")


def _wait(chosen: Sequence[RunningServe], patience: float) -> int:
    until = time.monotonic() + patience
    left, code = list(chosen), 0
    while left:
        for one in [one for one in left if not one.runs()]:
            left.remove(one)
            if one.left_its_file():
                one.forget()
                say(f"{_named(one)} was killed before it had ended by itself.")
                code = 1
            else:
                say(f"{_named(one)} has ended.")
        if left and time.monotonic() > until:
            for one in left:
                say(
                    f"{_named(one)} still runs after {format_duration(patience)}. It ends once its calls have, or "
                    "`shutdown_timeout` is over; give --timeout more, or end the process by its id."
                )
            return 1
        if left:
            time.sleep(_LOOK_AGAIN)
    return code
