"""Authentication: the credentials of a request against the keys and the rulebook in force."""

import time
from dataclasses import dataclass
from typing import Final, Protocol

from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.views.views import Views
from aggregator.identity.identify import Refused, RequestFacts, identify
from aggregator.identity.keyring import Keyring
from aggregator.identity.throttle import Throttle

# The seconds in `Retry-After` while keys cannot be checked.
RETRY_AFTER: Final = 5


class RefusalObserver(Protocol):
    """The audit of refused requests."""

    def login_refused(self, facts: RequestFacts, refused: Refused) -> None:
        """Record a request that failed authentication."""


@dataclass(frozen=True, slots=True)
class Authentication:
    """An authentication that succeeded. `terms` stands for what it depended on besides the request and the clock."""

    principal: Principal
    terms: object


class Access:
    """The authentication of requests: it turns credentials into principals.

    `locked` is a reason to refuse all requests without a key although no key is known: keys may have been lost.
    Requests from this machine are told the reason and its remedy. `unread`: the keys of the database have not been read
    yet.
    """

    def __init__(self, views: Views, observer: RefusalObserver | None = None) -> None:
        self._views = views
        self._throttle = Throttle()
        self.keyring = Keyring()
        self.locked: str | None = None
        self.unread = False
        # The keys, the policies and the lock that `_same_terms` stands for.
        self._of_keys: object = None
        self._of_rulebook: object = None
        self._of_lock: str | None = None
        self._same_terms = object()
        self._observer = observer

    @property
    def open(self) -> bool:
        """True if no request needs a key: there is no policy file, and there never was a key."""
        return self._views.rulebook is None and not self.keyring.ever and not self.locked

    @property
    def keyless(self) -> bool:
        """True if requests from this machine need no key: no key exists, or the policies name the agent `local`."""
        return self._unasked and not self.locked

    @property
    def _unasked(self) -> bool:
        rulebook = self._views.rulebook
        return not self.keyring.ever if rulebook is None else rulebook.for_agent(LOCAL.agent_id) is not None

    def holds(self, principal: Principal) -> bool:
        """Return whether a principal that was authenticated over the web would be again.

        Keys that cannot be read at the moment end nothing that runs for principals without a key.
        """
        if principal.key_id is None:
            return self._unasked
        return self.keyring.holds(principal.key_id, principal.agent_id, time.time())

    def keyless_text(self) -> str:
        """Return the sentence for the log about access without a key."""
        if not self.keyless:
            return "nobody is let in without a key"
        may = "may do everything" if self._views.rulebook is None else "may do what the policies allow it"
        return (
            f"without a key only this machine is let in, as the agent `{LOCAL.agent_id}`, which {may}; "
            "a request that a proxy passed on needs a key"
        )

    def authenticate(self, facts: RequestFacts) -> Principal | Refused:
        """Return the principal behind a request, or the reason for its refusal."""
        # While keys are not read, a key may be valid and must not count as a guess.
        throttle = Throttle() if self.unread else self._throttle
        claim = identify(facts, self.keyring, throttle, "open" if self.keyless else "keys", time.time())
        if isinstance(claim, Refused):
            claim = self._explained(claim, facts)
            if self._observer is not None:
                self._observer.login_refused(facts, claim)
            return claim
        rulebook = self._views.rulebook
        rules = rulebook.for_agent(claim.agent_id) if rulebook is not None else None
        if rules is None:
            return Principal(claim.agent_id, key_id=claim.key_id)
        return Principal(claim.agent_id, rules.tenant, rules.roles, claim.key_id)

    def authentication(self, principal: Principal) -> Authentication:
        """Return what `repeated` needs of a principal that was authenticated in this moment."""
        return Authentication(principal, self._terms())

    def repeated(self, before: Authentication) -> Principal | None:
        """Return the principal of a request with the credentials, the source and the endpoint of an earlier one.

        None if keys, policies or the lock changed since, or the key expired: `authenticate` then says what holds now.
        """
        if before.terms is not self._terms():
            return None
        principal = before.principal
        if principal.key_id is None or self.keyring.use_again(principal.key_id, principal.agent_id, time.time()):
            return principal
        return None

    def _terms(self) -> object:
        """Return an object that stands for the keys, the policies and the lock: another one once they are others.

        What is remembered with it keeps no rulebook alive that was replaced.
        """
        keys, rulebook, locked = self.keyring.revision, self._views.rulebook, self.locked
        if keys is not self._of_keys or rulebook is not self._of_rulebook or locked != self._of_lock:
            self._of_keys, self._of_rulebook, self._of_lock = keys, rulebook, locked
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
