"""Authentication: the credentials of a request against the keys, the tokens and the rulebook in force."""

import asyncio
import logging
import time
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, cast

from aggregator.config.auth.issuers import AuthConfig
from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.principal import LOCAL, Principal, TokenFacts
from aggregator.gateway.views.views import Views
from aggregator.identity.identify import INVALID_TOKEN, Mode, Refused, RequestFacts, SentToken, identify, slowed
from aggregator.identity.keyring import Keyring
from aggregator.identity.throttle import LONGEST, Throttle, peer_group
from aggregator.identity.tokens.rejection import Rejection, Unverified

if TYPE_CHECKING:
    from aggregator.identity.tokens.verifier import TokenVerifier, VerifiedToken

log = logging.getLogger(__name__)

# The seconds in `Retry-After` while keys cannot be checked.
RETRY_AFTER: Final = 5
# Checks of tokens a second for all throttled senders together: a valid token of theirs is still accepted.
_CHECKS: Final = 100.0
# Tokens of one sender that wait for issuers at once, also of a throttled one: a flood of them does not delay the tokens
# of others.
_WAITING_OF_ONE: Final = 64
_WAITING_OF_SLOWED: Final = 2
# Seconds between two looks at the age of issuers' keys.
_LOOK_EVERY: Final = 20.0

_UNKNOWN: Final = Refused(
    403, "This token is good, but nothing here says who its owner is. The log of the aggregator says more."
)
_OTHERS: Final = Refused(403, "This token is not for this agent's endpoint.")
_UNVERIFIED: Final = Refused(503, "Tokens cannot be checked now: their issuer cannot be asked.", RETRY_AFTER)
_AGAIN: Final = Refused(401, "This token has to be checked again: send the request once more.", error=INVALID_TOKEN)


class RefusalObserver(Protocol):
    """The audit of refused requests."""

    def login_refused(self, facts: RequestFacts, refused: Refused) -> None:
        """Record a request that failed authentication."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """A successful authentication. `terms` stands for its dependencies besides the request and the clock.

    since, until: seconds since 1970 before and after which it has to be repeated.
    """

    principal: Principal
    terms: object
    until: float = inf
    since: float = 0.0


class Access:
    """The authentication of requests: it turns credentials into principals.

    `locked` is a reason to refuse all requests without a key although no keys exist: keys may have been lost.
    Requests from this machine get the reason and its remedy. `unread`: the keys of the database have not been read yet.
    """

    def __init__(self, views: Views, observer: RefusalObserver | None = None) -> None:
        self._views = views
        self._throttle = Throttle()
        self._spare = TokenBucket(_CHECKS, _CHECKS)
        self._waiting: dict[str, int] = {}
        self.keyring = Keyring()
        # None if no issuer's tokens are accepted.
        self.tokens: TokenVerifier | None = None
        self._accepting = False
        self.locked: str | None = None
        self.unread = False
        # The keys, the policies and the lock that `_same_terms` stands for.
        self._of_keys: object = None
        self._of_rulebook: object = None
        self._of_lock: str | None = None
        self._of_tokens: object = None
        self._same_terms = object()
        self._observer = observer

    def reconfigure(self, config: AuthConfig) -> None:
        """Accept the tokens of these issuers in place of others, if tokens are accepted at all."""
        if self._accepting:
            self.accept(config)

    def accept(self, config: AuthConfig) -> None:
        """Accept the tokens of these issuers from now on, and no others; called if there is a web frontend."""
        self._accepting = True
        if not config.issuers:
            self.tokens = None
        elif self.tokens is None or self.tokens.config != config:
            from aggregator.identity.tokens.verifier import TokenVerifier

            self.tokens = TokenVerifier(config, before=self.tokens)

    @property
    def open(self) -> bool:
        """True if no request needs a key: there is no policy file, no issuer, and there never was a key."""
        return self._views.rulebook is None and self.keyless

    @property
    def keyless(self) -> bool:
        """True if requests from this machine need no key: the policies name the agent `local`, or there are neither
        policies nor keys nor issuers.
        """
        return self._unasked and not self.locked

    @property
    def _unasked(self) -> bool:
        rulebook = self._views.rulebook
        if rulebook is None:
            return not self.keyring.ever and self.tokens is None
        return rulebook.for_agent(LOCAL.agent_id) is not None

    def holds(self, principal: Principal) -> bool:
        """Return whether a principal that was authenticated over the web would be again.

        Keys that cannot be read at the moment end nothing that runs for principals without a key. What runs for the
        owner of a token goes on with a newer one.
        """
        if principal.token is not None:
            return self._holds_token(principal, principal.token)
        if principal.key_id is None:
            return self._unasked
        return self.keyring.holds(principal.key_id, principal.agent_id, time.time())

    def keyless_text(self) -> str:
        """Return the sentence for the log about access without a key."""
        if not self.keyless:
            return f"requests without a key{' or a token' if self.tokens is not None else ''} are refused"
        may = "may do everything" if self._views.rulebook is None else "may do what the policies allow it"
        return (
            f"without a key, only requests from this machine are accepted, as the agent `{LOCAL.agent_id}`, which "
            f"{may}; a request that a proxy forwarded needs a key"
        )

    def authenticate(self, facts: RequestFacts) -> Principal | Refused:
        """Return the principal behind a request, or the reason for its refusal, without waiting: a token that needs its
        issuer is refused (`admit`).
        """
        found = self._found(facts)
        return self._refused(facts, _AGAIN) if isinstance(found, SentToken) else found

    async def admit(self, facts: RequestFacts) -> Principal | Refused:
        """Return the principal behind a request, or the reason for its refusal; wait for the token's issuer if
        necessary.
        """
        found = self._found(facts)
        if not isinstance(found, SentToken):
            return found
        assert self.tokens is not None, "tokens are found only where they are accepted"
        sender = peer_group(facts.source.address)
        waiting, slow = self._waiting.get(sender, 0), self._throttle.waits(facts.source.address, time.time())
        if waiting >= (_WAITING_OF_SLOWED if slow else _WAITING_OF_ONE):
            return self._refused(facts, slowed(1.0))
        self._waiting[sender] = waiting + 1
        try:
            checked = await self.tokens.verify(found.text)
        finally:
            self._waiting[sender] -= 1
            if not self._waiting[sender]:
                del self._waiting[sender]
        return self._of_checked(checked, facts)

    def _found(self, facts: RequestFacts) -> Principal | Refused | SentToken:
        """Return the result without waiting; a token that needs its issuer is returned unverified."""
        # While keys are not read, a key may be valid and must not count as a guess.
        throttle, now = Throttle() if self.unread else self._throttle, time.time()
        mode: Mode = "open" if self.keyless else "keys"
        tokens = self.tokens
        claim = identify(facts, self.keyring, throttle, mode, now, tokens=tokens is not None)
        if isinstance(claim, SentToken):
            assert tokens is not None, "tokens are found only where they are accepted"
            known = tokens.known(claim.text, now)
            if known is not None:
                return self._of_token(known, facts)
            if self._throttle.waits(facts.source.address, now) and not self._spare.allows(1.0, now):
                return self._refused(facts, slowed(LONGEST))
            checked = tokens.check(claim.text, now)
            return claim if checked is None else self._of_checked(checked, facts)
        if isinstance(claim, Refused):
            return self._refused(facts, self._explained(claim, facts))
        return self._known(claim.agent_id, claim.key_id)

    def _refused(self, facts: RequestFacts, refused: Refused) -> Refused:
        """Return a refusal, once it is recorded."""
        if self._observer is not None:
            self._observer.login_refused(facts, refused)
        return refused

    def _of_checked(
        self, checked: "VerifiedToken | Rejection | Unverified", facts: RequestFacts
    ) -> Principal | Refused:
        """Return what becomes of a token that was checked."""
        if isinstance(checked, Unverified):
            return self._refused(facts, _UNVERIFIED)
        if not isinstance(checked, Rejection):
            return self._of_token(checked, facts)
        wait = self._throttle.failed(facts.source.address, time.time()) if checked.guessed else 0.0
        return self._refused(facts, slowed(wait) if wait else Refused(401, checked.reason, error=INVALID_TOKEN))

    def _of_token(self, verified: "VerifiedToken", facts: RequestFacts) -> Principal | Refused:
        """Return the principal that a verified token stands for under the rulebook in force."""
        terms = self._terms()
        if verified.terms is not terms:
            verified.principal, verified.terms = self._owner(verified.facts), terms
        principal = cast("Principal | None", verified.principal)
        if principal is None:
            return self._refused(facts, _UNKNOWN)
        if facts.endpoint_agent not in (None, principal.agent_id):
            return self._refused(facts, _OTHERS)
        return principal

    def _owner(self, token: TokenFacts) -> Principal | None:
        """Return the principal that the rules `who` say a token stands for; None if there is none."""
        rulebook = self._views.rulebook
        if rulebook is None:
            log.warning("a token of %s is refused: without policy files nothing says who is who", token.issuer)
            return None
        found = rulebook.who(token, one_issuer=self.tokens is None or len(self.tokens.config.issuers) == 1)
        if found.agent_id is None:
            log.warning("a token of %s for %r is refused: %s", token.issuer, token.subject, found.reason)
            return None
        rules = rulebook.for_token(found)
        return Principal(found.agent_id, rules.tenant, rules.roles, token=token) if rules is not None else None

    def _holds_token(self, principal: Principal, token: TokenFacts) -> bool:
        """Tell whether the owner of a token would be accepted as the same principal."""
        facts = self.tokens.still(token, time.time()) if self.tokens is not None else None
        if facts is None:
            return False
        known = self.tokens.known(facts.text, time.time()) if self.tokens is not None and facts.text else None
        made = known is not None and known.terms is self._terms()
        owner = cast("Principal | None", known.principal) if known is not None and made else self._owner(facts)
        if owner is None:
            return False
        return (owner.agent_id, owner.tenant, owner.roles) == (principal.agent_id, principal.tenant, principal.roles)

    def let_in(self, agent_id: str, key_id: str | None, token: TokenFacts | None = None) -> Principal | None:
        """Return the principal that another replica has authenticated; None if it is not let in here."""
        if token is not None:
            owner = self._owner(token) if self.tokens is not None and key_id is None else None
            if owner is None or owner.agent_id != agent_id or self.tokens is None:
                return None
            self.tokens.note(token)
            return owner if self.holds(owner) else None
        principal = self._known(agent_id, key_id)
        return principal if self.holds(principal) and (key_id is not None or agent_id == LOCAL.agent_id) else None

    async def run(self) -> None:
        """Keep the keys of issuers up to date until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            if self.tokens is not None:
                await self.tokens.refresh()

    def _known(self, agent_id: str, key_id: str | None) -> Principal:
        """Return a principal with the tenant and roles that the policies give its agent."""
        rulebook = self._views.rulebook
        rules = rulebook.for_agent(agent_id) if rulebook is not None else None
        if rules is None:
            return Principal(agent_id, key_id=key_id)
        return Principal(agent_id, rules.tenant, rules.roles, key_id)

    def authentication(self, principal: Principal) -> Authentication:
        """Return what `repeated` needs of a principal that was authenticated in this moment."""
        since, until = 0.0, inf
        if principal.token is not None:
            known = self.tokens.known(principal.token.text, time.time()) if self.tokens is not None else None
            since, until = (known.since, known.until) if known is not None else (0.0, 0.0)
        elif principal.key_id is not None:
            until = self.keyring.holds_until(principal.key_id, principal.agent_id)
        return Authentication(principal, self._terms(), until, since)

    def repeated(self, before: Authentication) -> Principal | None:
        """Return the principal of a request with the credentials, the source and the endpoint of an earlier one.

        None if keys, policies or the lock changed since, or the key or the token expired: `authenticate` then says what
        holds now.
        """
        if before.terms is not self._terms():
            return None
        principal = before.principal
        if principal.key_id is None and principal.token is None:
            return principal
        now = time.time()
        if not before.since <= now < before.until:
            return None
        if principal.key_id is not None:
            self.keyring.note_use(principal.key_id, now)
        return principal

    def _terms(self) -> object:
        """Return an object that stands for the keys, the policies, the issuers' keys and the lock: another one once
        they are others.

        What is remembered with it keeps no rulebook alive that was replaced.
        """
        keys, rulebook, locked = self.keyring.revision, self._views.rulebook, self.locked
        tokens = self.tokens.revision if self.tokens is not None else None
        if (
            keys is not self._of_keys
            or rulebook is not self._of_rulebook
            or locked != self._of_lock
            or tokens is not self._of_tokens
        ):
            self._of_keys, self._of_rulebook, self._of_lock, self._of_tokens = keys, rulebook, locked, tokens
            self._same_terms = object()
        return self._same_terms

    def _explained(self, refused: Refused, facts: RequestFacts) -> Refused:
        """Add the reason to a refusal while keys are not known or may have been lost."""
        if self.locked is None or refused.status != 401:
            return refused
        why = self.locked if facts.source.local else "The log of the aggregator says why."
        if self.unread and (facts.authorization or facts.api_key):
            return Refused(503, f"Keys cannot be checked now. {why}", RETRY_AFTER)
        return Refused(401, f"{refused.reason} {why}")
