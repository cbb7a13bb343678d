"""Start aggregators with their modules already loaded: `python -m tests.end_to_end.fork_server`, ordered over stdin.

Each program is forked from this process and gets its own pipes, folder and environment. The only difference from a
fresh interpreter is that nothing has to be imported, which is most of what a short command costs.
"""

import gc
import json
import os
import selectors
import socket
import sys
from importlib import import_module
from typing import Any, Final

LOADED: Final = (
    "aggregator.cli.call",
    "aggregator.cli.check",
    "aggregator.cli.commands",
    "aggregator.cli.serve",
    "aggregator.cli.stdio",
    "aggregator.cli.stdio_session",
    "aggregator.cli.tools",
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
    for name in LOADED:
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
    import_module("aggregator.cli").main()


if __name__ == "__main__":
    main()
