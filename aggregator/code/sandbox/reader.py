"""A process that reads one long program, so that the gateway's event loop does not wait for it.

Run as `python -m aggregator.code.sandbox.reader`, by `reading` alone: the program is its stdin, the answer its stdout.
"""

import os
import sys
from contextlib import suppress
from typing import Final

from aggregator.code.sandbox.reading import MOST_WORK, read_as_json

if sys.platform != "win32":
    import resource

_NICENESS: Final = 10
_MEMORY: Final = 2 * 2**30


def main() -> None:
    """Read the program and write the answer. The system ends a process that takes too much time or memory."""
    if sys.platform != "win32":
        os.nice(_NICENESS)
        for kind, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, MOST_WORK), (resource.RLIMIT_CORE, 0)):
            with suppress(OSError, ValueError):
                resource.setrlimit(kind, (most, most))
    written = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    sys.stdout.write(read_as_json(written))


if __name__ == "__main__":
    main()
