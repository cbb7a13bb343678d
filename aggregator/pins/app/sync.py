"""The pins of the running program, synchronised with the database and the lock file.

Rule 1: no list and no call waits for this longer than a start waits for the database. Rule 2: a failed read or write
fails closed. Without pins nothing is shown, and items that cannot be pinned are held, unless `on_change` is `warn`. A
row that cannot be written costs its own server only.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.bounds.ticks import until_next
from aggregator.domain.text.error_text import error_text
from aggregator.gateway.views.catalog_builder import CatalogBuilder
from aggregator.pins.app.first_lists import FirstLists
from aggregator.pins.app.known import server_pins, signature
from aggregator.pins.app.locked import LockWatch
from aggregator.pins.app.news import PinNews
from aggregator.pins.app.noted import NotedLists
from aggregator.pins.app.reader import PinReader
from aggregator.pins.app.writing import (
    PinDatabase,
    error_named,
    is_whole,
    items_of,
    version_of,
    was_read,
    write_list,
)
from aggregator.pins.decide.values import PinKind
from aggregator.pins.gateway.answers import news_note
from aggregator.pins.gateway.book import PinBook, rules_of
from aggregator.pins.gateway.state import HeldItem, JudgedList
from aggregator.storage.errors import StorageError
from aggregator.upstream.list_kinds import LIST_METHODS, Kind
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# Seconds that a list waits for the pins at the start.
PATIENCE: Final = 2.0
# Seconds between two looks at what other processes did, while anything waits for an approval, and at the lock file.
LOOK_EVERY: Final = 0.5
# Seconds until the database is tried again after a failure, and failures in a row before new items are held.
AGAIN: Final = 5.0
_PATIENT: Final = 2
# Seconds that lists which come together are waited for, and for the last write when the process ends: a first one has
# to load the database.
COALESCE: Final = 0.05
LAST_MOMENT: Final = 3.0
# Seconds that a baseline waits for the start to be over: a server that hangs or is installed may not keep the others'
# from being written.
START: Final = 2.0
# How often lists are written and judged anew before others get a turn: a list that is written is not new again.
_ROUNDS: Final = 8

NOT_WRITTEN: Final = "it cannot be pinned now, since its pins cannot be written"
_OURS: Final = "an error of ours; the log says more"


class PinSync:
    """The reader and writer of pins.

    rebuild: replaces the snapshots in force, after lists were judged anew.
    awaits_kept: `take_kept` will be called, and no baseline is written before. first: keeps first lists until they are
    written.
    """

    def __init__(
        self,
        book: PinBook,
        builder: CatalogBuilder,
        upstreams: Mapping[str, Upstream],
        database: PinDatabase,
        lock: Path | None,
        news: PinNews,
        rebuild: Callable[[], None],
        *,
        awaits_kept: bool = False,
        first: FirstLists | None = None,
    ) -> None:
        self._book = book
        self._first = first or FirstLists(None)
        self._builder = builder
        self._upstreams = upstreams
        self._reader = PinReader(database, self.entries, self._withhold)
        self._lock = LockWatch(lock)
        self._news = news
        self._rebuild = rebuild
        self._loaded = asyncio.Event()
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._look = self._leaving = self._ending = False
        # By server: rows, baselines, locked pins, whether the rows have definitions, fault.
        self._made_of: dict[str, tuple[object, object, object, bool, object]] = {}
        self._written: dict[tuple[str, str], object] = {}
        self._entries: dict[str, str] = {}
        # Servers that have another entry, whose pins are still to be read.
        self._others: set[str] = set()
        # By server and kind: the connection over which its list was read last, and the lists that were read over theirs
        # before.
        self._read_over: dict[tuple[str, str], object] = {}
        self._read_again: set[tuple[str, str]] = set()
        # By server and kind: the list as it was read last.
        self._as_read: dict[tuple[str, str], list[Any]] = {}
        self._noted = NotedLists()
        # By server: the names of new tools that wait.
        self._added: dict[str, set[str]] = {}
        self._awaits_kept = awaits_kept
        # Set after the lists of an earlier process were compared, or if none are awaited.
        self._compared = asyncio.Event()
        if not awaits_kept:
            self._compared.set()
        self._are_kept_read = False
        self._kept: dict[str, Mapping[Kind, Sequence[Any]]] = {}
        self._turn = asyncio.Lock()
        self._fault: str | None = None
        self._failures = 0
        self._unwritable = False
        # Servers with a row that cannot be written, and why; the time of the next attempt.
        self._withheld: dict[str, str] = {}
        self._again_at = 0.0
        book.on_news = self._wake.set

    @property
    def problem(self) -> str | None:
        """The reason why pins cannot be read or written now, or None."""
        return self._fault or self._lock.problem or "; ".join(f"{s}: {why}" for s, why in self.withheld.items()) or None

    @property
    def withheld(self) -> Mapping[str, str]:
        """The servers whose pins cannot be read, compared or written, each with the reason."""
        return {**self._book.unprotected(), **self._withheld}

    @property
    def awaited(self) -> bool:
        """True while the pins were not read yet, and a server shows nothing without them."""
        configs = (upstream.config for upstream in self._upstreams.values())
        return self._book.default_unread and any(
            rules_of(config).needs_pins and not self._book.of(config.id).readable for config in configs
        )

    @property
    def settled(self) -> bool:
        """True if everything was read, and nothing that is new is still to be written."""
        ready = self._loaded.is_set() and self._quiet.is_set()
        return ready and not self._turn.locked() and not self._wake.is_set() and not self._unwritten()

    def __repr__(self) -> str:
        problem = f", {self.problem}" if self.problem else ""
        return f"<PinSync of {len(self._reader.rows)} servers{problem}>"

    # -- for lists that are about to count

    async def wait_loaded(self) -> None:
        """Wait until the pins and the lists of an earlier process are known, or cannot be known soon."""
        if not self._loaded.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._loaded.wait()
        if self._loaded.is_set() and not (self._book.default_unread or self._compared.is_set()):
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._compared.wait()
            # Only the first lists wait. A list that is read late is compared afterwards.
            self._compared.set()

    async def examine(self, upstream: Upstream, kind: Kind, definitions: list[Any]) -> None:
        """Examine a list that an upstream is about to have, with all that is needed to judge it."""
        await self.wait_loaded()
        key, connection = (upstream.config.id, kind), upstream.negotiated
        again = connection is not None and self._read_over.get(key) is connection
        self._read_over[key] = connection
        self._noted.read(upstream.config.id, ("tool", "instructions") if kind == "tool" else (kind,))
        (self._read_again.add if again else self._read_again.discard)(key)
        unread = await self._judge_all(upstream, kind, definitions)
        if unread:
            with suppress(StorageError, TimeoutError):
                async with asyncio.timeout(PATIENCE), self._turn:
                    await self._read_texts([upstream.config.id])
            await self._judge_all(upstream, kind, definitions)
        if connection is not None:
            self._as_read[key] = definitions
            if await self._keep_first(upstream, kind):
                await self._judge_all(upstream, kind, definitions)
        if kind == "tool":
            self._note_added(upstream, again=again)

    async def _keep_first(self, upstream: Upstream, *kinds: Kind) -> bool:
        """Keep the first lists among those that are about to be shown; return True if they are to be judged again."""
        server = upstream.config.id
        # An upstream may still show what another entry or process left, while its own list is on its way.
        read = ((kind, self._as_read.get((server, kind))) for kind in kinds)
        examined = [self._builder.examined(upstream, kind, of) for kind, of in read if of is not None]
        said = (one for one in self._book.judged(server) if one.kind == "instructions")
        judged = [one for one in (*examined, *said) if one is not None]
        return await self._first.keep_shown(self._book, upstream, judged)

    def _note_added(self, upstream: Upstream, *, again: bool) -> None:
        """Have the next answer of a server say which tools it added over the same connection, and that wait."""
        server, judged = upstream.config.id, self._builder.examined(upstream, "tool")
        held = judged.held.values() if judged is not None else ()
        new = [one for one in held if (one.new or one.before) and not (one.unprotected or one.served)]
        names, before = {one.name for one in new}, self._added.get(server, set())
        self._added[server] = names
        if again and names - before:
            upstream.news = news_note(server, new)

    async def _judge_all(self, upstream: Upstream, kind: Kind, definitions: list[Any]) -> bool:
        """Judge a list, and with tools the instructions; return whether pinned definitions have to be read first."""
        said: JudgedList | None = None
        if kind == "tool" and upstream.negotiated is not None:
            steps = self._book.instructions_steps(upstream.config, upstream.negotiated.instructions or "")
            said = await self._builder.slices.run(steps)
        await self._builder.examine(upstream, kind, definitions)
        return any(one is not None and one.provisional for one in (said, self._builder.examined(upstream, kind)))

    # -- for what changes pins

    def look_now(self) -> None:
        """Read the database at once: another process, or a user at the console, has changed pins."""
        self._look = True
        self._wake.set()

    def is_locked(self, server: str) -> bool:
        """Tell whether the lock file sets the pins of a server."""
        return server in self._lock.servers

    def held_count(self, server: str) -> int:
        """Return the number of held definitions of a server."""
        return len(self._book.held(server))

    def held(self, server: str) -> list[HeldItem]:
        """Return the held definitions of a server, with the reasons."""
        return self._book.held(server)

    def waiting(self, server: str) -> list[HeldItem]:
        """Return the changed definitions of a server that wait while the approved ones are served."""
        return self._book.waiting(server)

    def waiting_item(self, server: str, kind: PinKind, name: str) -> HeldItem | None:
        """Return one of these by its own name."""
        return self._book.waiting_item(server, kind, name)

    def take_kept(self, lists: Mapping[str, Mapping[Kind, Sequence[Any]]]) -> None:
        """Take the lists that servers had before this process ran, and that are kept: a first list was seen then.

        lists: by server; those without a baseline are compared with them.
        """
        self._kept, self._are_kept_read = dict(lists), True
        self._wake.set()

    def has_baselines(self, server: str) -> bool:
        """Return False while a first list of a server is not written as its baseline.

        If the process is killed then, the list in the catalog store is what the next process compares with.
        """
        if not self._compared.is_set():
            return False
        first = (judged for judged in self._book.judged(server) if judged.baseline is not None)
        return all(self._written.get((server, judged.kind)) == signature(judged) for judged in first)

    def lists_changed(self) -> None:
        """Take note that an upstream changed: a list that is empty may have been read by now."""
        if self._loaded.is_set() and self._unwritten():
            self._wake.set()

    def reconfigure(self) -> None:
        """Take the servers of a new configuration."""
        self._book.keep_only(self._upstreams)
        entries = self.entries()
        for server, entry in entries.items():
            if self._entries.get(server, entry) != entry:
                # The operator has given the name to another server: it is unknown until its own pins are read.
                self._reader.forget(server)
                self._made_of.pop(server, None)
                self._book.start_anew(server)
                self._kept.pop(server, None)
                self._as_read = {key: one for key, one in self._as_read.items() if key[0] != server}
                self._look = True
                self._others.add(server)
        self._entries = entries
        self._wake.set()

    @asynccontextmanager
    async def running(self, quiet: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Read the pins, then write news and follow others' approvals, inside; on exit, write the rest within a moment.

        quiet: returns when the start is over. Baselines are written after it, or `START` seconds after the begin, since
        the database is slow to load.
        """
        self._entries = self.entries()
        async with Tasks("the pins") as tasks:
            work = tasks.start(self._run())
            tasks.start(self._wait_quiet(quiet))
            try:
                yield
            finally:
                self.write_rest()
                self._ending = True
                await asyncio.wait([work], timeout=LAST_MOMENT)

    def write_rest(self) -> None:
        """Write all unwritten pins now, since the process ends. Its host may not wait until its servers have ended."""
        self._leaving = True
        self._quiet.set()
        self._wake.set()

    async def _wait_quiet(self, quiet: Callable[[], Awaitable[None]]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(START):
                await quiet()
        self._quiet.set()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            ending = self._ending
            pause = await self._step()
            if ending or (self._ending and not self._unwritten()):
                return
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue
            self._wake.clear()
            if self._compared.is_set() and not (self._look or self._leaving):
                await asyncio.sleep(COALESCE)

    async def _step(self) -> float | None:
        """Do the pending work; return the seconds until the next check, or None for none."""
        try:
            async with self._turn:
                await self._catch_up()
                await self._write()
        except Exception as error:  # it is tried again
            if not isinstance(error, StorageError):
                log.error("pins: an error of ours", exc_info=error)
            await self._failed(error_text(error) if isinstance(error, StorageError) else _OURS)
            return AGAIN
        finally:
            self._loaded.set()
        self._failures = 0
        if self._fault is not None:
            log.info("pins can be read and written again")
            self._fault = None
        if self._unwritable:
            self._unwritable = False
            await self._take_and_judge()
        if self._withheld:
            return AGAIN
        return until_next(LOOK_EVERY) if self._lock.path is not None or self._book.open_count() else None

    async def _failed(self, problem: str) -> None:
        """Note that the database or the lock file cannot be used; hold items without a pin if that goes on."""
        if self._fault is None:
            log.error("pins cannot be read or written: %s", problem)
        self._fault = problem
        self._failures += 1
        self._unwritable = self._reader.is_read and self._failures >= _PATIENT
        self._take_rows(readable=self._reader.is_read)
        await self._judge_again()

    # -- reading

    async def _catch_up(self) -> None:
        """Read the changes of the database or the lock file, and judge the affected lists again."""
        changed = await asyncio.to_thread(self._lock.read)
        look, self._look = self._look, False
        if self._book.default_unread and not self._loaded.is_set() and await self._reader.read_file():
            await self._take_and_judge()
            await self._compare_with_kept()
            return
        if self._withheld and time.monotonic() >= self._again_at:
            self._written = {key: one for key, one in self._written.items() if key[0] not in self._withheld}
        unread = self._book.default_unread and not self._reader.is_read
        if unread or look or self._others or self._book.open_count() or self._unwritten():
            changed = await self._reader.read_rows() or changed
        others, self._others = self._others, set()
        if changed or others or self._book.default_unread:
            await self._take_and_judge()
        await self._compare_with_kept()

    async def _compare_with_kept(self) -> None:
        """Compare the first lists of this process with those that the catalog store has of an earlier one.

        That one was killed before it had written them as a baseline.
        """
        if not self._are_kept_read or self._book.default_unread:
            return
        kept, self._kept = self._kept, {}
        items = {server: await asyncio.to_thread(items_of, lists) for server, lists in kept.items()}
        for server, first in (await self._first.read(self._book, self.entries())).items():
            items[server] = items.get(server, {}) | first
        saw = self._book.saw_before
        others = dict.fromkeys(server for server, of in items.items() for kind in of if saw(server, kind, of[kind]))
        if others:
            log.info("compared with what was kept of an earlier start: %s", ", ".join(others))
            await self._judge_again()
        self._compared.set()

    async def _read_texts(self, servers: Iterable[str]) -> None:
        """Read the pinned definitions of these servers, which have changed, and take them."""
        await self._reader.read_texts(servers)
        self._take_rows(readable=True)

    def entries(self) -> dict[str, str]:
        """Return the key of the entry of each server."""
        return {server: upstream.config.entry for server, upstream in self._upstreams.items()}

    def _take_rows(self, *, readable: bool = False) -> None:
        """Update the book with the changed pins of each server."""
        # It is unknown which servers have pins in an unreadable file.
        readable = readable and not self._lock.unusable
        self._book.default_fault = self._fault_of(None)
        if readable:
            self._book.default_unread = False
        for server in {*self._reader.rows, *self._reader.taken, *self._lock.servers, *self._made_of, *self._upstreams}:
            if (not readable and server not in self._lock.servers) or server in self._others:
                continue
            locked = self._lock.servers.get(server)
            rows, taken = self._reader.rows.get(server, []), self._reader.taken.get(server, frozenset())
            fault, texts = self._fault_of(server), server in self._reader.with_texts
            made_of = rows, taken, locked, texts, fault
            if self._made_of.get(server) != made_of:
                self._made_of[server] = made_of
                # What was written may be gone again.
                self._written = {key: one for key, one in self._written.items() if key[0] != server}
                self._book.put(server, server_pins(rows, taken, locked, texts=texts, fault=fault))

    def _fault_of(self, server: str | None) -> str:
        """Return why nothing can be pinned of a server now, or of any; empty while it can."""
        return NOT_WRITTEN if self._unwritable or server in self._withheld else ""

    async def _take_and_judge(self) -> None:
        # Items that were compared stay so: without the pinned definitions, what changed would be held for a moment.
        compared = (server for server, (_, _, _, texts, _) in self._made_of.items() if texts)
        if lost := [server for server in compared if server not in self._reader.with_texts]:
            await self._reader.read_texts(lost)
        self._take_rows(readable=True)
        await self._judge_again()

    async def _judge_again(self) -> None:
        """Judge the lists of servers with changed pins, in slices, and show the result."""
        for upstream in list(self._upstreams.values()):
            if upstream.negotiated is not None:
                steps = self._book.instructions_steps(upstream.config, upstream.negotiated.instructions or "")
                await self._builder.slices.run(steps)
            await self._builder.examine_again(upstream)
            if await self._keep_first(upstream, *LIST_METHODS):
                await self._builder.examine_again(upstream)
        self._rebuild()

    # -- writing

    @property
    def _baselines_may_be_written(self) -> bool:
        """True after the start, when the catalog store has reported servers without a baseline."""
        return self._quiet.is_set() and (self._are_kept_read or not self._awaits_kept)

    def _unwritten(self) -> list[JudgedList]:
        """Return the lists with something to write. An item missing in a list is gone if the server was asked for the
        list.
        """
        return [
            judged
            for server, upstream in self._upstreams.items()
            for judged in self._book.judged(server)
            if judged.has_news
            and (judged.sight is not None or self._is_read(upstream, judged))
            and (judged.baseline is None or self._baselines_may_be_written)
            and self._written.get((server, judged.kind)) != signature(judged)
        ]

    def _is_read(self, upstream: Upstream, judged: JudgedList) -> bool:
        """Return whether the server has sent a list. The one in the book may still be that of the entry before, while
        the server's own was just read.
        """
        if not was_read(upstream, judged.kind):
            return False
        return judged.kind == "instructions" or self._book.is_made_from(judged, upstream.lists[judged.kind])

    async def _write(self) -> None:
        """Write the news in the shown lists, until nothing is left."""
        for _ in range(_ROUNDS):
            unwritten = self._unwritten()
            if not unwritten:
                return
            provisional = {judged.server for judged in unwritten if judged.provisional}
            if provisional:
                await self._read_texts(provisional)
                await self._judge_again()
            before = set(self._withheld)
            for server in dict.fromkeys(judged.server for judged in unwritten):
                lists = [judged for judged in unwritten if judged.server == server]
                try:
                    await self._write_server(server, lists)
                except StorageError:
                    raise
                except Exception as error:  # it is tried again, and the others are written
                    self._withhold(server, f"its pins cannot be written: {error_named(error)}", error)
                    self._written |= {(server, judged.kind): signature(judged) for judged in lists}
            if await self._reader.read_rows() or before != self._withheld.keys():
                await self._take_and_judge()
        log.warning("pins: lists change faster than they are written; the rest is written later")

    async def _write_server(self, server: str, lists: Iterable[JudgedList]) -> None:
        """Write the lists of one server. A row that the database refuses costs this server only.

        Raises:
            StorageError: the database takes nothing of any server now.
        """
        problem, tried = None, False
        pins = await self._reader.open()
        # Lists that were judged anew meanwhile, or are of an entry that had this name before, are not written.
        for judged in filter(self._book.is_current, lists):
            try:
                if not judged.provisional:
                    # A list is written for the entry that it was judged for, even if its server gets another meanwhile.
                    own, entry = pins.fixed() if pins is not None else None, self._entries.get(server, "")
                    whole = is_whole(self._upstreams[server], judged.kind)
                    later = (server, judged.kind) in self._read_again
                    rows = await write_list(own, judged, self._news, self._noted, is_whole=whole, later=later)
                    if rows is not None and server in self._entries.keys() - self._others:
                        # They count even if the database is away before they can be read.
                        self._reader.take_baseline(server, judged.baseline_kind, rows)
                    if rows is not None:
                        await self._first.forget(server, entry, judged.kind)
            except StorageError:
                raise
            except Exception as error:
                problem = f"its pins cannot be written: {error_named(error)}"
                self._withhold(server, problem, error)
            self._written[server, judged.kind], tried = signature(judged), True
        if not tried:
            return
        negotiated = self._upstreams[server].negotiated if server in self._upstreams else None
        version, before = version_of(negotiated.server_info) if negotiated is not None else "", ""
        try:
            before = await pins.note_version(server, version, time.time()) if pins is not None and version else ""
        except StorageError:
            raise
        except Exception as error:  # it only words what waits: nothing is held for it
            log.warning("%s: its version is not kept: %s", server, error_named(error))
        self._news.upgraded(server, before, version)
        if problem is None and self._withheld.pop(server, None) is not None:
            log.info("%s: its pins can be written again", server)
        if self._reader.marked.get(server) != problem:
            await self._mark(server, problem)

    def _withhold(self, server: str, problem: str, error: Exception) -> None:
        """Note that a row of a server cannot be read or written, and hold its items without a pin."""
        self._again_at = time.monotonic() + AGAIN
        if self._withheld.get(server) != problem:
            self._withheld[server] = problem
            log.error("%s: %s; its items without a pin are held", server, problem)
            log.debug("%s: the error", server, exc_info=error)
            self._news.withheld(server, problem)

    async def _mark(self, server: str, problem: str | None) -> None:
        """Record in the database, for `pins status`, that pins of a server cannot be written, or can be again."""
        pins = await self._reader.open()
        if pins is None:
            return
        try:
            await pins.note_fault(server, problem, time.time())
        except StorageError:
            raise
        except Exception as error:  # the log and the health page say it
            log.debug("%s: the fault of its pins is not on record", server, exc_info=error)
        if problem is None:
            self._reader.marked.pop(server, None)
        else:
            self._reader.marked[server] = problem
