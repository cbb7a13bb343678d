"""Random sequences of readings, questions, clears, restarts and time, in several processes, beside the reference.

`python -m tests.flow.sequences 100000` takes so many steps, in a few minutes; tests/flow/test_sequences.py takes some.
"""

import asyncio
import random
import sys
import tempfile
from contextlib import AsyncExitStack
from typing import Final, Literal

from aggregator.flow.gateway.scopes import ScopeKey, ScopeOwner
from aggregator.flow.gateway.states import FlowStates
from aggregator.storage.lazy_database import LazyDatabase
from tests.flow.flow_harness import MovedClock
from tests.flow.reference import Place, Reference

DECAY: Final = 600.0
LABELS: Final = ("untrusted", "private", "outward", "other")
_AGENTS: Final = ("ada", "bob")
_KINDS: Final[tuple[Literal["session", "trace", "key"], ...]] = ("session", "trace", "key", "trace")


class Sequence:
    """One sequence over `processes` with one database, or in one process without. `checked` are compared states."""

    def __init__(self, storage: str | None, processes: int, seed: int) -> None:
        self._storage = storage
        self._count = processes
        self._random = random.Random(seed)  # noqa: S311 - a sequence that can be repeated
        self._clock = MovedClock()
        self._reference = Reference(DECAY, shared=storage is not None and processes > 1)
        self._states: list[FlowStates] = []
        self._stores: list[LazyDatabase] = []
        self._stacks: list[AsyncExitStack] = []
        self.checked = self.refusing = 0

    async def run(self, steps: int) -> None:
        """Take so many steps.

        Raises:
            AssertionError: a state is not that of the reference.
        """
        for number in range(self._count):
            await self._open(number)
        try:
            for _ in range(steps):
                await self._step()
        finally:
            for stack in self._stacks:
                await stack.aclose()

    async def _open(self, number: int) -> None:
        stack, store = AsyncExitStack(), None
        if self._storage is not None:
            store = LazyDatabase(self._storage, None)
            await stack.enter_async_context(store)
            self._stores[number:number] = [store]
        states = FlowStates(store, self._clock, lambda: self._count > 1)
        self._states[number:number], self._stacks[number:number] = [states], [stack]

    async def _step(self) -> None:
        dice, process = self._random.random(), self._random.randrange(self._count)
        place = self._place()
        key = ScopeKey(ScopeOwner(place.agent, place.key, None), place.kind, place.name)
        states, now = self._states[process], self._clock()
        # No two events at one time: which was before the other is no question then.
        self._clock.time = now = now + 0.001
        if dice < 0.35:
            labels = frozenset(self._random.sample(LABELS, self._random.randrange(1, 3)))
            self._begin(process, key, place)
            await states.state(key, "web.fetch", decides=False)
            if not states.brings_nothing_new(key, labels, "web.fetch", "t", DECAY):
                brought = await states.bring(key, labels, "web.fetch", "t", DECAY)
                assert brought.committed
            self._reference.bring(place, labels, now)
        elif dice < 0.85:
            await self._check(process, key, place)
        elif dice < 0.95:
            # Mostly moments, and now and then so long that something ends.
            self._clock.time += self._random.choice((1.0, 30.0, 200.0, DECAY / 2, DECAY * 1.2, 30_000.0))
        elif dice < 0.97 and self._storage is not None:
            await self._clear(place.agent)
        elif dice < 0.98 and self._storage is not None:
            await self._restart(process)

    async def _check(self, process: int, key: ScopeKey, place: Place) -> None:
        self._begin(process, key, place)
        found = set(await self._states[process].state(key, "mail.send", decides=True))
        # Calls without a task go by facts that are kept from one to the next.
        known = self._states[process].known_at_once(key, decides=True)
        assert known is None or known.labels == found, (place, known, found)
        surely = self._reference.surely(process, place, self._clock())
        perhaps = self._reference.perhaps(process, place, self._clock())
        if self._storage is None:
            # In one process that forgets nothing, times are exact but for those of sessions, which end elsewhere.
            own = {one.label for one in self._reference.brought if one.place == place}
            perhaps = surely if place.kind != "session" else surely | own
        assert surely <= found <= perhaps, (place, found, surely, perhaps)
        self.checked += 1
        self.refusing += bool(found)

    def _begin(self, process: int, key: ScopeKey, place: Place) -> None:
        """Begin a session that the process has not heard of, with a list or without one."""
        takes_over = self._random.random() < 0.5
        if place.kind == "session":
            self._states[process].scopes.begin(key, self._clock(), takes_over=takes_over)
        self._reference.hear(process, place, self._clock(), takes_over=takes_over and place.kind == "session")

    async def _clear(self, agent: str) -> None:
        labels = await self._stores[0].flow_labels()
        assert labels is not None
        await labels.clear(agent, None, now=self._clock())
        self._reference.clear(agent)
        for states in self._states:
            await states.heed_clears()

    async def _restart(self, process: int) -> None:
        stack = self._stacks.pop(process)
        self._states.pop(process)
        self._stores.pop(process)
        await stack.aclose()
        await self._open(process)
        self._reference.restart(process)

    def _place(self) -> Place:
        agent, key = self._random.choice(_AGENTS), self._random.choice(("k1", "k2"))
        kind = self._random.choice(_KINDS)
        # New traces come up all the time; sessions and keys are few.
        names = (4, 40) if kind == "session" else (30, 30)
        name = "" if kind == "key" else str(self._random.randrange(self._random.choice(names)))
        return Place(agent, key, kind, name)


async def _long(steps: int) -> None:
    """Take so many steps in sequences of 10,000 each, over one to three processes, and print what was compared."""
    done = checked = refusing = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(max(1, steps // 10_000)):
            sequence = Sequence(f"sqlite+aiosqlite:///{folder}/{seed}.db", 1 + seed % 3, seed)
            await sequence.run(min(steps, 10_000))
            done, checked, refusing = done + 10_000, checked + sequence.checked, refusing + sequence.refusing
            print(f"{done:,} steps: {checked:,} states compared, {refusing:,} with labels", flush=True)


if __name__ == "__main__":
    asyncio.run(_long(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
