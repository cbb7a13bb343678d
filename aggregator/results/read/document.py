"""A whole result as one text and one value: the source of its pages and the stored form.

Law: the text depends on the result alone, so that an offset means the same in every process.
"""

import re
import zlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Final, Self

import msgspec

from aggregator.results.read.forms import Form, Quotes, TextSpan, spans
from aggregator.results.read.repeated import BOM, COMPARED_WHOLE, path_said
from aggregator.wire.codec import decode, encode

# Stands between the texts of two blocks.
SEPARATOR: Final = "\n"
_LEVEL: Final = 3
# A JSON string of an object or an array, or of such a string again; and how often that is.
_ENCODED_JSON: Final = re.compile(r'\s{0,99}"\s{0,99}(?:\\++")*+(?:[{\[]|\\[nrt])')
_ENCODED: Final = 3


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text of a result: its span in the document's text, and its block; None for the structured result."""

    start: int
    end: int
    block: int | None


@dataclass(frozen=True)
class ResultDocument:
    """A result with its text: every text block and embedded text resource, joined by line breaks.

    A structured result follows as JSON text, unless the text blocks say the same; `said` is the path to the part that
    they repeat, with `#` for the number of a text, or None. `parts` are the texts in order.
    """

    result: Mapping[str, Any]
    text: str
    parts: tuple[TextPart, ...] = field(repr=False)
    said: str | None = None

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Self:
        """Return the document of a result of `tools/call`; content other than text stays in the result only.

        Raises:
            TooDeep: the structured result is nested too deeply to be written.
        """
        content = result.get("content")
        blocks = enumerate(content if isinstance(content, list) else ())
        texts: list[tuple[int | None, str]] = [
            (index, _decoded(text)) for index, block in blocks if (text := text_of(block)) is not None
        ]
        structured = result.get("structuredContent")
        said = None if structured is None else path_said([text for _, text in texts], structured)
        if structured is not None and said is None:
            texts.append((None, encode(structured).decode()))
        parts: list[TextPart] = []
        at = 0
        for block, text in texts:
            parts.append(TextPart(at, at + len(text), block))
            at += len(text) + len(SEPARATOR)
        return cls(result, SEPARATOR.join(text for _, text in texts), tuple(parts), said)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the document that `to_bytes` was called on."""
        return cls.of(decode(zlib.decompress(data), inf))

    def to_bytes(self) -> bytes:
        """Return the whole result, compressed; what JSON has no form for, such as NaN, is null as on the wire.

        Raises:
            TooDeep: the result is nested too deeply to be written.
        """
        return zlib.compress(encode(self.result), _LEVEL)

    @cached_property
    def spans(self) -> tuple[TextSpan, ...]:
        """Return the spans of the text, each of one form."""
        return tuple(span for part in self.parts for span in spans(self.text, part.start, part.end))

    @cached_property
    def quotes(self) -> Quotes:
        """Return what tells of offsets of the text whether they lie between quotes."""
        return Quotes(self.text)

    @cached_property
    def data(self) -> Any:
        """Return the value that paths lead into; `msgspec.UNSET` if there is none.

        The structured result; else the only JSON text among the texts, the lines of JSON lines, or the texts if each is
        JSON. Undecoded text is `msgspec.Raw`.
        """
        structured = self.result.get("structuredContent")
        if structured is not None:
            return structured
        jsons = self._jsons
        if len(jsons) == 1:
            return self.lines(jsons[0]) if jsons[0].form is Form.JSON_LINES else self.raw(jsons[0])
        if jsons and len(jsons) == len(self.spans):
            return [self.raw(span) for span in jsons]
        return msgspec.UNSET

    def path_of(self, span: TextSpan) -> str | None:
        """Return the path in `data` to the value of a span, or None."""
        if span.form not in (Form.JSON, Form.JSON_LINES):
            return None
        if self.result.get("structuredContent") is None:
            if len(self._jsons) == 1:
                return ""
            return f"[{self.spans.index(span)}]" if len(self._jsons) == len(self.spans) else None
        if self.said is None:
            return "" if span.start == self.parts[-1].start else None
        if "#" in self.said:
            return self.said.replace("#", str(bisect_right(self.parts, span.start, key=lambda part: part.start) - 1))
        return self.said if len(self._jsons) == 1 else None

    @cached_property
    def _jsons(self) -> list[TextSpan]:
        return [span for span in self.spans if span.form in (Form.JSON, Form.JSON_LINES)]

    def resource_of(self, part: TextPart) -> str | None:
        """Return the URI of the embedded resource that a text is of; None for another text."""
        block = self.result["content"][part.block] if part.block is not None else {}
        resource = block.get("resource") if block.get("type") == "resource" else None
        uri = resource.get("uri") if isinstance(resource, Mapping) else None
        return uri if isinstance(uri, str) else None

    def raw(self, span: TextSpan) -> msgspec.Raw:
        """Return the JSON text of a span, to be decoded; without what stands around it."""
        return msgspec.Raw(self.text[span.start : span.end].lstrip(BOM).strip().encode("utf-8", "surrogatepass"))

    def lines(self, span: TextSpan) -> list[msgspec.Raw]:
        """Return the JSON texts of a span, one a line."""
        lines = self.text[span.start : span.end].lstrip(BOM).split("\n")
        return [msgspec.Raw(line.strip().encode("utf-8", "surrogatepass")) for line in lines if line.strip()]


def text_of(block: Any) -> str | None:
    """Return the text of a content block, or of its embedded resource."""
    if not isinstance(block, Mapping):
        return None
    kind = block.get("type")
    holder = block if kind == "text" else block.get("resource") if kind == "resource" else None
    text = holder.get("text") if isinstance(holder, Mapping) else None
    return text if isinstance(text, str) else None


def _decoded(text: str) -> str:
    """Return the JSON text that a text holds as a JSON string, as servers write that encode twice; else the text."""
    for _ in range(_ENCODED):
        if _ENCODED_JSON.match(text) is None or len(text) > COMPARED_WHOLE:
            break
        try:
            text = msgspec.json.decode(text, type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            break
    return text
