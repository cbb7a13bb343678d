"""The sign-in attempts of users before they connect an account, each stored with its link.

Law: an attempt counts once, and only in the browser that followed the link.
"""

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.ports import FindServer
from aggregator.accounts.grants.store import GrantStore
from aggregator.accounts.oauth.authorization import LoginAttempt
from aggregator.accounts.storage.records import digest_of

_ENDED: Final = "This sign-in was used already, or has expired."


class SignInAttempts:
    """The attempts, in the database: any process can take the answer to what another began."""

    def __init__(self, store: GrantStore) -> None:
        self._store = store

    async def begin(self, code: str, attempt: LoginAttempt, browser: str) -> None:
        """Keep an attempt with the link of this code, bound to the cookie of a browser.

        Raises:
            ConnectFailed: the link was used, or has expired.
        """
        found = await self._store.connect(code)
        if found is None:
            raise ConnectFailed(_ENDED)
        record, kept = found
        more = {"sign_in": attempt.to_json(), "code": code, "browser": digest_of(browser), "attempt": None}
        if not await self._store.change_connect(record.id, {**kept, **more}, attempt.state):
            raise ConnectFailed(_ENDED)

    async def answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> tuple[str, LoginAttempt]:
        """Return the code of the link and the attempt that an answer belongs to; it is used up, and so by a wrong
        browser.

        Raises:
            ConnectFailed: there is no such attempt, or this is another browser.
        """
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        states = [value for name, value in pairs if name == "state"]
        found = await self._store.connect_of_state(states[0]) if len(states) == 1 else None
        if found is None or not found[1].get("sign_in"):
            raise ConnectFailed(_ENDED)
        record, kept = found
        vault = await self._store.vault()
        if not await vault.connects.take_state(record.id, digest_of(states[0])):
            raise ConnectFailed(_ENDED)
        here = digest_of(browser) if browser is not None else ""
        if not hmac.compare_digest(here, kept["browser"] or "-"):
            raise ConnectFailed("This is not the browser that went on from the link. Nothing was done.")
        return str(kept["code"]), LoginAttempt.from_json(kept["sign_in"])

    async def end(self, code: str, find: FindServer) -> str | None:
        """Remove the link, and return the id of its server, if signing in is its only purpose."""
        found = await self._store.connect(code)
        if found is None:
            return None
        record, kept = found
        server = find(kept["server"])
        if server is None or server.auth is None or not server.auth.how.signs_in:
            return None
        await (await self._store.vault()).connects.remove(record.id)
        return server.id
