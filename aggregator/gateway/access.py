"""Who may come in: what a door saw of a request, against the keys and the rulebook in force."""

import time
from collections.abc import Callable

from aggregator.domain.principal import LOCAL, Principal
from aggregator.gateway.views import Views
from aggregator.identity.identify import Facts, Refused, identify
from aggregator.identity.keyring import Keyring
from aggregator.identity.throttle import Throttle


class Access:
    """`locked` keeps the doors closed to whoever has no key although there seem to be none: keys may have been lost.

    `refused` hears of everybody who is not let in.
    """

    def __init__(self, views: Views) -> None:
        self._views = views
        self._throttle = Throttle()
        self.keyring = Keyring()
        self.locked = False
        self.refused: Callable[[Facts, Refused], None] = _unheard

    @property
    def open(self) -> bool:
        """Whether nobody has to say who they are: no policy file, and no key."""
        return self._views.rulebook is None and not len(self.keyring) and not self.locked

    @property
    def keyless(self) -> bool:
        """Whether this machine's own requests need no key: nobody's do, or the policies name the agent `local`."""
        return self._unasked and not self.locked

    @property
    def _unasked(self) -> bool:
        book = self._views.rulebook
        return not len(self.keyring) if book is None else book.for_agent(LOCAL.agent_id) is not None

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

    def admit(self, facts: Facts) -> Principal | Refused:
        """The agent behind a request, or why it is not let in."""
        claim = identify(facts, self.keyring, self._throttle, "open" if self.keyless else "keys", time.time())
        if isinstance(claim, Refused):
            self.refused(facts, claim)
            return claim
        book = self._views.rulebook
        rules = book.for_agent(claim.agent_id) if book is not None else None
        if rules is None:
            return Principal(claim.agent_id, key_id=claim.key_id)
        return Principal(claim.agent_id, rules.tenant, rules.roles, claim.key_id)


def _unheard(facts: Facts, refused: Refused) -> None:
    """Nobody wants to know."""
