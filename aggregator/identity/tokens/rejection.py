"""The reasons why a token lets no one in; nothing of the token is in them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """A token that is not accepted.

    reason: a sentence for the host. guessed: nothing shows that an issuer made the token, so it counts as a guess.
    """

    reason: str
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Unverified:
    """A token that cannot be judged now, since its issuer is unreachable.

    reason: a sentence for the log; hosts get less detail.
    """

    reason: str


class TokenRejected(Exception):
    """The check of a token ended with a rejection."""

    def __init__(self, reason: str, *, guessed: bool = False) -> None:
        super().__init__(reason)
        self.rejection = Rejection(reason, guessed)


class IssuerUnavailable(Exception):
    """An issuer gave no keys, or no answer about a token; the text says why, for the log."""
