"""The text of an exception for display: never empty, since every reason needs a text."""


def error_text(error: BaseException) -> str:
    """Return the message of an exception, or its type if it has none, like `TimeoutError()`."""
    said = str(error)
    return said if said.strip() else type(error).__name__
