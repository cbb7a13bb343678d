"""The beginning of a long text without secrets, where half a secret would stand at the cut."""

from collections.abc import Callable
from os.path import commonprefix

# Returns a text without secrets.
RedactText = Callable[[str], str]


def beginning(text: str, redact: RedactText, most: int) -> str:
    """Return at most `most` characters from the beginning of a text, without secrets.

    Half a secret at a cut is not recognised. So twice as much is searched, and then once more with an earlier cut: a
    secret that the earlier cut halves is whole in the other text, and both are the same up to there.
    """
    searched = text[: 2 * most]
    redacted = redact(searched)
    if len(text) > 2 * most:
        redacted = commonprefix([redacted, redact(searched[: most + most // 2])])  # noqa: RUF071
    return redacted[:most]
