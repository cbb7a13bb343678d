"""What belongs to the whole process, and is another way for as long as anybody needs it so."""

from collections.abc import Callable
from threading import Lock


class Refcounted:
    """`change` makes it so and returns what undoes that: the first to enter does it, the last to leave undoes it."""

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        self._change = change
        self._lock = Lock()
        self._inside = 0

    def enter(self) -> None:
        """From now on."""
        with self._lock:
            if not self._inside:
                self._undo = self._change()
            self._inside += 1

    def leave(self) -> None:
        """No longer for this one; to be called once for each `enter`."""
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._undo()
