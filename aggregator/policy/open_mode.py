"""The ruling without policy files: everything allowed. The frontends then stay on loopback, or ask for a key."""

from typing import Final

from aggregator.domain.decision import Decision
from aggregator.policy.limits import Limits
from aggregator.policy.rulebook import Ruling

OPEN: Final = Ruling(Decision("allow", "open", "there are no policy files: everything is allowed"), (), Limits(), None)
