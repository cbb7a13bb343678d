"""The text of an exception, for people: never empty, since no reason that is given may be."""


def error_text(error: BaseException) -> str:
    """Return what an exception says; its type if it says nothing, as `TimeoutError()` does."""
    said = str(error)
    return said if said.strip() else type(error).__name__
