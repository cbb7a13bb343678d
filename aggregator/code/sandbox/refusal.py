"""The refusal of a program before it begins, since it has a form of Python that programs cannot have."""


class Refusal(Exception):
    """A form that a program cannot have: the line, its name, and what to write instead."""

    def __init__(self, line: int, what: str, instead: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what
        self.instead = instead
