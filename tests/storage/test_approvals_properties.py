"""The queue of approvals against a model of it, whatever is asked, answered and used in whichever order."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.errors import OperatorError
from aggregator.storage.approvals import DENIED_FOR, Approvals, people_of, same_person
from aggregator.storage.database import open_database
from tests.laws import examples

EXPIRES: Final = 500.0
PEOPLE: Final = ["ada", "cli:ada", "bob", "Bob", "eve"]
DIGESTS: Final = ["d1", "d2"]

asks = st.tuples(st.just("ask"), st.sampled_from(DIGESTS), st.integers(1, 3))
yeses = st.tuples(
    st.just("approve"),
    st.sampled_from(DIGESTS),
    st.tuples(st.sampled_from(PEOPLE), st.sampled_from([None, 60.0, 900.0])),
)
noes = st.tuples(st.just("deny"), st.sampled_from(DIGESTS), st.sampled_from(PEOPLE))
uses = st.tuples(st.just("use"), st.sampled_from(DIGESTS), st.integers(1, 3))
waits = st.tuples(st.just("wait"), st.just(""), st.sampled_from([1.0, 100.0, DENIED_FOR]))
steps = st.lists(st.one_of(asks, asks, yeses, yeses, yeses, noes, uses, uses, waits), max_size=25)


class ModelQueue:
    """What the queue of approvals has to be: the newest entry of each digest, and who said what to it."""

    def __init__(self, queue: Approvals) -> None:
        self.queue = queue
        self.now = 1.0
        self.ids: dict[str, str] = {}
        self.agreed: dict[str, list[str]] = {}
        self.let_through: dict[str, int] = {}

    async def ask(self, digest: str, needed: int) -> None:
        answer = await self.queue.find_answer("bot", "a.b", digest, needed=needed, now=self.now)
        if answer is None:
            expires = self.now + EXPIRES
            asked = await self.queue.ask("bot", "a.b", digest, "t", needed=needed, expires=expires, now=self.now)
            assert asked.needed >= needed
            self.ids[digest] = asked.id

    async def approve(self, digest: str, said: tuple[str, float | None]) -> None:
        id, (by, seconds) = self.ids.get(digest, "apr_none"), said
        before = self.agreed.setdefault(id, [])
        until = None if seconds is None else self.now + seconds
        try:
            found = await self.queue.approve(id, by, valid_until=until, now=self.now)
        except OperatorError:
            return
        assert not any(same_person(by, name) for name in before)
        before.append(by)
        assert list(people_of(found)) == before
        assert (found.status == "approved") == (len(before) >= found.needed)

    async def deny(self, digest: str, by: str) -> None:
        id = self.ids.get(digest, "apr_none")
        try:
            assert (await self.queue.deny(id, by, now=self.now)).status == "denied"
        except OperatorError:
            return
        for _ in range(2):
            assert not await self.queue.consume(id, "bot", "a.b", digest, now=self.now)

    async def use(self, digest: str, needed: int) -> None:
        answer = await self.queue.find_answer("bot", "a.b", digest, needed=needed, now=self.now)
        if answer is None or answer.status == "denied":
            return
        assert len(self.agreed[answer.id]) >= max(needed, answer.needed)
        assert answer.valid_until is None or answer.valid_until > self.now
        assert await self.queue.consume(answer.id, "bot", "a.b", digest, needed=needed, now=self.now)
        self.let_through[answer.id] = self.let_through.get(answer.id, 0) + 1
        found = await self.queue.get(answer.id, now=self.now)
        assert found.uses == self.let_through[answer.id]
        if answer.valid_until is None:
            assert (found.status, found.uses) == ("used", 1)
            assert not await self.queue.consume(answer.id, "bot", "a.b", digest, needed=needed, now=self.now)

    async def wait(self, digest: str, seconds: float) -> None:
        self.now += seconds


@settings(max_examples=examples(40), deadline=None)
@given(steps)
def test_nothing_gets_through_without_the_people_it_needs(taken: list[tuple[str, str, object]]) -> None:
    """B6: as many different people as the call needs now, each once; one call for a yes that counts once; none after
    a no or the end of the time."""

    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_database(f"sqlite+aiosqlite:///{Path(folder) / 'q.db'}") as database:
                model = ModelQueue(database.approvals)
                for name, digest, given_with_it in taken:
                    model.now += 1.0
                    await getattr(model, name)(digest, given_with_it)

    asyncio.run(run())
