"""Kept results: whole or not at all, within bounds, for their owner, until they expire; on either kind of store."""

import asyncio

import pytest

from aggregator.storage.opening import Database

NOW = 1_000_000.0


def id_of(number: int) -> str:
    return f"{number:064x}"


async def add(
    database: Database, number: int, *parts: bytes, owner: str = "a" * 64, at: float = 0.0, most: int = 4000
) -> bool:
    """Add a result that expires 100 seconds later."""
    now = NOW + at
    return await database.results.add(id_of(number), owner, parts, now=now, expires=now + 100.0, max_bytes=most)


async def there(database: Database, *numbers: int, owner: str = "a" * 64) -> list[int]:
    found = [await database.results.parts(id_of(number), owner, now=NOW + 50.0) for number in numbers]
    return [number for number, parts in zip(numbers, found, strict=True) if parts is not None]


async def test_parts_come_back_in_order_for_their_owner_until_they_expire(database: Database) -> None:
    parts = [bytes([number]) * 3 for number in range(20)]
    assert await add(database, 1, *parts)
    results = database.results
    assert await results.parts(id_of(1), "a" * 64, now=NOW) == parts
    assert await results.parts(id_of(1), "b" * 64, now=NOW) is None
    assert await results.parts(id_of(2), "a" * 64, now=NOW) is None
    assert await results.parts(id_of(1), "a" * 64, now=NOW + 100.0) is None


async def test_an_owner_has_a_quarter_and_the_oldest_make_room(database: Database) -> None:
    """Of 4,000 bytes: three of 300 fit, and what takes more than 1,000 is not kept at all."""
    for number in range(1, 6):
        assert await add(database, number, b"x" * 300, at=number)
    assert await there(database, 1, 2, 3, 4, 5) == [3, 4, 5]
    assert not await add(database, 6, b"x" * 1001)
    assert await there(database, 3, 4, 5, 6) == [3, 4, 5]


async def test_all_together_stay_within_the_bound(database: Database) -> None:
    """However many owners there are."""
    for number in range(1, 11):
        assert await add(database, number, b"x" * 900, owner=id_of(number), at=number)
    left = [number for number in range(1, 11) if await there(database, number, owner=id_of(number))]
    assert left == [7, 8, 9, 10]
    # A smaller bound after a reload takes hold with the next result.
    assert await add(database, 11, b"x" * 200, owner=id_of(11), at=11, most=1200)
    left = [number for number in range(1, 12) if await there(database, number, owner=id_of(number))]
    assert left == [10, 11]


async def test_several_at_once_keep_the_bound(database: Database) -> None:
    await asyncio.gather(*(add(database, number, b"x" * 400, at=number) for number in range(1, 21)))
    assert len(await there(database, *range(1, 21))) <= 2


async def test_one_that_fails_leaves_nothing(database: Database) -> None:
    """The second has the id of the first, which stays as it is."""
    assert await add(database, 1, b"first")
    with pytest.raises(Exception, match=r"(?i)unique|duplicate|constraint"):
        await add(database, 1, b"second", b"part")
    assert await database.results.parts(id_of(1), "a" * 64, now=NOW) == [b"first"]
