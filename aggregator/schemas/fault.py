"""The findings of a check: a problem in a value, or a schema that cannot be used."""

from dataclasses import dataclass


class UnusableSchema(ValueError):
    """A schema that cannot be used for checks; the message names the fault and its place."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One problem of a value, in words from which a model can correct itself.

    `pointer` is a JSON pointer into the value (RFC 6901), "" for the whole of it; `expected` and `got` are plain
    words and short; `keyword` is the JSON Schema keyword that was not met.
    """

    pointer: str
    expected: str
    got: str
    keyword: str

    def to_object(self) -> dict[str, str]:
        return {"pointer": self.pointer, "expected": self.expected, "got": self.got, "keyword": self.keyword}


def step(pointer: str, key: str | int) -> str:
    """Return a JSON pointer one level deeper (RFC 6901, section 3)."""
    return f"{pointer}/{key}" if isinstance(key, int) else f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
