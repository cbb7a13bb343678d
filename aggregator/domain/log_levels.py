"""The levels of log messages, by which a host filters them (RFC 5424, S/server/utilities/logging)."""

from typing import Any, Final

# The least important first.
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
# What a handshake-era host gets that never said; the text leaves that to the server.
DEFAULT: Final = "info"

_RANKS: Final = {level: rank for rank, level in enumerate(LEVELS)}


def rank(level: Any) -> int | None:
    """Return the rank of a level, from 0; None for an invalid one."""
    return _RANKS.get(level) if isinstance(level, str) else None
