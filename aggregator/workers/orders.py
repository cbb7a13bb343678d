"""The messages between the supervisor and a worker: lines of JSON over a pair of sockets.

Rule: each message fits one packet of the pair, so that a line comes whole, with its socket.
"""

import json
import socket
import sys
from collections.abc import Iterator
from typing import Any, Final

# From a worker: it listens (the first one, with the socket), it serves, every server was tried once.
LISTENS: Final = "listens"
SERVES: Final = "serves"
SETTLED: Final = "settled"
# To a worker: read the configuration again, hand over and end.
RELOAD: Final = "reload"
HAND_OVER: Final = "hand over"

# The variable with the inheritance of a worker: the name of all workers, its number and line, and descriptors.
VARIABLE: Final = "AGGREGATOR_WORKER"
_MOST: Final = 16 * 1024


class OrderReader:
    """The lines that come over one socket."""

    def __init__(self) -> None:
        self._begun = b""

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the lines that these bytes complete."""
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def send(to: socket.socket, word: str, listening: socket.socket | None = None, **more: Any) -> None:
    """Send one line, with a socket.

    Raises:
        OSError: the other process has ended.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    line = json.dumps({"is": word, **more}).encode() + b"\n"
    if listening is None:
        to.sendall(line)
    else:
        socket.send_fds(to, [line], [listening.fileno()])


def receive(end: socket.socket) -> tuple[bytes, list[int]]:
    """Return the next bytes, none at the end, and the descriptors that came with them.

    Raises:
        OSError: nothing can be read now, or the other process has ended.
    """
    if sys.platform == "win32":
        raise NotImplementedError
    data, descriptors, _, _ = socket.recv_fds(end, _MOST, 4)
    return data, descriptors
