"""One approval, several processes: exactly one uses it."""

import asyncio
from contextlib import ExitStack

from aggregator.storage.approvals import people_of
from aggregator.storage.opening import Database
from tests.storage.processes import other_process

ROUNDS = 25


async def test_exactly_one_process_uses_an_approval(url: str, database: Database) -> None:
    queue = database.approvals
    ids = []
    for number in range(ROUNDS):
        asked = await queue.ask("bot", "a.b", str(number), "text", expires=1e12, now=1.0)
        ids.append((await queue.approve(asked.id, "ada", now=2.0)).id)
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
    await queue.approve(asked.id, "ada", now=2.0)
    wins = await asyncio.gather(*(queue.consume(asked.id, "bot", "a.b", "d", now=3.0) for _ in range(20)))
    assert sum(wins) == 1


async def test_two_processes_count_a_yes_that_holds_for_a_time(url: str, database: Database) -> None:
    """B6: every use is counted once, and none is after it was taken back."""
    queue = database.approvals
    asked = await queue.ask("bot", "a.b", "d", "text", expires=1e12, now=1.0)
    await queue.approve(asked.id, "ada", valid_until=1e11, now=2.0)
    script = f"""
        async with open_database(url) as database:
            say("ready")
            hear()
            for _ in range({ROUNDS}):
                assert await database.approvals.consume("{asked.id}", "bot", "a.b", "d", now=3.0)
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(2)]
        for process in processes:
            assert await asyncio.to_thread(process.read) == "ready"
        for process in processes:
            process.write()
        await asyncio.gather(*(asyncio.to_thread(process.done) for process in processes))
    found = await queue.get(asked.id, now=4.0)
    assert (found.status, found.uses, found.used) == ("approved", 2 * ROUNDS, 3.0)
    await queue.deny(asked.id, "ada", now=5.0)
    assert not await queue.consume(asked.id, "bot", "a.b", "d", now=6.0)


async def test_two_people_in_two_processes(url: str, database: Database) -> None:
    """B6: both count, one person never twice, and a no among them ends it."""
    queue = database.approvals

    async def ask(number: int) -> str:
        return (await queue.ask("bot", "a.b", str(number), "text", needed=2, expires=1e12, now=1.0)).id

    ids = [await ask(number) for number in range(ROUNDS)]
    script = """
        from aggregator.domain.errors import OperatorError
        async with open_database(url) as database:
            say("ready")
            name, *ids = hear().split()
            for id in ids:
                for _ in range(2):
                    try:
                        await database.approvals.approve(id, name, now=2.0)
                    except OperatorError as error:
                        say(type(error).__name__)
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(2)]
        for process in processes:
            assert await asyncio.to_thread(process.read) == "ready"
        for name, process in zip(("ada", "cli:bob"), processes, strict=True):
            process.write(" ".join([name, *ids]))
        said = await asyncio.gather(*(asyncio.to_thread(process.done) for process in processes))
    assert len("".join(said).split()) == 2 * ROUNDS
    for id in ids:
        found = await queue.get(id, now=3.0)
        assert found.status == "approved"
        assert sorted(people_of(found)) == ["ada", "cli:bob"]
