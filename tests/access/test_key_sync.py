"""Who is let in without a key while it is not known whether there are keys, each condition by itself.

Law: while it is not known whether there are keys, requests without a key are refused.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.app import key_sync
from aggregator.app.key_sync import KeySync
from aggregator.gateway.access import Access
from aggregator.gateway.views.views import Views
from aggregator.identity.keys import new_key
from aggregator.storage.errors import StorageBusy, StorageError
from aggregator.storage.records import KeyRecord
from tests.policy.build import book
from tests.polling import until

ADA: Final = new_key("ada", now=0.0)
BOB: Final = new_key("bob", now=0.0)


class Keys:
    """The table of keys of a database, and the database itself."""

    def __init__(self, path: Path, *records: KeyRecord) -> None:
        self.url = f"sqlite:///{path}"
        self.records = list(records)
        self.number = 0
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.opened = 0
        self.set_aside: tuple[Path, ...] = ()
        self.replaced: list[Callable[[], None]] = []
        self.keys = self
        self.engine = SimpleNamespace(on_file_replaced=self.replaced.append)

    async def open(self) -> Any:
        self.opened += 1
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        return self

    async def version(self) -> object:
        if self.error is not None:
            raise self.error
        return self.number

    async def all(self) -> list[KeyRecord]:
        return self.records

    async def touch(self, used: object) -> None: ...


class Here:
    """The keys of a process; `path` is the file of its database, which is there or not."""

    def __init__(self, path: Path, *records: KeyRecord, there: bool = True) -> None:
        self.path = path
        if there:
            path.touch()
        self.database = Keys(path, *records)
        self.live = SimpleNamespace(rulebook=None)
        views = Views(self.live, {})  # type: ignore[arg-type]
        self.access = Access(views)
        self.sync = KeySync(self.access, views, self.database)

    @property
    def is_open(self) -> bool:
        """Whether requests of this machine are let in without a key."""
        return self.access.open


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "aggregator.db"


@pytest.mark.parametrize(
    ("there", "records", "is_open", "read"),
    [(True, (ADA.record,), False, True), (True, (), True, True), (False, (), True, False)],
)
async def test_what_is_read_at_the_start(
    path: Path, there: bool, records: tuple[KeyRecord, ...], is_open: bool, read: bool
) -> None:
    """A database is not made only to find it empty."""
    here = Here(path, *records, there=there)
    await here.sync.load()
    assert (here.sync.wanted, here.sync.known, here.is_open) == (True, read, is_open)
    assert bool(here.database.opened) is read
    assert (here.access.unread, here.access.locked) == (False, None)
    assert len(here.access.keyring) == len(records)


async def test_policies_ask_for_a_database_that_is_not_there(path: Path) -> None:
    here = Here(path, there=False)
    here.live.rulebook = book({"agents": {"ada": {"allow": ["*"]}}})
    await here.sync.load()
    assert here.database.opened == 1
    assert not here.is_open


@pytest.mark.parametrize("why", ["silent", "busy"])
async def test_a_database_that_does_not_answer_lets_nobody_in_without_a_key(path: Path, why: str) -> None:
    here = Here(path)
    if why == "silent":
        here.database.answers.clear()
    else:
        here.database.error = StorageBusy("locked by another program")
    await here.sync.load(0.01)
    assert (here.access.unread, here.is_open, here.sync.known) == (True, False, False)
    assert here.access.locked is not None
    here.database.error = None
    here.database.answers.set()
    running = asyncio.create_task(here.sync.run())
    await until(lambda: here.sync.known, "the keys are read")
    assert here.is_open
    assert not here.access.unread
    running.cancel()
    await asyncio.wait({running})


async def test_a_database_that_cannot_be_used_ends_the_start(path: Path) -> None:
    here = Here(path)
    here.database.error = StorageError("it is of a later version")
    with pytest.raises(StorageError):
        await here.sync.load()


@pytest.mark.parametrize("gone", [True, False])
async def test_a_database_that_is_gone_has_no_keys_and_one_that_fails_may(
    path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.setattr(key_sync, "REFRESH_EVERY", 0.001)
    here = Here(path)
    here.database.error = StorageBusy("locked")
    await here.sync.load()
    assert not here.is_open
    if gone:
        await asyncio.to_thread(path.unlink)
    running = asyncio.create_task(here.sync.run())
    opened = here.database.opened
    await until(lambda: here.is_open is gone and (gone or here.database.opened > opened + 2), "it was tried again")
    assert here.is_open is gone
    assert here.access.unread is not gone
    running.cancel()
    await asyncio.wait({running})


async def test_a_damaged_file_beside_it_may_have_had_keys(path: Path) -> None:
    here = Here(path)
    damaged = path.with_name(f"{path.name}.damaged-1")
    here.database.set_aside = (damaged,)
    await here.sync.load()
    assert not here.is_open
    assert damaged.name in str(here.access.locked)


async def test_a_database_that_was_replaced_is_read_before_anyone_gets_in(path: Path) -> None:
    """Its keys are lost, whatever is in the new one; new keys end that, and so does nothing else."""
    here = Here(path, ADA.record)
    await here.sync.load()
    running = asyncio.create_task(here.sync.run())
    here.database.records, here.database.number = [], 1
    for replaced in here.database.replaced:
        replaced()
    assert "was deleted and made anew" in str(here.access.locked)
    await until(lambda: len(here.access.keyring) == 0, "the keys are read anew")
    assert not here.is_open
    assert not here.access.keyless
    here.database.records, here.database.number = [BOB.record], 2
    here.sync.look_now()
    await until(lambda: len(here.access.keyring) == 1, "the new key is known")
    await until(lambda: here.access.locked is None, "keys are known again")
    running.cancel()
    await asyncio.wait({running})


async def test_a_database_without_keys_that_was_replaced_locks_nobody_out(path: Path) -> None:
    here = Here(path)
    await here.sync.load()
    for replaced in here.database.replaced:
        replaced()
    assert here.access.locked is None
    assert here.is_open


async def test_the_first_key_closes_a_running_process_at_once(path: Path) -> None:
    here = Here(path)
    await here.sync.load()
    assert here.is_open
    running = asyncio.create_task(here.sync.run())
    here.database.records, here.database.number = [ADA.record], 1
    here.sync.look_now()
    await until(lambda: not here.is_open, "the key is known")
    running.cancel()
    await asyncio.wait({running})


async def test_it_is_said_once_who_is_let_in_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    here = Here(path)
    here.database.error = StorageBusy("locked")
    await here.sync.load()
    for _ in range(2):
        await here.sync._try()
    here.database.error = None
    for _ in range(2):
        await here.sync._try()
    assert caplog.text.count("keys cannot be read") == 1
    assert caplog.text.count("keys can be read again") == 1
