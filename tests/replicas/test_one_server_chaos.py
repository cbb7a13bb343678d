"""Calls of a server that runs once, while its owners are killed and ended: each is made once at most.

The long form, over PostgreSQL and with more kinds of faults: `python -m tests.replicas.chaos`.
"""

import asyncio
import random
import signal
from collections import Counter
from pathlib import Path

import aiohttp

from tests.replicas.group import GroupMember
from tests.replicas.test_one_server import Lone, call, lone

SEED = 16
# Without SIGSTOP: a process that is stopped in the middle of a write keeps a SQLite file locked for all others.
FAULTS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)
WORKERS = 4


async def test_calls_are_made_once_at_most_however_ends_the_owner(tmp_path: Path) -> None:
    chance = random.Random(SEED)  # noqa: S311
    answers: dict[str, str] = {}
    over = asyncio.Event()

    async def work(found: Lone, worker: int) -> None:
        number = 0
        while not over.is_set():
            name = f"{worker}-{number}"
            number += 1
            member = chance.choice(found.group.members)
            try:
                answers[name] = await call(member, name)
            except (aiohttp.ClientError, TimeoutError, KeyError):
                # Its replica was killed, stopped, or is ending.
                await asyncio.sleep(0.05)

    async with lone(tmp_path, count=2) as found, asyncio.TaskGroup() as tasks:
        await found.owner()
        for worker in range(WORKERS):
            tasks.create_task(work(found, worker))
        for fault in FAULTS:
            owner = await found.owner()
            await _suffer(found, owner, fault)
        last = await call(await found.owner(), "last")
        over.set()
    made = found.made()
    assert last.endswith("last")
    assert [name for name, count in made.items() if count > 1] == []
    good = Counter(name for name, said in answers.items() if said.endswith(f" {name}"))
    assert len(good) > len(FAULTS)
    assert [name for name in good if made[name] != 1] == []
    assert len(found.starts()) > len(FAULTS)


async def _suffer(found: Lone, owner: GroupMember, fault: signal.Signals) -> None:
    """Have the owner suffer a fault, wait until another one runs the server, and have two replicas again."""
    starts = len(found.starts())
    owner.send(fault)
    found.group.members.remove(owner)
    await found.owner()
    assert len(found.starts()) > starts
    await owner.ended()
    await found.group.add()
