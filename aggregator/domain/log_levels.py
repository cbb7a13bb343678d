"""The levels of log messages, by which a host chooses what it is sent (RFC 5424, S/server/utilities/logging)."""

from typing import Any, Final

# The least important first.
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
# What a handshake-era host gets that never said; the text leaves that to the server.
DEFAULT: Final = "info"

_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}


def rank(level: Any) -> int | None:
    """Return how important a level is, from 0; None for what is no level."""
    return _RANKS.get(level) if isinstance(level, str) else None
