"""Tools by meaning, where the operator wants it: the mean of their words' vectors, beside the keywords' ranking.

The vectors are those that the package `wordllama` ships; nothing is fetched, and its own code is not run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from aggregator.catalog.search import Hit
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord

# How much likeness counts beside the best keyword score, and from where on it counts alone; measured in docs/search.md.
WEIGHT: Final = 0.8
ALIKE: Final = 0.35

_READ: Final = 400
_HUMPS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|[_.-]")


class Vectors(Protocol):
    """Rows of numbers, one for each text, each of length 1; a product of two is how alike they are."""

    def of(self, texts: Sequence[str]) -> Any:
        """A matrix with a row for each text."""


class Meanings:
    """What tools mean, a server at a time. `learn` takes some 50 microseconds a tool: call it in a thread."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: dict[str, tuple[tuple[ToolRecord, ...], Any]] = {}

    def learn(self, servers: Mapping[str, tuple[ToolRecord, ...]]) -> None:
        """From now on these are the tools there are."""
        before, now = self._known, {}
        for server, tools in servers.items():
            known = before.get(server)
            now[server] = known if known is not None and known[0] == tools else (tools, self._rows(tools))
        self._known = now

    def likeness(self, query: str, sighted: Mapping[str, ToolRecord]) -> dict[str, float]:
        """How alike each tool in sight is to a question, by canonical name: -1 to 1."""
        question = self._vectors.of([query])[0]
        return {
            tool.name: float(alike)
            for tools, rows in self._known.values()
            if tools
            for tool, alike in zip(tools, rows @ question, strict=True)
            if tool.name in sighted
        }

    def _rows(self, tools: Iterable[ToolRecord]) -> Any:
        return self._vectors.of([_said(tool) for tool in tools])


def fused(
    hits: Sequence[Hit], likeness: Mapping[str, float], sighted: Mapping[str, ToolRecord], limit: int
) -> list[Hit]:
    """The hits of the keywords and what is alike, best first; ties stay in the keywords' order."""
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    scores = {hit.tool.name: hit.score / best for hit in hits}
    for name, alike in likeness.items():
        if name in scores or alike >= ALIKE:
            scores[name] = scores.get(name, 0.0) + WEIGHT * alike
    return [Hit(sighted[name], score) for name, score in sorted(scores.items(), key=lambda item: -item[1])[:limit]]


def where_vectors_are() -> Path:
    """The folder of the installed package.

    Raises:
        OperatorError: it is not installed.
    """
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise OperatorError("`search.semantic` needs a model. Run: pip install 'aggregator[semantic]'")
    return Path(next(iter(found.submodule_search_locations)))


def open_vectors() -> Vectors:
    """The vectors of the installed package; takes a fifth of a second. Raises OperatorError where there is none."""
    return _Shipped(where_vectors_are())


class _Shipped:
    """The vectors as they lie in the package."""

    def __init__(self, folder: Path) -> None:
        # Only who asks for this has these libraries.
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        (weights,) = sorted(folder.glob("weights/*_256.safetensors"))
        self._numpy = numpy
        self._words = load_file(weights)["embedding.weight"].astype(numpy.float32)
        self._tokenizer = Tokenizer.from_file(str(next(iter(sorted(folder.glob("tokenizers/*.json"))))))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def of(self, texts: Sequence[str]) -> Any:
        """See `Vectors`."""
        numpy = self._numpy
        rows = numpy.zeros((len(texts), self._words.shape[1]), numpy.float32)
        for at, encoded in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if encoded.ids:
                rows[at] = self._words[encoded.ids].mean(0)
        lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return rows / lengths


def _said(tool: ToolRecord) -> str:
    description = tool.definition.get("description")
    return f"{_HUMPS.sub(' ', tool.own_name)}. {description if isinstance(description, str) else ''}"[:_READ]
