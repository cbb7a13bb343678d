"""One approval, several processes: exactly one uses it."""

import asyncio
from contextlib import ExitStack

from aggregator.storage.opening import Database
from tests.storage.processes import other_process

ROUNDS = 25


async def test_exactly_one_process_uses_an_approval(url: str, database: Database) -> None:
    queue = database.approvals
    ids = []
    for number in range(ROUNDS):
        asked = await queue.ask("bot", "a.b", str(number), "text", expires=1e12, now=1.0)
        ids.append((await queue.grant(asked.id, "ada", now=2.0)).id)
    script = f"""
        async with open_database(url) as database:
            say("ready")
            ids = hear().split()
            async def use(number, id):
                return await database.approvals.consume(id, "bot", "a.b", str(number), now=3.0)
            for number, id in enumerate(ids):
                say(*[int(won) for won in await asyncio.gather(use(number, id), use(number, id))])
            assert len(ids) == {ROUNDS}
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(2)]
        for process in processes:
            assert await asyncio.to_thread(process.read) == "ready"
        for process in processes:
            process.write(" ".join(ids))
        said = await asyncio.gather(*(asyncio.to_thread(process.done) for process in processes))
    wins = [[sum(map(int, line.split())) for line in text.splitlines()] for text in said]
    assert [first + second for first, second in zip(*wins, strict=True)] == [1] * ROUNDS


async def test_many_tasks_of_one_process(database: Database) -> None:
    queue = database.approvals
    asked = await queue.ask("bot", "a.b", "d", "text", expires=9.0, now=1.0)
    again = await asyncio.gather(*(queue.ask("bot", "a.b", "d", "x", expires=9.0, now=1.0) for _ in range(10)))
    assert {found.id for found in again} == {asked.id}
    await queue.grant(asked.id, "ada", now=2.0)
    wins = await asyncio.gather(*(queue.consume(asked.id, "bot", "a.b", "d", now=3.0) for _ in range(20)))
    assert sum(wins) == 1
