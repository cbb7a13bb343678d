"""A URL of a database whose password is asked for anew at each connection."""

from typing import Protocol


class PasswordOfTheMoment(Protocol):
    """A function that returns the password as it is now. It may take seconds: call it in a thread.

    Raises:
        SecretUnavailable: there is none now.
    """

    def __call__(self) -> str: ...


class LateUrl(str):
    """A URL without its password, which `password` gives as it is, with nothing percent-encoded."""

    password: PasswordOfTheMoment

    def __new__(cls, url: str, password: PasswordOfTheMoment) -> "LateUrl":
        """Return the URL with the source of its password."""
        made = super().__new__(cls, url)
        made.password = password
        return made
