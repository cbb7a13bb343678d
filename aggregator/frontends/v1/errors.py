"""What is wrong with a request as such: it names the field, and nothing of the request is done."""


class BadRequest(Exception):
    """`field` is a path into the body (`tool_calls[2].id`), a parameter of the query, or empty for the whole."""

    def __init__(self, field: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.status = status
