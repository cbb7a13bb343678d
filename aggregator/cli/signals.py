"""SIGTERM and SIGINT as one event."""

import asyncio
import signal
from contextlib import suppress


def stop_on_signals() -> asyncio.Event:
    """An event that the first signal sets; a second one ends the program as signals do."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopping.set()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stop)
    return stopping
