"""Names for the sessions of hosts, by which another replica tells them apart."""

import secrets
from collections.abc import Hashable
from typing import Final

from aggregator.domain.bounds.lru import LruCache
from aggregator.upstream.caller import Caller
from aggregator.upstream.places.messages import CallerFacts

# Sessions beyond so many get another name when they call again: another session at the server, never one of others.
_AT_MOST: Final = 10_000


class SessionNames:
    """The names that this replica gave, and the hosts that they stand for."""

    def __init__(self) -> None:
        self._names: LruCache[Hashable, str] = LruCache(_AT_MOST)
        self._callers: LruCache[str, Caller] = LruCache(_AT_MOST)

    def __repr__(self) -> str:
        return f"<SessionNames: {len(self._names)}>"

    def facts(self, caller: Caller) -> CallerFacts:
        """Return what another replica has to know of a caller."""
        outside = caller.for_session()
        session = self._name(caller.session) if caller.session is not None else None
        if session is not None and outside is not None:
            self._callers.put(session, outside)
        identity = session if session is not None else repr(caller.identity)
        return CallerFacts(
            caller.agent,
            session,
            identity,
            caller.era,
            caller.abilities,
            caller.level,
            outside is not None,
            caller.account("user").key,
            caller.account("agent").key,
        )

    def caller(self, name: str) -> Caller | None:
        """Return the host with this name, for messages that belong to no call of it."""
        return self._callers.get(name)

    def known(self, session: Hashable) -> str | None:
        """Return the name that a session has by now."""
        return self._names.get(session)

    def forget(self, session: Hashable) -> str | None:
        """Let go of a session that has ended; return the name that it had."""
        name = self._names.pop(session)
        if name is not None:
            self._callers.pop(name)
        return name

    def _name(self, session: Hashable) -> str:
        name = self._names.get(session)
        if name is None:
            name = secrets.token_hex(12)
            self._names.put(session, name)
        return name
