"""Handle the signals of a serving command: drain and end, end at once, or read the configuration again.

The first SIGTERM or SIGINT drains and ends the program, the second ends it at once; SIGHUP reads the configuration.
On Windows, CTRL+C and CTRL+BREAK drain and end, and no signal reads the configuration: a changed file does.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

_ENDING: Final = ("SIGTERM", "SIGINT") if sys.platform != "win32" else ("SIGTERM", "SIGINT", "SIGBREAK")


def stop_on_signals(hurry: Callable[[], None] | None = None, reload: Callable[[], None] | None = None) -> asyncio.Event:
    """Return an event that the first signal to end sets.

    The second signal calls `hurry`; the next one, or the second without `hurry`, ends the program as the system does.
    SIGHUP calls `reload`; if the terminal is gone, it is a signal to end.
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
            if sys.platform == "win32":
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            else:
                loop.remove_signal_handler(getattr(signal, name))

    def on_hangup() -> None:
        if on_terminal and not _on_terminal():
            stop()
        elif reload is not None:
            reload()

    if sys.platform == "win32":
        # The loop of Windows handles no signals; its wake-up lets Python do so at once.
        for name in _ENDING:
            signal.signal(getattr(signal, name), lambda *_: loop.call_soon_threadsafe(stop))
        return stopping
    for name in _ENDING:
        loop.add_signal_handler(getattr(signal, name), stop)
    if reload is not None:
        loop.add_signal_handler(signal.SIGHUP, on_hangup)
    return stopping


def _on_terminal() -> bool:
    """Return whether a standard stream is a terminal that still exists."""
    return any(map(os.isatty, (0, 1, 2)))
