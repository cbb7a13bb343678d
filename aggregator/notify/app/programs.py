"""The running of a program for a notice: without a shell, in a process group of its own, within its time."""

import asyncio

from aggregator.domain.errors import UpstreamError, UpstreamRefused
from aggregator.notify.config import ReceiverConfig
from aggregator.notify.send.delivery import DeliveryAnswer
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper


class NoticePrograms:
    """A `RunProgram`. What a program writes to stderr is logged as `server.notify.NAME`; its stdout is dropped.

    `reaper` ends the programs with ours.
    """

    def __init__(self, reaper: Reaper) -> None:
        self._reaper = reaper

    async def __call__(self, receiver: ReceiverConfig, given: bytes, /) -> DeliveryAnswer:
        """Run the program of a receiver, which reads `given`; a program that does not end is ended with its group."""
        assert receiver.command is not None
        name = f"notify.{receiver.name}"
        try:
            async with (
                asyncio.timeout(receiver.timeout),
                run_child(
                    name, receiver.command, receiver.args, receiver.env, None, None, self._reaper, close_grace=0.0
                ) as child,
            ):
                child.write(given)
                child.close_stdin()
                # Shielded: what waits here may be cancelled, and the end of the child is still to be seen.
                code = await asyncio.shield(child.exited)
        except TimeoutError:
            return DeliveryAnswer(False, f"it took more than {receiver.timeout:g} s and was ended", again=True)
        except UpstreamError as error:
            said = str(error).removeprefix(f"{name}: ")
            return DeliveryAnswer(False, said, again=not isinstance(error, UpstreamRefused))
        ended = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return DeliveryAnswer(code == 0, ended, again=code != 0)
