"""A rate that may be exceeded for a moment. This file decides; it reads no clock."""


class TokenBucket:
    """A rate: `rate` a second in the long run, and `burst` at once."""

    __slots__ = ("_burst", "_held", "_rate", "_since")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = self._held = burst
        self._since: float | None = None

    def allows(self, cost: float, now: float) -> bool:
        """Charge this much if there is room for it now; return whether there was."""
        self._fill(now)
        if self._held < cost:
            return False
        self._held -= cost
        return True

    def charge(self, cost: float, now: float) -> float:
        """Charge a finished action; return the seconds until the rate is kept again."""
        self._fill(now)
        self._held -= cost
        return max(0.0, -self._held / self._rate)

    def _fill(self, now: float) -> None:
        if self._since is not None:
            self._held = min(self._burst, self._held + (now - self._since) * self._rate)
        self._since = now
