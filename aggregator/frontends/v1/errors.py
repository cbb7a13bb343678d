"""Errors of requests to `/v1`."""


class BadRequest(Exception):
    """A malformed request, no part of which ran.

    `field` is a path into the body (`tool_calls[2].id`), a parameter of the query, or empty for the whole request.
    """

    def __init__(self, field: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.status = status
