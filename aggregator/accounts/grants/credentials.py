"""The credentials of one owner for one server: the token for the next request, and the meaning of a refusal."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.failures import Failure, TokenFailed, login_required, unavailable
from aggregator.accounts.grants.ports import HideCredentials, hide_nothing
from aggregator.accounts.grants.tokens import AccessToken
from aggregator.accounts.oauth.challenges import Challenge, bearer
from aggregator.accounts.oauth.scopes import stepped_up
from aggregator.domain.bounds.tasks import Tasks
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

_FORBIDDEN: Final = 403
# Seconds that a failure is repeated without a new attempt: initial and maximum.
_PAUSE: Final = 1.0
_PAUSE_AT_MOST: Final = 60.0
# Seconds after which a token that was got because of a refusal may be replaced because of another.
_REPLACED_AFTER: Final = 60.0
# What a server meant that refused a request and said no more.
_UNSAID: Final = Challenge("bearer", {})


class TokenSource(Protocol):
    """The source of tokens for accounts: users' grants, or the aggregator's own account.

    asks_person: only a user can agree to more scopes.
    """

    asks_person: bool

    async def token(
        self, account: Account, held: AccessToken | None, challenge: Challenge | None, *, forced: bool
    ) -> AccessToken | None:
        """Return a usable token; None if the account was never connected. forced: the server refused `held`.

        Raises:
            TokenFailed: there is none.
            StorageError: the database failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The end of one attempt to get a token, for all who waited."""

    token: AccessToken | None = None
    failure: Failure | None = None


class GrantCredentials:
    """The credentials of one owner for one server; see `upstream.credentials.Credentials`.

    challenge: the last one by which the server refused a request; None until then.
    """

    def __init__(
        self, account: Account, source: TokenSource, tasks: Tasks, hide: HideCredentials = hide_nothing
    ) -> None:
        self.account = account
        self.challenge: Challenge | None = None
        self._source = source
        self._hide = hide
        self._tasks = tasks
        self._token: AccessToken | None = None
        self._getting: asyncio.Task[_Outcome] | None = None
        self._failure: Failure | None = None
        self._failed_until = 0.0
        self._failures = 0
        # Counts how often the cached state was dropped.
        self._age = 0
        # The account was not connected at the last look.
        self._unconnected = False
        # A request was refused for its token, or for having none.
        self._wanted = False
        self._replaced: tuple[str, float] | None = None

    def __repr__(self) -> str:
        return f"<GrantCredentials of {self.account.owner} for {self.account.server.id}>"

    @property
    def header(self) -> str | None:
        """See `Credentials`."""
        token, now = self._token, time.time()
        if token is None or not token.usable(now):
            return None
        if token.due(now) and self._getting is None and time.monotonic() >= self._failed_until:
            self._begin(forced=False)
        return token.header

    @property
    def asked(self) -> tuple[str, ...]:
        """The scopes requested with the current token."""
        return self._token.asked if self._token is not None else ()

    async def ready(self) -> None:
        """See `Credentials`. Without a grant it returns at once until the server has refused a request once."""
        if self.header is not None or (self._unconnected and not self._wanted):
            return
        if await self._get(forced=False) is None and self._wanted:
            raise login_required(self.account.server.id, self.account.owner)()

    async def refused(self, sent: str | None, status: int, challenges: Sequence[str]) -> bool:
        """See `Credentials`."""
        challenge = bearer(challenges)
        if status == _FORBIDDEN:
            return await self._step_up(sent, challenge)
        self.challenge = challenge or self.challenge or _UNSAID
        self._wanted, self._unconnected = True, False
        if self._is_newer(sent):
            return True
        server, owner = self.account.server.id, self.account.owner
        if sent is not None and self._replaced is not None:
            header, at = self._replaced
            if header == sent and time.monotonic() - at < _REPLACED_AFTER:
                raise login_required(server, owner, "the server does not accept even a new token of it")()
        token = await self._get(forced=sent is not None)
        if token is not None and token.header == sent:
            # Another attempt was under way, which only looked.
            token = await self._get(forced=True)
        if token is None:
            raise login_required(server, owner)()
        if sent is not None and token.header != sent:
            self._replaced = token.header, time.monotonic()
        return token.header != sent

    async def _step_up(self, sent: str | None, challenge: Challenge | None) -> bool:
        """Request the scopes that the server demands, unless they were requested already."""
        if challenge is None or challenge.params.get("error") != "insufficient_scope":
            return False
        if self._is_newer(sent):
            return True
        scopes = stepped_up(self.asked, challenge.scopes) or ()
        if not set(scopes) - set(self.asked):
            return False
        if self._source.asks_person:
            self.challenge = challenge
            why = "the server wants more rights for this"
            raise login_required(self.account.server.id, self.account.owner, why, scopes)()
        self.challenge = Challenge(challenge.scheme, {**challenge.params, "scope": " ".join(scopes)})
        token = await self._get(forced=True)
        return token is not None and token.header != sent

    def _is_newer(self, sent: str | None) -> bool:
        """Return True if the request had another token than the one that there is by now."""
        held = self._token
        return held is not None and sent is not None and held.header != sent and held.usable(time.time())

    def changed(self) -> None:
        """Look anew with the next request: the account was connected, or is not any more."""
        self._age += 1
        self._token = self._failure = self._replaced = self._getting = None
        self._failed_until, self._failures = 0.0, 0
        self._unconnected = False

    async def _get(self, *, forced: bool) -> AccessToken | None:
        """Return a usable token, fetched by one task for all waiters; None if the account is not connected."""
        if self._failure is not None and time.monotonic() < self._failed_until:
            raise self._failure()
        if self._getting is None:
            self._begin(forced=forced)
        assert self._getting is not None
        outcome = await asyncio.shield(self._getting)
        if outcome.failure is not None:
            raise outcome.failure()
        return outcome.token

    def _begin(self, *, forced: bool) -> None:
        self._getting = self._tasks.start(self._obtain(self._age, forced=forced))

    async def _obtain(self, age: int, *, forced: bool) -> _Outcome:
        """Get a token, for those who wait; it is kept unless the account was changed meanwhile."""
        lasting, retry_after = False, None
        try:
            token = await self._source.token(self.account, self._token, self.challenge, forced=forced)
            if token is not None:
                # Before any request can use it, so that redaction recognises it in answers.
                await self._hide(self.account.source, {"access_token": token.header.partition(" ")[2]})
            outcome = _Outcome(token)
        except TokenFailed as failed:
            outcome, lasting, retry_after = _Outcome(failure=failed.failure), not failed.passes, failed.retry_after
        except StorageError as error:
            outcome = _Outcome(
                failure=unavailable(self.account.server.id, f"its tokens cannot be read or stored. {error}")
            )
        except Exception:
            log.exception("a token for %s could not be got", self.account.server.id)
            outcome = _Outcome(failure=unavailable(self.account.server.id, "the aggregator failed to get a token"))
        if age == self._age:
            self._keep(outcome, lasting=lasting, retry_after=retry_after)
        return outcome

    def _keep(self, outcome: _Outcome, *, lasting: bool, retry_after: float | None) -> None:
        self._getting = None
        self._failure = outcome.failure
        if outcome.failure is None:
            self._token, self._unconnected, self._failures = outcome.token, outcome.token is None, 0
            return
        if lasting:
            self._token = None
        self._failures += 1
        pause = retry_after if retry_after is not None else _PAUSE * 2 ** min(self._failures - 1, 6)
        self._failed_until = time.monotonic() + min(pause, _PAUSE_AT_MOST)
