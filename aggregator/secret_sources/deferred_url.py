"""A URL of a database whose password is resolved anew at each connection."""

from collections.abc import Callable

# Returns the current password. It may take seconds: call it in a thread. Raises: SecretUnavailable: there is none
# now.
PasswordSource = Callable[[], str]


class DeferredUrl(str):
    """A URL without its password; `password` returns it unencoded, without percent-escapes."""

    password: PasswordSource

    def __new__(cls, url: str, password: PasswordSource) -> "DeferredUrl":
        """Return the URL with the source of its password."""
        made = super().__new__(cls, url)
        made.password = password
        return made
