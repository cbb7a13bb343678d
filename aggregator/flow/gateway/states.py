"""The flow states of this process, and of the database that it shares with others.

Law: a label is in memory, and committed if other processes may decide about its scope, before the host gets the result
that brought it. The rows in the database decide calls that a flow rule applies to. They are read for each call, unless
the scope is this process's alone, or the mark of the labels is the same as before the last reading.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from aggregator.flow.decide.decide_flow import FlowState, LabelSource
from aggregator.flow.gateway.refusals import FlowUnknown
from aggregator.flow.gateway.scopes import RESUMED_WITHIN, KnownLabels, PlacedRow, Scope, ScopeKey, Scopes, with_key
from aggregator.storage.engine.change_mark import ChangeMark
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.flow.storage import FlowLabels
    from aggregator.storage.engine.engine import Version

log = logging.getLogger(__name__)

# Seconds between two looks for clears, and for what could not be written.
LOOK_EVERY: Final = 0.5
# Scopes of which what could not be written is written at one look.
_REST_AT_ONCE: Final = 500
# How often a scope is read again that was cleared meanwhile.
_READINGS: Final = 5


class FlowStore(Protocol):
    """The place of flow labels."""

    async def flow_labels(self) -> "FlowLabels | None":
        """Return the labels in the database; None without a database.

        Raises:
            StorageError: it cannot be used.
        """


# A function that returns the time in seconds since 1970, the same for all replicas.
FlowClock = Callable[[], float]
# A look at whether this process is one of several that take up each other's sessions.
IsShared = Callable[[], bool]


class HoldsMessages(Protocol):
    """Messages of servers that wait until the labels of their call are committed."""

    def flush(self) -> None:
        """Pass them on if the labels are committed."""
        ...


class RecordedLabels(NamedTuple):
    """The labels of a result that are new to its scope; `committed`: they would survive the end of this process."""

    new: tuple[str, ...]
    committed: bool


class FlowStates:
    """The labels of all scopes. `store` is None without a database."""

    def __init__(self, store: FlowStore | None, clock: FlowClock, is_shared: IsShared) -> None:
        self._store = store
        self._is_shared = is_shared
        self.now = clock
        self.scopes = Scopes(stored=store is not None)
        # The mark of the labels in the database; unknown before the first look into it.
        self._mark = ChangeMark(None, "flow")
        self._decay = 0.0
        # The file of the database and the number of the newest clear that is heeded, None before the first look.
        self._seen: Version | None = None
        # How many clears were heeded.
        self._cleared = 0
        self._failing = False
        self._logged: tuple[str, tuple[object, ...]] | None = None
        self._used = asyncio.Event()
        self._wake = asyncio.Event()
        self._holding: dict[HoldsMessages, None] = {}

    def __repr__(self) -> str:
        return f"<FlowStates {self.scopes!r}>"

    def alone(self, key: ScopeKey) -> bool:
        """Return whether no other process decides by what this one notes of a scope."""
        return self._store is None or (key.kind == "session" and not self._is_shared())

    # -- what a conversation has read

    def known_at_once(self, key: ScopeKey, *, decides: bool) -> KnownLabels | None:
        """Return the labels of a scope that this process has in memory, the same object while they stay the same; None
        if the database must be read.

        `decides`: a flow rule applies to the call.
        """
        found = self._at_once(key, decides=decides)
        return None if found is None else self.scopes.known(*found, self.now())

    def at_once(self, key: ScopeKey, *, decides: bool) -> FlowState | None:
        """Do as `known_at_once`; return the labels with the calls that brought them."""
        found = self._at_once(key, decides=decides)
        return None if found is None else self.scopes.use(*found, self.now())

    def _at_once(self, key: ScopeKey, *, decides: bool) -> tuple[Scope, Scope] | None:
        """Return a scope and that of its key; None if the database must be read."""
        # Every call without a task that flow rules concern passes here: each scope is looked up once.
        found = self.scopes.find(key)
        if self._store is not None and (decides or key.kind != "trace"):
            if found is None or not (found[0].loaded and found[1].loaded):
                return None
            if decides and not self.alone(key):
                # Another process may have committed a label since then.
                mark = self._mark.read()
                if mark is None or found[0].mark != mark or found[1].mark != mark:
                    return None
        if found is None:
            now = self.now()
            if not self.alone(key) and self.scopes.called(key, now) is not None:
                return None
            self.scopes.open(key, now)
            return self.scopes.find(key)
        return None if found[0].untold and not self.alone(key) else found

    async def state(self, key: ScopeKey, tool: str, *, decides: bool, resumed: bool = False) -> FlowState:
        """Return the labels of a scope.

        `decides`: a flow rule speaks of the call of `tool`. `resumed`: it goes on with one that was decided before, for
        which nothing expires meanwhile.

        Raises:
            FlowUnknown: the call is to be decided, and the database cannot be read; or other processes cannot know that
                the session takes over what its key knows.
        """
        state = self.at_once(key, decides=decides)
        if state is None:
            try:
                await self._load(key)
            except Exception as error:  # a row that cannot be read costs its own conversation
                why = error if isinstance(error, StorageError) else type(error).__name__
                log.warning("what the conversations of %s have read cannot be looked up: %s", key.owner.agent_id, why)
                if decides:
                    raise FlowUnknown.of(tool) from error
            now = self.now()
            self.scopes.open(key, now)
            state = self.scopes.state(key, now)
            if not self.alone(key) and not await self._note_called(key) and state:
                raise FlowUnknown.of(tool)
        return self.scopes.state(key, self.now() - RESUMED_WITHIN) if resumed and decides else state

    async def _load(self, key: ScopeKey) -> None:
        """Read a scope and its key's scope.

        Raises:
            StorageError: the database cannot be read.
        """
        labels = await self._labels()
        is_new = self.scopes.find(key) is None
        self.scopes.open(key, self.now())
        digests = [one.digest for one in with_key(key)]
        for _ in range(_READINGS):
            cleared, mark = self._cleared, labels.mark.read()
            found = await labels.read(digests, now=self.now() - RESUMED_WITHIN)
            if cleared == self._cleared:
                break
        self.scopes.take(key, found, self.now(), mark, is_new=is_new)

    async def _note_called(self, key: ScopeKey) -> bool:
        """Tell other processes about a session that called before it listed; return False if they cannot know."""
        row = self.scopes.called(key, self.now())
        if row is None:
            return True
        try:
            await (await self._labels()).note([row])
        except Exception as error:  # it costs this session its calls, if it takes anything over
            why = error if isinstance(error, StorageError) else type(error).__name__
            log.warning("other processes cannot know that a session called before it listed: %s", why)
            return False
        self.scopes.mark_called(key)
        return True

    async def note_listed(self, key: ScopeKey) -> None:
        """Record that a session received a list of tools: no other process lets it take over its key's labels."""
        if self.alone(key):
            return
        row = self.scopes.listed(key, self.now())
        if row is not None:
            try:
                labels = await self._labels()
                await labels.note([row])
            except Exception as error:  # it costs no list; other processes then begin with more than it has read
                why = error if isinstance(error, StorageError) else type(error).__name__
                log.warning("other processes cannot know that a session has listed: %s", why)

    # -- results that bring labels

    def brings_nothing_new(self, key: ScopeKey, labels: Collection[str], tool: str, trace: str, decay: float) -> bool:
        """Record the labels of a result if its scope has them all and no row has to be written; else return False."""
        return self.scopes.brings_nothing_new(key, labels, LabelSource(tool, self.now(), trace), decay)

    async def bring(
        self, key: ScopeKey, labels: Collection[str], tool: str, trace: str, decay: float
    ) -> RecordedLabels:
        """Note the labels of a result, before its host gets it. Those that cannot be written now are written later."""
        self._decay = decay
        new = self.scopes.bring(key, labels, LabelSource(tool, self.now(), trace), decay)
        self._used.set()
        if self._store is None:
            return RecordedLabels(new, True)
        try:
            await self._write(with_key(key))
        except StorageError:
            return RecordedLabels(new, False)
        return RecordedLabels(new, True)

    def bring_at_once(self, key: ScopeKey, labels: Collection[str], tool: str, trace: str, decay: float) -> None:
        """Note labels of a message in memory; they are written soon."""
        self._decay = decay
        self.scopes.bring(key, labels, LabelSource(tool, self.now(), trace), decay)
        self._used.set()
        if self._store is not None:
            self._wake.set()

    def may_say(self, key: ScopeKey) -> bool:
        """Return whether a message may reach a host whose labels were noted in a scope."""
        return self.alone(key) or self.scopes.is_committed(key)

    def hold(self, messages: HoldsMessages) -> None:
        """Have messages flushed once more labels are committed."""
        self._holding[messages] = None

    def release(self, messages: HoldsMessages) -> None:
        """Flush these messages no longer."""
        self._holding.pop(messages, None)

    async def _write(self, keys: Collection[ScopeKey]) -> None:
        rows = self.scopes.rows(keys, self._decay)
        if rows:
            try:
                refused = await self._note(rows)
            except StorageError as error:
                if not self._failing:
                    log.error("flow labels cannot be written; answers that bring any may be withheld: %s", error)
                self._failing = True
                raise
            if self._failing:
                log.info("flow labels are written again")
            self._failing = False
            self.scopes.written([one for one in rows if one.key not in refused], self._decay)
            self.scopes.postpone(refused)
            for messages in tuple(self._holding):
                messages.flush()
            if refused:
                raise StorageError(f"The database refuses the flow labels of {len(refused)} scopes.")

    async def _note(self, rows: Collection[PlacedRow]) -> set[ScopeKey]:
        """Write rows; return the scopes of those that the database refuses, which cost no other scope its labels.

        Raises:
            StorageError: the database takes no rows now.
        """
        labels = await self._labels()
        try:
            await labels.note([row for _, row in rows])
            return set()
        except StorageError:
            raise
        except Exception as error:
            log.debug("flow labels cannot be written together: %s", type(error).__name__)
        refused: set[ScopeKey] = set()
        for key in dict.fromkeys(key for key, _ in rows):
            try:
                await labels.note([row for of, row in rows if of == key])
            except StorageError:
                raise
            except Exception as error:  # it costs this scope its labels, whose answers are withheld
                refused.add(key)
                said = "flow labels of %s are refused; its answers that bring any may be withheld: %s"
                self._log_once(said, key.owner.agent_id, type(error).__name__)
        return refused

    def _log_once(self, said: str, *values: object) -> None:
        """Log a recurring error only if it differs from the last one."""
        if (said, values) != self._logged:
            self._logged = said, values
            log.error(said, *values)

    async def _labels(self) -> "FlowLabels":
        assert self._store is not None
        labels = await self._store.flow_labels()
        if labels is None:
            raise StorageError("There is no database.")
        self._mark = labels.mark
        if self._seen is None:
            await asyncio.to_thread(labels.mark.look)
            # Clears count from here on: nothing was read or written before.
            self._seen = await labels.newest_clear()
        self._used.set()
        return labels

    # -- clears

    def look_now(self) -> None:
        """Look for clears now: another replica says that there is one."""
        self._wake.set()

    async def run(self) -> None:
        """Heed clears, and write what could not be written, from the first label on until cancelled."""
        if self._store is None:
            return
        await self._used.wait()
        while True:
            try:
                await self.heed_clears()
                await self.write_rest()
            except StorageError as error:
                log.debug("flow labels cannot be looked after now: %s", error)
            except Exception as error:  # the next look may find it well again, and labels have to be written
                self._log_once("flow labels cannot be looked after, by an error of ours: %s", repr(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._wake.wait()
            self._wake.clear()

    async def write_rest(self) -> None:
        """Write what could not be written before, of a bounded number of scopes.

        Raises:
            StorageError: it cannot be written now either.
        """
        await self._write(self.scopes.unwritten[:_REST_AT_ONCE])

    async def heed_clears(self) -> None:
        """Forget the reads cleared since the last check.

        Raises:
            StorageError: the database cannot be read.
        """
        labels = await self._labels()
        await asyncio.to_thread(labels.mark.look)
        file, newest = await labels.newest_clear()
        assert self._seen is not None, "it is set when the database is opened"
        of_file, seen = self._seen
        if file != of_file or newest < seen:
            log.warning("the database is another one: flow labels are written again")
            self._seen, self._cleared = (file, newest), self._cleared + 1
            self.scopes.doubt()
            return
        while seen < newest and (found := await labels.clears_after(seen)):
            for cleared in found:
                seen = cleared.seq
                self._seen, self._cleared = (file, seen), self._cleared + 1
                if cleared.unreadable:
                    log.error("a clear of flow labels cannot be read (change %d): the labels stay", seen)
                else:
                    self.scopes.clear(cleared)
