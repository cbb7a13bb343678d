"""The first request of a stdio host, answered before most of the program is loaded.

Hosts give up on servers that take long to answer `initialize`. So what a host has sent by then is looked at once, and
an `initialize` or `server/discover` at its beginning is answered here. The frontend gets the request all the same, once
there is one, and only its answer is left out.
"""

import os
import select
import sys
from contextlib import suppress
from typing import BinaryIO, Final, NamedTuple

from aggregator.domain.errors import HostError
from aggregator.gateway.handshake import MakeInstructions, first_answer
from aggregator.wire.codec import decode_from_host, encode
from aggregator.wire.message import Incoming, incoming

_READ_SIZE: Final = 64 * 1024


class FirstInput(NamedTuple):
    """The beginning of stdin: the request that was answered, if one was, and the bytes after it."""

    answered: Incoming | None = None
    unread: bytes = b""


def answer_first_request(stdin: BinaryIO, stdout: BinaryIO, most: int, instructions: MakeInstructions) -> FirstInput:
    """Answer the first request, if it is there already. Waits for nothing.

    most: bytes that a message may have.
    """
    data = _read_present(stdin)
    line, end, rest = data.partition(b"\n")
    if not end or len(line) > most:
        return FirstInput(None, data)
    try:
        request = incoming(decode_from_host(line))
        if request is None or request.id is None:
            return FirstInput(None, data)
        result = first_answer(request.method, request.params, instructions)
    except (ValueError, HostError):
        # The frontend refuses it.
        return FirstInput(None, data)
    if result is None:
        return FirstInput(None, data)
    # A host that is gone is noticed by the frontend.
    with suppress(OSError):
        stdout.write(encode({"jsonrpc": "2.0", "id": request.id, "result": result}) + b"\n")
    return FirstInput(request, rest)


def _read_present(stdin: BinaryIO) -> bytes:
    """Return the bytes that can be read at once; none on Windows, where a pipe cannot be polled."""
    if sys.platform == "win32" or not select.select([stdin], [], [], 0)[0]:
        return b""
    return os.read(stdin.fileno(), _READ_SIZE)
