"""The keys in memory. Asking costs two look-ups and one hash, and never waits for the database.

Rule: an unknown key id, a wrong secret and the right one cost the same work.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from aggregator.identity.keys import Presented, hashed, matches
from aggregator.storage.errors import StorageError
from aggregator.storage.records import KeyRecord

log = logging.getLogger(__name__)

# A change made by another process is seen after at most this long, and one query.
FOLLOW_EVERY: Final = 0.5
# How exactly the last use is noted.
COARSE: Final = 3600.0

Reason = Literal["malformed", "unknown", "expired", "revoked"]

# Nobody's hash, for ids that nobody has.
_NOBODY: Final = KeyRecord("", "", hashed(Presented("", "")))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a key is not accepted. `unknown`: no such id, or not its secret; nothing tells which."""

    reason: Reason


class KeySource(Protocol):
    """Where keys are kept; `aggregator.storage.keys.ApiKeys` is one."""

    async def version(self) -> object: ...

    async def all(self) -> list[KeyRecord]: ...

    async def touch(self, used: Mapping[str, float]) -> None: ...


class Keyring:
    """The keys of the database and of the policy files; with one id in both, the database's counts."""

    def __init__(self, source: KeySource | None = None) -> None:
        self._source = source
        self._version: object = None
        self._kept: Mapping[str, KeyRecord] = {}
        self._written: Mapping[str, KeyRecord] = {}
        self._keys: Mapping[str, KeyRecord] = {}
        self._seen: dict[str, float] = {}
        self.problem: str | None = None
        # Whether there ever was a key: that all are gone must not let everybody in.
        self.ever = False

    def __repr__(self) -> str:
        problem = f", {self.problem}" if self.problem else ""
        return f"<Keyring {len(self._kept)} in the database, {len(self._written)} in policy files{problem}>"

    def __len__(self) -> int:
        """How many keys there are, the revoked and expired ones included."""
        return len(self._keys)

    def use_policy_keys(self, keys: Iterable[KeyRecord]) -> None:
        """Take the keys of the policy files in place of those taken before, all at once."""
        self._written = {key.key_id: key for key in keys}
        self._merge()

    def verify(self, key: Presented | None, now: float) -> KeyRecord | Refusal:
        """Whose key this is, at the wall-clock time `now`; None is what `parse_key` makes of no key."""
        if key is None:
            return Refusal("malformed")
        record = self._keys.get(key.key_id, _NOBODY)
        if not matches(key, record.hash) or record is _NOBODY:
            return Refusal("unknown")
        if record.revoked is not None:
            return Refusal("revoked")
        if _has_expired(record, now):
            return Refusal("expired")
        self._seen[key.key_id] = now - now % COARSE
        return record

    def holds(self, key_id: str, agent_id: str, now: float) -> bool:
        """Whether a key that was verified before is good still, for the same agent."""
        record = self._keys.get(key_id)
        if record is None or record.agent_id != agent_id:
            return False
        return record.revoked is None and not _has_expired(record, now)

    async def refresh(self) -> bool:
        """Take over what changed in the database; whether anything did.

        Raises:
            StorageError: it cannot be read; the keys known so far stay.
        """
        if self._source is None:
            return False
        version = await self._source.version()
        if version == self._version:
            return False
        # The version first: a change between the two reads is then seen again, not missed.
        self._kept = {key.key_id: key for key in await self._source.all()}
        self._version = version
        self._merge()
        return True

    async def follow(
        self, every: float = FOLLOW_EVERY, pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        """Refresh for ever, and note uses. `problem` says why it cannot, while it cannot."""
        if self._source is None:
            return
        while True:
            try:
                await self.refresh()
            except Exception as error:  # a follower that ended would never see a revocation again
                self._worry(error)
            else:
                if self.problem is not None:
                    log.info("changes of keys are seen again")
                self.problem = None
                await self._note_uses(self._source)
            await pause(every)

    def _worry(self, error: Exception) -> None:
        known = isinstance(error, StorageError)
        if self.problem is None:
            log.error("changes of keys are not seen: %s", error, exc_info=None if known else error)
        self.problem = str(error) if known else "an error of ours; the log says more"

    async def _note_uses(self, source: KeySource) -> None:
        new = {id: at for id, at in self._seen.items() if id in self._kept and at > (self._kept[id].last_used or 0.0)}
        self._seen = {}
        if not new:
            return
        try:
            await source.touch(new)
        except StorageError as error:
            log.debug("the last use of %d keys is not noted: %s", len(new), error)
            return
        self._kept = {id: replace(key, last_used=new.get(id, key.last_used)) for id, key in self._kept.items()}
        self._merge()

    def _merge(self) -> None:
        self._keys = {**self._written, **self._kept}
        self.ever = self.ever or bool(self._keys)


def _has_expired(record: KeyRecord, now: float) -> bool:
    return record.expires is not None and record.expires <= now
