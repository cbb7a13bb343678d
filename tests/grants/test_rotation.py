"""A process that is killed in the middle of a rotation loses no grant; `tests.grants.rotation` has more moments."""

import random

from tests.grants.rotation import kill_at_moments


async def test_a_kill_in_the_middle_loses_no_grant(sqlite_url: str) -> None:
    lost, asked, _ = await kill_at_moments(sqlite_url, 2, random.Random(3))  # noqa: S311
    assert lost == 0
    assert asked >= 1
