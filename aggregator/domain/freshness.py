"""The time that a result may be cached, and by which hosts (S/server/utilities/caching). Ages are arguments.

Law: of several parts the shortest time and the narrowest scope count; without a declaration a result is private.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_TTL: Final = "ttlMs"
_SCOPE: Final = "cacheScope"
# Longer than any host keeps a list.
_LONGEST_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Freshness:
    """The time that a result may be cached: `ttl` in milliseconds; `public`: it may be shared between hosts."""

    ttl: int
    public: bool = False

    def after(self, seconds: float) -> "Freshness":
        """Return the freshness that remains after so many seconds."""
        return Freshness(max(0, self.ttl - int(seconds * 1000)), self.public)

    def hints(self) -> dict[str, Any]:
        """Return the fields of a result that say it."""
        return {_TTL: self.ttl, _SCOPE: "public" if self.public else "private"}


# The rules that shape a list may change at any time: listening hosts are notified, others ask again soon.
OURS: Final = Freshness(5_000, public=True)
OURS_FOR_ONE: Final = Freshness(5_000)


def said(result: Mapping[str, Any]) -> Freshness | None:
    """Return the declared freshness of a result; None without a declaration, as before 2026-07-28."""
    if _TTL not in result and _SCOPE not in result:
        return None
    ttl = result.get(_TTL)
    if not isinstance(ttl, int | float) or isinstance(ttl, bool) or not ttl > 0:
        ttl = 0
    return Freshness(int(min(ttl, _LONGEST_MS)), result.get(_SCOPE) == "public")


def least(parts: Iterable[Freshness]) -> Freshness:
    """Return what holds for all parts together; nothing may be cached of no parts."""
    known = list(parts)
    if not known:
        return Freshness(0)
    return Freshness(min(part.ttl for part in known), all(part.public for part in known))
