"""The vectors of tools: kept by model and digest, and for as long as they are read."""

from aggregator.storage.opening import Database

DAY = 86400.0


async def test_vectors_are_kept_while_they_are_read(database: Database) -> None:
    """Proves: F5. The first one of a text stays; another model has its own; what is unread for 30 days goes."""
    kept = database.tool_vectors
    every = [f"d{number}" for number in range(250)]
    await kept.keep("m", {digest: bytes([number]) for number, digest in enumerate(every)}, now=0.0)
    await kept.keep("m", {"d1": b"later"}, now=1.0)
    assert await kept.read("m", ["d1", "none"], now=2.0) == {"d1": b"\x01"}
    assert (await kept.read("m", [*every, "none"], now=2.0)).keys() == {*every}
    assert await kept.read("other", ["d1"], now=2.0) == {}
    await kept.read("m", ["d1", "d2"], now=20 * DAY)
    await database.prune(None, None, now=40 * DAY)
    assert (await kept.read("m", every, now=40 * DAY)).keys() == {"d1", "d2"}
