"""The errors of connecting an account."""


class ConnectFailed(Exception):
    """An account cannot be connected now. reason: one sentence for users. transient: trying later may help."""

    def __init__(self, reason: str, *, transient: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.transient = transient
