"""Who may come in: what a door saw of a request, against the keys and the rulebook in force."""

import time
from collections.abc import Callable
from typing import Final

from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.views.views import Views
from aggregator.identity.identify import Refused, RequestFacts, identify
from aggregator.identity.keyring import Keyring
from aggregator.identity.throttle import Throttle

# In seconds, while keys cannot be checked.
RETRY_AFTER: Final = 5


class Access:
    """`locked` keeps the doors closed to whoever has no key although there seem to be none: keys may have been lost. It
    is the reason, which whoever is on this machine is told, and how to mend it.

    `unread`: the keys of the database are not known yet. `refused` hears of everybody who is not let in.
    """

    def __init__(self, views: Views) -> None:
        self._views = views
        self._throttle = Throttle()
        self.keyring = Keyring()
        self.locked: str | None = None
        self.unread = False
        self.refused: Callable[[RequestFacts, Refused], None] = _unheard

    @property
    def open(self) -> bool:
        """Whether nobody has to say who they are: no policy file, and no key so far."""
        return self._views.rulebook is None and not self.keyring.ever and not self.locked

    @property
    def keyless(self) -> bool:
        """Whether this machine's own requests need no key: nobody's do, or the policies name the agent `local`."""
        return self._unasked and not self.locked

    @property
    def _unasked(self) -> bool:
        book = self._views.rulebook
        return not self.keyring.ever if book is None else book.for_agent(LOCAL.agent_id) is not None

    def holds(self, principal: Principal) -> bool:
        """Whether a caller that was let in by a web door would be let in still.

        That keys cannot be read at the moment ends nothing of those who came in without one.
        """
        if principal.key_id is None:
            return self._unasked
        return self.keyring.holds(principal.key_id, principal.agent_id, time.time())

    def who_needs_no_key(self) -> str:
        """The sentence for the log on who is let in without a key."""
        if not self.keyless:
            return "nobody is let in without a key"
        may = "may do everything" if self._views.rulebook is None else "may do what the policies allow it"
        return (
            f"without a key only this machine is let in, as the agent `{LOCAL.agent_id}`, which {may}; "
            "a request that a proxy passed on needs a key"
        )

    def admit(self, facts: RequestFacts) -> Principal | Refused:
        """The agent behind a request, or why it is not let in."""
        # A key that may be right is no guess.
        throttle = Throttle() if self.unread else self._throttle
        claim = identify(facts, self.keyring, throttle, "open" if self.keyless else "keys", time.time())
        if isinstance(claim, Refused):
            claim = self._explained(claim, facts)
            self.refused(facts, claim)
            return claim
        book = self._views.rulebook
        rules = book.for_agent(claim.agent_id) if book is not None else None
        if rules is None:
            return Principal(claim.agent_id, key_id=claim.key_id)
        return Principal(claim.agent_id, rules.tenant, rules.roles, claim.key_id)

    def _explained(self, refused: Refused, facts: RequestFacts) -> Refused:
        """The refusal of somebody who may well be right, while keys are not known or may have been lost."""
        if self.locked is None or refused.status != 401:
            return refused
        why = self.locked if facts.source.local else "The log of the aggregator says why."
        if self.unread and (facts.authorization or facts.api_key):
            return Refused(503, f"Keys cannot be checked now. {why}", RETRY_AFTER)
        return Refused(401, f"{refused.reason} {why}")


def _unheard(facts: RequestFacts, refused: Refused) -> None:
    """Nobody wants to know."""
