"""A reference model of flow states, written from the description of them and not from the code.

It keeps every label that any call brought, with its time, and looks through all of them for each question.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

DAY: Final = 86_400.0
TRACE: Final = DAY
SESSION: Final = 8 * DAY
# A row in a database lasts longer by this part than the label does, so that it is not written with each call.
BEYOND: Final = 0.1


class Place(NamedTuple):
    """A conversation: of an agent with a key, in a session, a trace, or neither."""

    agent: str
    key: str
    kind: Literal["session", "trace", "key"]
    name: str = ""


class RecordedLabels(NamedTuple):
    """A label that a call brought; `number` orders calls of one time."""

    place: Place
    label: str
    at: float
    number: int


@dataclass
class Reference:
    """The record of everything that was read since the last clear of each agent.

    The labels of a conversation are bounded on both sides: those that surely count, and those that may, where a process
    knows of another only by rows that last a little longer.
    """

    decay: float
    brought: list[RecordedLabels] = field(default_factory=list)
    # When each process first heard of a conversation.
    heard: dict[tuple[int, Place], float] = field(default_factory=dict)
    numbers: int = 0
    # The sessions that began, in a process, with a call before a list.
    taking: set[tuple[int, Place]] = field(default_factory=set)
    # Where several processes serve, when such a session did so first, which all of them know.
    shared: bool = False
    taken: dict[Place, float] = field(default_factory=dict)

    def hear(self, process: int, place: Place, now: float, *, takes_over: bool = False) -> None:
        """Note that a process was asked about a conversation, which is told once whether it takes over."""
        if (process, place) not in self.heard:
            self.heard[process, place] = now
            if takes_over:
                self.taking.add((process, place))
                if self.shared:
                    self.taken.setdefault(place, now)

    def bring(self, place: Place, labels: frozenset[str], now: float) -> None:
        """Note that a result came back."""
        self.numbers += 1
        self.brought += [RecordedLabels(place, label, now, self.numbers) for label in labels]

    def clear(self, agent: str) -> None:
        """Note that all of an agent is cleared, which every process heeds."""
        self.brought = [one for one in self.brought if one.place.agent != agent]
        self.taken = {place: at for place, at in self.taken.items() if place.agent != agent}

    def restart(self, process: int) -> None:
        """Note that a process begins anew, with what is in the database."""
        self.heard = {key: at for key, at in self.heard.items() if key[0] != process}
        self.taking = {key for key in self.taking if key[0] != process}

    def surely(self, process: int, place: Place, now: float) -> frozenset[str]:
        """Return the labels that count, by the times of the calls alone."""
        return self._state(process, place, now, 0.0)

    def perhaps(self, process: int, place: Place, now: float) -> frozenset[str]:
        """Return the labels that may count, where rows last longer."""
        return self._state(process, place, now, BEYOND)

    def _state(self, process: int, place: Place, now: float, beyond: float) -> frozenset[str]:
        lasts = {"session": SESSION, "trace": TRACE, "key": self.decay}[place.kind] * (1 + beyond)
        own = {one.label for one in self.brought if one.place == place and place.kind != "key" and one.at + lasts > now}
        if place.kind == "session":
            # A session that is in memory forgets nothing, and one that is not may have.
            if beyond:
                own = {one.label for one in self.brought if one.place == place}
            if (process, place) not in self.taking and place not in self.taken:
                return frozenset(own)
        if place.kind == "key":
            return frozenset(label for label, _ in self._of_key(place, now, beyond))
        opened = self.heard.get((process, place), now)
        if place in self.taken:
            # By the first call at any process; each may know of an earlier one that was cleared.
            opened = (max if beyond else min)(opened, self.taken[place])
        return frozenset(own | {label for label, since in self._of_key(place, now, beyond) if since <= opened})

    def _of_key(self, place: Place, now: float, beyond: float) -> list[tuple[str, float]]:
        """Return the labels that the key knows, and since when without a gap."""
        found: dict[str, tuple[float, float]] = {}
        lasts = self.decay * (1 + beyond)
        for one in self.brought:
            if (one.place.agent, one.place.key) == (place.agent, place.key):
                since, ends = found.get(one.label, (one.at, one.at))
                found[one.label] = (since if ends > one.at or since == one.at else one.at, one.at + lasts)
        return [(label, since) for label, (since, ends) in found.items() if ends > now]
