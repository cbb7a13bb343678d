"""A program with all that it starts, as a job object; Windows only.

Rule 1: the program is started suspended, and goes on once it is in the job: what it starts is in the job too.
Rule 2: this process alone has the job open, and the system ends all in it once nothing has it open: also after a kill.
"""

from aggregator.system import job_kernel

# Creation flags of a program: suspended, and without a window of its own or a share in our console, whose CTRL+C
# would reach it before the gateway has answered.
CREATE_SUSPENDED = 0x0000_0004
CREATE_NO_WINDOW = 0x0800_0000
FLAGS = CREATE_SUSPENDED | CREATE_NO_WINDOW


class Job:
    """The job of a program that was started with `FLAGS`.

    Raises:
        OSError: the system has no job for it. It is still suspended then: kill it.
    """

    __slots__ = ("_handle",)

    def __init__(self, pid: int) -> None:
        self._handle: int | None = job_kernel.create_job()
        try:
            job_kernel.assign(self._handle, pid)
            job_kernel.resume(pid)
        except OSError:
            self.close()
            raise

    def ask_to_end(self) -> None:
        """End every process at once: no signal reaches a program without a console."""
        self.kill()

    def kill(self) -> None:
        """End every process at once."""
        if self._handle is not None:
            job_kernel.terminate(self._handle)

    def close(self) -> None:
        """Close the job: the system then ends its remaining processes."""
        if self._handle is not None:
            job_kernel.close(self._handle)
            self._handle = None
