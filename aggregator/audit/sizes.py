"""The size and the digest of a value's JSON, computed in pieces if it is large: no piece blocks other threads for
long.
"""

from hashlib import sha256
from typing import Any

from aggregator.domain.bounds.small import is_small
from aggregator.wire.codec import encode
from aggregator.wire.pieces import pieces


def measure(value: Any) -> tuple[int, str]:
    """Return how many bytes the value takes as JSON, and their SHA-256 in hexadecimal.

    Raises:
        ValueError, TypeError, RecursionError: the value is nested too deeply, or nothing that JSON has.
    """
    if is_small(value):
        text = encode(value)
        return len(text), sha256(text).hexdigest()
    size, digest = 0, sha256()
    for piece in pieces(value):
        size += len(piece)
        digest.update(piece)
    return size, digest.hexdigest()
