"""Two replicas never have one lease: simulated with clocks that run apart, late and lost messages, stopped processes.

Each simulated replica does what `Leases` does, with the same rules: one statement at a time, and no answer is taken of
one that was given up. Time is that of the simulation.
"""

import heapq
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.replicas.group.lease_rules import RENEW_EVERY, Observation, OwnTime
from aggregator.storage.records import LeaseRecord
from tests.laws import examples

LEASE = 6.0
# One clock may be so much faster than another: a hundred times what clocks of computers differ by.
DRIFT = 0.02


def row_of(owner: str | None, generation: int, renewals: int = 0) -> LeaseRecord:
    return LeaseRecord("thing", owner, generation, renewals, 0.0)


@dataclass
class Replica:
    """A replica with a clock of its own. `until`: the moment of true time to which it is stopped."""

    name: str
    rate: float
    offset: float
    observation: Observation = field(default_factory=lambda: Observation(LEASE))
    own: OwnTime | None = None
    generation: int = 0
    until: float = 0.0
    statement: int = 0
    waits: bool = False
    gives_up: float = 0.0

    def clock(self, true: float) -> float:
        return true * self.rate + self.offset

    def good(self, true: float) -> bool:
        """Return True if the replica acts as the owner at this moment; one that is stopped does nothing."""
        return self.own is not None and true >= self.until and self.clock(true) < self.own.stops


class Simulation:
    """One lease, its row in the database, and the messages under way to it."""

    def __init__(self, seed: int, replicas: int) -> None:
        self.random = Random(seed)  # noqa: S311
        # Half of the networks are quick, so that moments close to each other are met; the others do their worst.
        self.delays = [0.0, 0.005, 0.01] if self.random.random() < 0.5 else [0.0, 0.01, 0.3, 2, 7, 15]
        self.lost = 0.02 if self.delays[-1] < 1 else 0.15
        self.row = row_of(None, 0)
        self.events: list[tuple[float, int, object]] = []
        self.order = count()
        self.now = 0.0
        self.away = 0.0
        self.taken = 0
        self.replicas = [
            Replica(f"r{n}", 1 + self.random.uniform(0, DRIFT), self.random.uniform(-300, 300)) for n in range(replicas)
        ]

    def at(self, when: float, do: object) -> None:
        heapq.heappush(self.events, (when, next(self.order), do))

    def run(self, until: float) -> None:
        for replica in self.replicas:
            self.at(self.random.random(), lambda replica=replica: self.tick(replica))
        self.at(0.0, self.disturb)
        while self.events and self.now < until:
            self.now, _, do = heapq.heappop(self.events)
            do()  # type: ignore[operator]
            owners = [one.name for one in self.replicas if one.good(self.now)]
            assert len(owners) <= 1, f"two owners at {self.now}: {owners}"

    def disturb(self) -> None:
        """Stop a replica for a while, or take the database away, again and again."""
        victim = self.random.choice(self.replicas)
        if self.random.random() < 0.5:
            victim.until = self.now + self.random.choice([0.5, 3, 5, 7, 60])
        elif self.random.random() < 0.5:
            self.away = self.now + self.random.choice([1, 4, 8, 20])
        elif victim.own is not None and victim.good(self.now):
            generation = victim.generation
            victim.own = None
            self.send(victim, lambda: self.release(victim, generation), lambda _: None)
        self.at(self.now + self.random.uniform(0, 10), self.disturb)

    def send(self, replica: Replica, ask: object, answered: object) -> None:
        """Send a statement to the database, and its answer back; each may take long or be lost."""
        there = self.now + self.random.choice(self.delays)
        replica.statement += 1
        replica.waits, replica.gives_up = True, self.now + LEASE / 2
        number = replica.statement

        def end(answer: object) -> None:
            if replica.statement == number:
                replica.waits = False
                self.awake(replica, lambda: answered(answer))  # type: ignore[operator]

        def arrive() -> None:
            if self.now < self.away:
                return
            answer = ask()  # type: ignore[operator]
            if self.random.random() >= self.lost:
                back = self.now + self.random.choice(self.delays)
                self.at(back, lambda: end(answer))

        self.at(there, arrive)

    def tick(self, replica: Replica) -> None:
        if self.now < replica.until:
            self.at(replica.until, lambda: self.tick(replica))
            return
        # Those that wait look more often than `Leases` does, to find the first moment at which they may take over.
        pause = RENEW_EVERY * LEASE / replica.rate if replica.own is not None else 0.05
        self.at(self.now + pause, lambda: self.tick(replica))
        if replica.waits and self.now < replica.gives_up:
            return
        sent = replica.clock(self.now)
        if replica.own is not None and sent >= replica.own.stops:
            replica.own = None
        if replica.own is not None:
            generation = replica.generation
            self.send(
                replica,
                lambda: self.renew(replica, generation),
                lambda good: self.renewed(replica, generation, sent, good),
            )
        else:
            self.send(replica, lambda: self.row, lambda row: self.read(replica, row))

    def renew(self, replica: Replica, generation: int) -> bool:
        if (self.row.owner, self.row.generation) != (replica.name, generation):
            return False
        self.row = replace(self.row, renewals=self.row.renewals + 1)
        return True

    def renewed(self, replica: Replica, generation: int, sent: float, good: bool) -> None:
        if replica.own is None or replica.generation != generation:
            return
        if good and replica.good(self.now):
            replica.own.renewed(sent)
        elif not good:
            replica.own = None

    def read(self, replica: Replica, row: LeaseRecord) -> None:
        if replica.own is not None:
            return
        replica.observation.saw(row, replica.clock(self.now))
        if replica.observation.may_take(replica.clock(self.now), replica.name):
            sent = replica.clock(self.now)
            self.send(replica, lambda: self.take(replica, row), lambda taken: self.took(replica, taken, sent))

    def take(self, replica: Replica, seen: LeaseRecord) -> int | None:
        if seen != self.row:
            return None
        self.row = row_of(replica.name, seen.generation + 1)
        self.taken += 1
        return self.row.generation

    def took(self, replica: Replica, generation: int | None, sent: float) -> None:
        if generation is not None and replica.own is None:
            replica.own, replica.generation = OwnTime(LEASE, sent), generation

    def release(self, replica: Replica, generation: int) -> None:
        if (self.row.owner, self.row.generation) == (replica.name, generation):
            self.row = replace(self.row, owner=None)

    def awake(self, replica: Replica, do: object) -> None:
        """Have a replica do something as soon as it runs."""
        if self.now < replica.until:
            self.at(replica.until, lambda: self.awake(replica, do))
        else:
            do()  # type: ignore[operator]


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_there_are_never_two_owners(seed: int, replicas: int) -> None:
    Simulation(seed, replicas).run(200)


def test_the_simulation_changes_owners_often() -> None:
    taken = 0
    for seed in range(20):
        simulation = Simulation(seed, 3)
        simulation.run(200)
        taken += simulation.taken
    assert taken > 100


def test_a_database_that_forgot_its_last_commits_gives_no_lease_away_at_once() -> None:
    observation = Observation(LEASE)
    observation.saw(row_of("owner", 7, 3), 100.0)
    observation.saw(row_of(None, 6, 9), 101.0)
    assert not observation.may_take(101.0, "me")
    assert observation.may_take(101.0 + LEASE, "me")
