"""The keys in memory. A look-up costs two dictionary accesses and one hash, and never waits for the database.

Rule: an unknown key id, a wrong secret and the right one cost the same work.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, Literal, Protocol

from aggregator.domain.text.error_text import error_text
from aggregator.identity.keys import PresentedKey, hashed, matches
from aggregator.storage.errors import StorageError
from aggregator.storage.records import KeyRecord

log = logging.getLogger(__name__)

# Seconds until a change made by another process is seen, plus one query.
REFRESH_EVERY: Final = 0.5
# Seconds to which the time of the last use is rounded.
COARSE: Final = 3600.0

Reason = Literal["malformed", "unknown", "expired", "revoked"]

# A hash that no key has, compared for unknown ids.
_NOBODY: Final = KeyRecord("", "", hashed(PresentedKey("", "")))


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a key is not accepted. `unknown` covers both an unknown id and a wrong secret."""

    reason: Reason


class KeySource(Protocol):
    """The store of keys, such as `aggregator.storage.keys.ApiKeys`."""

    async def version(self) -> object: ...

    async def all(self) -> list[KeyRecord]: ...

    async def touch(self, used: Mapping[str, float]) -> None: ...


# The wait between two refreshes.
RefreshPause = Callable[[float], Coroutine[Any, Any, object]]


class Keyring:
    """The keys of the database and of the policy files; for an id in both, the database's key counts."""

    def __init__(self, source: KeySource | None = None) -> None:
        self._source = source
        self._version: object = None
        self._kept: Mapping[str, KeyRecord] = {}
        self._written: Mapping[str, KeyRecord] = {}
        self._keys: Mapping[str, KeyRecord] = {}
        self._seen: dict[str, float] = {}
        self.problem: str | None = None
        # Another object after each change of the keys.
        self.revision = object()
        # True once there was a key: the loss of all keys must not let in requests without one.
        self.ever = False

    def __repr__(self) -> str:
        problem = f", {self.problem}" if self.problem else ""
        return f"<Keyring {len(self._kept)} in the database, {len(self._written)} in policy files{problem}>"

    def __len__(self) -> int:
        """Return the number of keys, revoked and expired ones included."""
        return len(self._keys)

    def use_policy_keys(self, keys: Iterable[KeyRecord]) -> None:
        """Replace the keys of the policy files, all at once."""
        self._written = {key.key_id: key for key in keys}
        self._merge()

    def records(self) -> list[KeyRecord]:
        """Return all keys, the revoked and expired ones included.

        The last use of a key of the policy files is that in this process.
        """
        uses = self._seen
        return [
            replace(key, last_used=uses[key.key_id]) if self.is_written(key.key_id) and key.key_id in uses else key
            for key in self._keys.values()
        ]

    def is_written(self, key_id: str) -> bool:
        """Return whether the key that counts under this id is that of a policy file."""
        return key_id in self._written and key_id not in self._kept

    def record(self, key_id: str) -> KeyRecord | None:
        """Return the record of a key, whether it is still valid or not."""
        return self._keys.get(key_id)

    def verify(self, key: PresentedKey | None, now: float) -> KeyRecord | Refusal:
        """Return the record of a key at the wall-clock time `now`; None is the result of `parse_key` for a malformed
        key.
        """
        if key is None:
            return Refusal("malformed")
        record = self._keys.get(key.key_id, _NOBODY)
        if not matches(key, record.hash) or record is _NOBODY:
            return Refusal("unknown")
        if record.revoked is not None:
            return Refusal("revoked")
        if _has_expired(record, now):
            return Refusal("expired")
        self.note_use(key.key_id, now)
        return record

    def note_use(self, key_id: str, now: float) -> None:
        """Record that a valid key was used."""
        self._seen[key_id] = now - now % COARSE

    def holds_until(self, key_id: str, agent_id: str) -> float:
        """Return until when a key that was verified before is valid for the same agent, as long as `revision` stays
        the same: infinity if it does not expire, 0 if it is not valid now.
        """
        record = self._keys.get(key_id)
        if record is None or record.agent_id != agent_id or record.revoked is not None:
            return 0.0
        return record.expires if record.expires is not None else inf

    def holds(self, key_id: str, agent_id: str, now: float) -> bool:
        """Return whether a key that was verified before is still valid for the same agent."""
        return now < self.holds_until(key_id, agent_id)

    async def refresh(self) -> bool:
        """Take over changes of the database; return whether there were any.

        Raises:
            StorageError: it cannot be read; the keys known so far stay.
        """
        if self._source is None:
            return False
        version = await self._source.version()
        if version == self._version:
            return False
        # The version is read first: a change between the two reads is then seen again, not missed.
        self._kept = {key.key_id: key for key in await self._source.all()}
        self._version = version
        self._merge()
        return True

    async def run(self, every: float = REFRESH_EVERY, pause: RefreshPause = asyncio.sleep) -> None:
        """Refresh and write the times of use until cancelled. `problem` holds the reason while that fails."""
        if self._source is None:
            return
        while True:
            try:
                await self.refresh()
            except Exception as error:  # the loop must continue, or no later revocation would be noticed
                self._report_problem(error)
            else:
                if self.problem is not None:
                    log.info("changes of keys are seen again")
                self.problem = None
                await self._note_uses(self._source)
            await pause(every)

    def _report_problem(self, error: Exception) -> None:
        known = isinstance(error, StorageError)
        if self.problem is None:
            log.error("changes of keys are not seen: %s", error, exc_info=None if known else error)
        self.problem = error_text(error) if known else "an error of ours; the log says more"

    async def _note_uses(self, source: KeySource) -> None:
        new = {id: at for id, at in self._seen.items() if id in self._kept and at > (self._kept[id].last_used or 0.0)}
        # The uses of keys of the policy files are kept nowhere else.
        self._seen = {id: at for id, at in self._seen.items() if self.is_written(id)}
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
        self.revision = object()
        self.ever = self.ever or bool(self._keys)


def _has_expired(record: KeyRecord, now: float) -> bool:
    return record.expires is not None and record.expires <= now
