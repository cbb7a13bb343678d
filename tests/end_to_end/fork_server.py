"""Start aggregators with their modules already loaded: `python -m tests.end_to_end.fork_server`, ordered over stdin.

Each program is forked from this process and gets its own pipes, folder and environment. The only difference from a
fresh interpreter is that nothing has to be imported, and that a program which exits does not take its modules apart:
both are nine tenths of what a short command costs.
"""

import atexit
import gc
import json
import os
import selectors
import socket
import sys
import threading
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Final

from aggregator import cli

# What commands import when they run, besides the modules of `aggregator.cli`.
LOADED: Final = (
    "aggregator.gateway.meta.registry",
    "aggregator.schemas.checks",
    "aggregator.storage.engine.engine",
    "aggregator.storage.opening",
    "aggregator.upstream.transports.http",
    "aggregator.upstream.transports.sse",
    "aggregator.upstream.transports.stdio",
    "uvicorn",
    "uvloop",
)
# In this order a request carries them: the program's stdin, stdout and stderr, and where its end is told.
_DESCRIPTORS: Final = 4
_LONGEST: Final = 2**20


def main() -> None:
    """Fork a program for each order until stdin ends; in the child, become that program."""
    for name in (*LOADED, *(module.name for module in walk_packages(cli.__path__, "aggregator.cli."))):
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=0) as orders, selectors.DefaultSelector() as waiting:
        waiting.register(orders, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.data is not None:
                    waiting.unregister(key.fd)
                    _tell_end(key.fd, *key.data)
                    continue
                message, descriptors, _, _ = socket.recv_fds(orders, _LONGEST, _DESCRIPTORS)
                if not message:
                    return
                alive, held = os.pipe()
                program = os.fork()
                if program == 0:
                    waiting.close()
                    os.close(alive)
                    orders.detach()
                    return _become(json.loads(message), descriptors)
                # Its end closes the pipe it holds.
                os.close(held)
                *pipes, told = descriptors
                for descriptor in pipes:
                    os.close(descriptor)
                os.write(told, b"%d\n" % program)
                waiting.register(alive, selectors.EVENT_READ, (program, told))


def _tell_end(alive: int, program: int, told: int) -> None:
    _, status = os.waitpid(program, 0)
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
    os.close(told)
    os.close(alive)


def _become(order: dict[str, Any], descriptors: list[int]) -> None:
    *pipes, told = descriptors
    os.close(told)
    for own, given in enumerate(pipes):
        os.dup2(given, own)
        os.close(given)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["aggregator", *order["args"]]
    try:
        cli.main()
    except SystemExit as ended:
        _end(ended)
        raise


def _end(ended: SystemExit) -> None:
    """End the process as an interpreter does, except for taking a thousand modules apart.

    Return if the interpreter has something to say at the end.
    """
    code = ended.code or 0
    if not isinstance(code, int) or sys.stdout is None or sys.stderr is None:
        return
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # What nothing holds any more and was not closed is reported now.
    gc.collect()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    main()
