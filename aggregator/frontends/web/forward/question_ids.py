"""Ids of our questions to hosts: from one it can be told which replica asked."""

import itertools
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aggregator.replicas.membership import Membership
from aggregator.storage.records import ReplicaRecord

# Ids are whole numbers that any host reads and writes without loss: a prefix of the process, and a count.
_PREFIXES: Final = 9_000_000
_COUNTED: Final = 10**8
_FACT: Final = "asks"


class QuestionIds:
    """The ids of this process. No other one asks with the same, so that an answer is never taken for another's."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._prefix = 1 + secrets.randbelow(_PREFIXES)
        self.numbers: Iterator[int] = itertools.count(self._prefix * _COUNTED + 1)
        membership.say(self._facts)

    def __repr__(self) -> str:
        return f"<QuestionIds from {self._prefix * _COUNTED}>"

    def asker(self, request_id: object) -> int | None:
        """Return the prefix of the other process that asked with this id; None if no other can have."""
        if isinstance(request_id, str) and request_id.isascii() and request_id.isdecimal() and len(request_id) < 16:
            request_id = int(request_id)
        if not isinstance(request_id, int):
            return None
        prefix = request_id // _COUNTED
        return prefix if 1 <= prefix <= _PREFIXES and prefix != self._prefix else None

    async def owner(self, asker: int) -> ReplicaRecord | None:
        """Return the replica that has this prefix; None if it is gone. Waits while the database cannot say."""
        return await self._membership.find(lambda one: one.facts.get(_FACT) == asker)

    def _facts(self) -> Mapping[str, Any]:
        return {_FACT: self._prefix}
