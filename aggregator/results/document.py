"""A whole result as one text and one value: what pages are read from, and what is kept of it.

Law: the text is made of the result alone, so that an offset means the same in every process.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

import msgspec

from aggregator.wire.codec import TooDeep, decode, encode, encode_sorted

# Stands between the texts of two blocks.
SEPARATOR: Final = "\n"
# Larger JSON texts are compared by their characters alone: as values they would take several times the memory.
_COMPARED_AS_VALUES: Final = 4_000_000
_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text of a result: where it stands in the document's text, and its block; None for the structured result."""

    start: int
    end: int
    block: int | None


@dataclass(frozen=True)
class ResultDocument:
    """A result with its text: every text block and embedded text resource, joined by line breaks.

    A structured result follows as JSON text, unless a text block says the same. `parts` are the texts in order.
    """

    result: Mapping[str, Any]
    text: str
    parts: tuple[TextPart, ...] = field(repr=False)

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Self:
        """Return the document of a result of `tools/call`; what is no text in it is left to the result."""
        texts: list[str] = []
        parts: list[TextPart] = []
        at = 0
        for index, text in _texts(result):
            parts.append(TextPart(at, at + len(text), index))
            texts.append(text)
            at += len(text) + len(SEPARATOR)
        return cls(result, SEPARATOR.join(texts), tuple(parts))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the document that `to_bytes` was called on."""
        return cls.of(decode(zlib.decompress(data), float("inf")))

    def to_bytes(self) -> bytes:
        """Return the whole result, compressed; what JSON has no form for, such as NaN, is null as on the wire.

        Raises:
            TooDeep: the result is nested too deeply.
        """
        return zlib.compress(encode(self.result), _LEVEL)

    @cached_property
    def data(self) -> Any:
        """The structured value: of the result, else of its text where that is JSON; `msgspec.UNSET` where neither is.

        Values inside may be `msgspec.Raw`, JSON text that is not decoded yet.
        """
        if "structuredContent" in self.result and self.result["structuredContent"] is not None:
            return self.result["structuredContent"]
        try:
            return decode(self.text.encode())
        except (ValueError, TooDeep):
            return msgspec.UNSET


def text_of(block: Any) -> str | None:
    """Return the text of a content block: its own, or that of the resource embedded in it."""
    if not isinstance(block, Mapping):
        return None
    kind = block.get("type")
    holder = block if kind == "text" else block.get("resource") if kind == "resource" else None
    text = holder.get("text") if isinstance(holder, Mapping) else None
    return text if isinstance(text, str) else None


def _texts(result: Mapping[str, Any]) -> Iterator[tuple[int | None, str]]:
    content = result.get("content")
    found = []
    for index, block in enumerate(content if isinstance(content, list) else ()):
        text = text_of(block)
        if text is not None:
            found.append(text)
            yield index, text
    structured = result.get("structuredContent")
    if structured is not None and not _says(found, structured):
        yield None, encode(structured).decode()


def _says(texts: list[str], structured: Any) -> bool:
    """Return whether the text blocks say what the structured result does."""
    for text in texts:
        if len(text) <= _COMPARED_AS_VALUES:
            try:
                if encode_sorted(decode(text.encode("utf-8", "surrogatepass"))) == encode_sorted(structured):
                    return True
            except (ValueError, TooDeep):
                continue
    return False
