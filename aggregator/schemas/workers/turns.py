"""A fair queue of checks that wait for a worker: servers in turn, and the agents of each server in turn."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

# How many checks may wait: of one server, of one agent, and in all.
OF_ONE: Final = 64
IN_ALL: Final = 1_024


class WorkerQueueFull(Exception):
    """The queue is full."""


@dataclass(eq=False, slots=True)
class QueuedCheck:
    """One check in the queue: the server of the schema, and the agent of the call."""

    server: str
    agent: str
    number: int = field(default=0)


class CheckQueue:
    """A fair queue. `places` checks may run at once, and of one server or one agent at most all but one of them."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._share = max(1, places - 1)
        self._waiting: list[QueuedCheck] = []
        self._running: set[QueuedCheck] = set()
        self._served: dict[tuple[str, str], int] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<Turns: {len(self._running)} of {self._places} taken, {len(self._waiting)} waiting>"

    def enqueue(self, server: str, agent: str) -> QueuedCheck:
        """Put one more check into the queue.

        Raises:
            WorkerQueueFull: the queue is full.
        """
        same_server = sum(turn.server == server for turn in self._waiting)
        same_agent = sum(turn.agent == agent for turn in self._waiting)
        if len(self._waiting) >= IN_ALL or same_server >= OF_ONE or same_agent >= OF_ONE:
            raise WorkerQueueFull
        self._count += 1
        turn = QueuedCheck(server, agent, self._count)
        self._waiting.append(turn)
        return turn

    def admit(self) -> list[QueuedCheck]:
        """Return the checks that may run now and could not before."""
        admitted: list[QueuedCheck] = []
        while len(self._running) < self._places:
            servers = Counter(turn.server for turn in self._running)
            agents = Counter(turn.agent for turn in self._running)
            able = [
                turn
                for turn in self._waiting
                if servers[turn.server] < self._share and agents[turn.agent] < self._share
            ]
            if not able:
                break
            turn = min(able, key=self._rank)
            self._waiting.remove(turn)
            self._running.add(turn)
            self._count += 1
            self._served["server", turn.server] = self._served["server " + turn.server, turn.agent] = self._count
            admitted.append(turn)
        return admitted

    def leave(self, turn: QueuedCheck) -> None:
        """Take out a check that is over, or is not wanted any more."""
        self._running.discard(turn)
        if turn in self._waiting:
            self._waiting.remove(turn)
        if not self._waiting:
            self._served.clear()

    def _rank(self, turn: QueuedCheck) -> tuple[int, int, int]:
        """Return the sort key by which the one served longest ago comes first."""
        of_server = self._served.get(("server", turn.server), 0)
        return of_server, self._served.get(("server " + turn.server, turn.agent), 0), turn.number
