"""A pipe that notes whether its descriptor was closed behind its back."""

import io
import os


class WatchedPipe(io.FileIO):
    """One end of a pipe. `lost`: its descriptor was closed by another owner, so `close` may hit a file of others."""

    lost = False

    def close(self) -> None:
        """Close it, with a look at the descriptor before."""
        if not self.closed:
            try:
                os.fstat(self.fileno())
            except OSError:
                self.lost = True
        super().close()
