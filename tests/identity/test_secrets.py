"""No key, and nothing of its secret, anywhere but on the stdout of `keys new`."""

import logging
import sqlite3
import traceback
from pathlib import Path

import pytest

from aggregator.cli import keys
from aggregator.identity.identify import Refused, RequestFacts, identify
from aggregator.identity.keyring import Keyring
from aggregator.identity.keys import new_key, parse_key
from aggregator.identity.source import ClientSource
from aggregator.identity.throttle import Throttle
from aggregator.storage.database import open_database
from aggregator.storage.errors import NoSuchRow
from aggregator.storage.records import KeyRecord


def _pieces(text: str) -> list[str]:
    """The secret, whole and in pieces long enough to be no accident."""
    secret = text.split("_")[2]
    return [secret[at : at + 10] for at in range(len(secret) - 9)]


def test_not_in_the_files(path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keys.new(url, "bot", label="laptop")
    text = capsys.readouterr().out.strip()
    # A connection that stays open keeps the write-ahead log from being folded in.
    reader = sqlite3.connect(path)
    reader.execute("SELECT count(*) FROM api_keys").fetchone()
    keys.revoke(url, text.split("_")[1])
    files = list(path.parent.iterdir())
    assert {file.name for file in files} >= {"aggregator.db", "aggregator.db-wal", "aggregator.db-shm"}
    found = b"".join(file.read_bytes() for file in files)
    reader.close()
    assert text.split("_")[1].encode() in found
    assert [piece for piece in _pieces(text) if piece.encode() in found] == []


async def test_not_in_logs_errors_and_reprs(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = new_key("bot", now=1.0)
    told = [repr(made), repr(made.record)]
    async with open_database(url) as database:
        await database.keys.add(made.record)
        ring, throttle = Keyring(database.keys), Throttle()
        await ring.refresh()
        try:
            await database.keys.add(made.record)
        except NoSuchRow:
            told.append(traceback.format_exc())
        for facts in (
            RequestFacts("http", api_key=(made.text,), source=ClientSource("10.0.0.1")),
            RequestFacts("http", api_key=(made.text + "x",), source=ClientSource("10.0.0.1")),
            RequestFacts("http", authorization=(f"Basic {made.text}",), source=ClientSource("10.0.0.1")),
            RequestFacts("http", query=f"key={made.text}", source=ClientSource("10.0.0.1")),
            RequestFacts("http", api_key=(made.text,), source=ClientSource("10.0.0.1"), endpoint_agent="other"),
        ):
            answer = identify(facts, ring, throttle, "keys", 2.0)
            told += [repr(facts), repr(answer), answer.reason if isinstance(answer, Refused) else ""]
        told += [repr(ring), repr(throttle), repr(database), repr(ring.verify(parse_key(made.text), 2.0))]
        kept = [repr(key) for key in await database.keys.all()]
    told += [caplog.text, *kept]
    everything = "\n".join(told)
    assert made.record.key_id in everything
    assert [piece for piece in _pieces(made.text) if piece in everything] == []
    assert made.record.hash not in everything


def test_the_memory_of_a_keyring_holds_hashes_alone() -> None:
    made = new_key("bot", now=1.0)
    ring = Keyring()
    ring.use_policy_keys([made.record])
    assert isinstance(ring.verify(parse_key(made.text), 2.0), KeyRecord)
    kept = repr([{key: getattr(record, "hash") for key, record in ring._keys.items()}, ring._seen, vars(ring)])  # noqa: B009
    assert made.record.hash in kept
    assert [piece for piece in _pieces(made.text) if piece in kept] == []
