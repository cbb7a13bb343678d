"""The keys in memory: what they answer, what it costs, and how they follow the database."""

import asyncio
from collections.abc import Mapping

import pytest

from aggregator.identity import keyring as module
from aggregator.identity import keys
from aggregator.identity.keyring import Keyring, Refusal
from aggregator.identity.keys import NewKey, new_key, parse_key
from aggregator.storage.errors import StorageBusy
from aggregator.storage.opening import Database
from aggregator.storage.records import KeyRecord


async def _kept(database: Database, keyring: Keyring, *, expires: float | None = None) -> NewKey:
    made = new_key("bot", now=1.0, expires=expires)
    await database.keys.add(made.record)
    assert await keyring.refresh()
    return made


async def test_a_key_is_known_until_it_is_revoked(database: Database, keyring: Keyring) -> None:
    made = await _kept(database, keyring)
    assert keyring.verify(parse_key(made.text), 2.0) == made.record
    assert not await keyring.refresh()
    revoked = await database.keys.revoke(made.record.key_id, 3.0)
    assert await database.keys.revoke(made.record.key_id, 4.0) == revoked
    await keyring.refresh()
    assert keyring.verify(parse_key(made.text), 4.0) == Refusal("revoked")
    await database.keys.expire(made.record.key_id, None)
    await keyring.refresh()
    assert keyring.verify(parse_key(made.text), 4.0) == Refusal("revoked")


async def test_a_key_ends_at_its_time(database: Database, keyring: Keyring) -> None:
    made = await _kept(database, keyring, expires=10.0)
    assert keyring.verify(parse_key(made.text), 9.999) == made.record
    assert keyring.verify(parse_key(made.text), 10.0) == Refusal("expired")
    await database.keys.expire(made.record.key_id, 20.0)
    await keyring.refresh()
    assert isinstance(keyring.verify(parse_key(made.text), 10.0), KeyRecord)


async def test_a_key_that_was_verified_holds_while_it_is_good(database: Database, keyring: Keyring) -> None:
    """Proves: D4. For the agent it was verified for."""
    made = await _kept(database, keyring, expires=10.0)
    key_id = made.record.key_id
    assert keyring.holds(key_id, "bot", 9.999)
    assert not keyring.holds(key_id, "bot", 10.0)
    assert not keyring.holds(key_id, "other", 1.0)
    assert not keyring.holds("nobody", "bot", 1.0)
    await database.keys.revoke(key_id, 3.0)
    assert keyring.holds(key_id, "bot", 4.0)
    await keyring.refresh()
    assert not keyring.holds(key_id, "bot", 4.0)


def test_with_one_id_twice_the_databases_key_counts() -> None:
    made = new_key("bot", now=1.0)
    ring = Keyring()
    ring.use_policy_keys([KeyRecord(made.record.key_id, "files", made.record.hash)])
    record = ring.verify(parse_key(made.text), 2.0)
    assert isinstance(record, KeyRecord)
    assert record.agent_id == "files"
    ring._kept = {made.record.key_id: made.record}
    ring.use_policy_keys([KeyRecord(made.record.key_id, "files", made.record.hash)])
    record = ring.verify(parse_key(made.text), 2.0)
    assert isinstance(record, KeyRecord)
    assert record.agent_id == "bot"
    assert len(ring) == 1
    ring.use_policy_keys([])
    assert len(ring) == 1


def test_an_unknown_id_costs_what_a_wrong_secret_and_the_right_one_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    made, stranger = new_key("bot", now=1.0), new_key("bot", now=1.0)
    body = f"agk_{made.record.key_id}_{stranger.text.split('_')[2][:43]}"
    wrong = body + keys._checksum(body)
    ring = Keyring()
    ring.use_policy_keys([made.record])
    work: list[str] = []

    def counted(name: str) -> None:
        original = getattr(keys, name)

        def counting(*args: object, **options: object) -> object:
            work.append(name)
            return original(*args, **options)

        monkeypatch.setattr(keys, name, counting)

    for name in ("hashed", "compare_digest", "blake2b", "_checksum"):
        counted(name)
    costs = []
    for text, answer in ((stranger.text, "unknown"), (wrong, "unknown"), (made.text, "")):
        work.clear()
        found = ring.verify(parse_key(text), 2.0)
        assert (found.reason if isinstance(found, Refusal) else "") == answer
        costs.append(list(work))
    assert costs[0] == costs[1] == costs[2] == ["_checksum", "hashed", "blake2b", "compare_digest"]


def test_nobodys_hash_lets_nobody_in() -> None:
    assert keys.parse_key("agk__") is None
    assert Keyring().verify(parse_key(new_key("bot", now=1.0).text), 1.0) == Refusal("unknown")
    assert Keyring().verify(parse_key(""), 1.0) == Refusal("malformed")
    assert module._NOBODY.key_id == ""


class _Pauses:
    """A pause that lets a follower take a given number of turns, then waits for more."""

    def __init__(self) -> None:
        self.turns: asyncio.Queue[None] = asyncio.Queue()
        self.waiting = asyncio.Event()
        self.lengths: set[float] = set()

    async def __call__(self, seconds: float) -> None:
        self.lengths.add(seconds)
        self.waiting.set()
        await self.turns.get()

    async def turn(self) -> None:
        self.waiting.clear()
        self.turns.put_nowait(None)
        async with asyncio.timeout(5):
            await self.waiting.wait()


async def test_following_notes_uses_by_the_hour(database: Database, keyring: Keyring) -> None:
    made = await _kept(database, keyring)
    pauses = _Pauses()
    task = asyncio.create_task(keyring.run(pause=pauses))
    for now, noted in ((7200.5, 7200.0), (7300.0, 7200.0), (10800.0, 10800.0)):
        assert isinstance(keyring.verify(parse_key(made.text), now), KeyRecord)
        await pauses.turn()
        (key,) = await database.keys.all()
        assert key.last_used == noted
    assert pauses.lengths == {0.5}
    task.cancel()
    await asyncio.wait([task])


async def test_following_keeps_the_uses_of_keys_in_policy_files(keyring: Keyring) -> None:
    """They are written nowhere, and last as long as the key and the process."""
    used, unused = new_key("bot", now=1.0), new_key("other", now=1.0)
    keyring.use_policy_keys([used.record, unused.record])
    pauses = _Pauses()
    task = asyncio.create_task(keyring.run(pause=pauses))
    assert isinstance(keyring.verify(parse_key(used.text), 7200.5), KeyRecord)
    for _ in range(2):
        await pauses.turn()
        assert {key.agent_id: key.last_used for key in keyring.records()} == {"bot": 7200.0, "other": None}
    keyring.use_policy_keys([unused.record])
    await pauses.turn()
    keyring.use_policy_keys([used.record])
    assert keyring.records()[0].last_used is None
    task.cancel()
    await asyncio.wait([task])


class _Broken:
    """A source that fails when told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.touches = 0
        self.keys = [new_key("bot", now=1.0)]

    async def version(self) -> object:
        if self.error is not None:
            raise self.error
        return 1

    async def all(self) -> list[KeyRecord]:
        return [key.record for key in self.keys]

    async def touch(self, used: Mapping[str, float]) -> None:
        self.touches += 1
        raise StorageBusy("locked")


async def test_a_database_that_fails_is_told_and_followed_on(caplog: pytest.LogCaptureFixture) -> None:
    source, pauses = _Broken(), _Pauses()
    ring = Keyring(source)
    task = asyncio.create_task(ring.run(pause=pauses))
    await pauses.turn()
    for error, problem in ((StorageBusy("locked"), "locked"), (RuntimeError("boom"), "an error of ours")):
        source.error = error
        await pauses.turn()
        await pauses.turn()
        assert ring.problem is not None
        assert problem in ring.problem
        assert problem in repr(ring)
        assert isinstance(ring.verify(parse_key(source.keys[0].text), 1e6), KeyRecord)
    assert caplog.text.count("changes of keys are not seen") == 1
    source.error = None
    await pauses.turn()
    assert ring.problem is None
    assert source.touches == 1
    task.cancel()
    await asyncio.wait([task])


async def test_without_a_database_there_is_nothing_to_follow() -> None:
    ring = Keyring()
    assert not await ring.refresh()
    await ring.run()
