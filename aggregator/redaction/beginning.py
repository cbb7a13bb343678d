"""The beginning of a long text without secrets, where half a secret would stand at the cut."""

from collections.abc import Callable

# Returns a text without secrets.
RedactText = Callable[[str], str]


def beginning(text: str, redact: RedactText, most: int) -> str:
    """Return at most `most` characters from the beginning of a text, without secrets.

    Twice as much is searched, and the text just before the cut is dropped: half a secret is not recognised.
    """
    redacted = redact(text[: 2 * most])
    if len(text) > 2 * most:
        redacted = redacted[: max(0, len(redacted) - most)]
    return redacted[:most]
