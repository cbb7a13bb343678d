"""SIGTERM and SIGINT end the program: the first gently, the second at once. SIGHUP has it read its configuration."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

_ENDING: Final = ("SIGTERM", "SIGINT")


def stop_on_signals(hurry: Callable[[], None] | None = None, reload: Callable[[], None] | None = None) -> asyncio.Event:
    """An event that the first signal sets. The second calls `hurry`, and without one ends the program as signals do;
    so does the one after that. SIGHUP calls `reload`, unless it says that our terminal is gone.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    on_terminal = _on_terminal()

    def stop() -> None:
        if not stopping.is_set():
            stopping.set()
            if hurry is not None:
                return
        elif hurry is not None:
            hurry()
        for name in _ENDING:
            loop.remove_signal_handler(getattr(signal, name))

    def hang_up() -> None:
        if on_terminal and not _on_terminal():
            stop()
        elif reload is not None:
            reload()

    with suppress(NotImplementedError):
        for name in _ENDING:
            loop.add_signal_handler(getattr(signal, name), stop)
        if reload is not None:
            loop.add_signal_handler(signal.SIGHUP, hang_up)
    return stopping


def _on_terminal() -> bool:
    """Whether we were started from a terminal that is still there."""
    return any(map(os.isatty, (0, 1, 2)))
