"""Taking known secrets out of text, in every form they may be written in."""

import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

# Shorter values would take half of every line with them.
SHORTEST: Final = 6
REDACTED: Final = "[redacted]"


class Redactor:
    """Knows every value that must not be shown; what has fewer than `shortest` characters is let through."""

    def __init__(self, secrets: Iterable[str], shortest: int = SHORTEST) -> None:
        shapes = {shape for secret in secrets if len(secret) >= shortest for shape in _shapes(secret)}
        longest_first = sorted(shapes, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if shapes else None

    def __call__(self, text: str) -> str:
        """The text without them."""
        return self._secrets.sub(REDACTED, text) if self._secrets is not None else text


def _shapes(secret: str) -> set[str]:
    """A secret as it is, and as `repr`, JSON and addresses would write it."""
    as_json = json.dumps(secret)[1:-1]
    return {secret, repr(secret)[1:-1], as_json, repr(as_json)[1:-1], quote(secret, safe=""), quote_plus(secret)}
