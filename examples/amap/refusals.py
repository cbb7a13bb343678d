"""The one error the canned tools raise for a caller's mistake."""

from collections.abc import Iterable
from difflib import get_close_matches


class Refusal(Exception):
    """A mistake in the arguments, with what to send instead; it becomes an `isError` result."""


def near(wanted: str, names: Iterable[str], otherwise: int = 5) -> str:
    """Names like the wanted one, or the first few there are, for the end of a message."""
    known = list(dict.fromkeys(name for name in names if name))
    close = [name for name in known if wanted and (name in wanted or wanted in name)]
    close += [name for name in get_close_matches(wanted, known, n=3, cutoff=0.3) if name not in close]
    return f"是否指：{'、'.join(close[:5])}？" if close else f"可以试试：{'、'.join(known[:otherwise])}。"
