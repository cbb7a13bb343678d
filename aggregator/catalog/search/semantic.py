"""Search by meaning, where the operator enables it: the mean of the words' vectors, beside the ranking by keywords.

The vectors are those that the package `wordllama` ships; nothing is fetched, and its own code is not run.
"""

from collections.abc import Container, Mapping, Sequence
from heapq import nsmallest
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from aggregator import DISTRIBUTION
from aggregator.catalog.search.index import Hit
from aggregator.catalog.search.terms.words import split
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord

# The gain of the most similar tool, as a share of the best keyword score; the similarity from which a tool is
# found without any keyword; and how many of these there may be. Measured in docs/search.md.
WEIGHT: Final = 0.5
ALIKE: Final = 0.35
_NEAREST: Final = 64

# Characters of a description that are read: further on descriptions resemble each other.
_READ: Final = 200


class Vectors(Protocol):
    """Vectors of texts: rows of numbers, each of length 1; the product of two says how similar the texts are."""

    def encode(self, texts: Sequence[str]) -> Any:
        """Return a matrix with a row for each text."""

    def similarities(self, rows: Any, row: Any) -> Sequence[float]:
        """Return the product of each row of a matrix and another row."""


class SemanticIndex:
    """The vectors of all tools, by server. `update` takes some 50 microseconds a tool: call it in a thread."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: dict[str, tuple[tuple[ToolRecord, ...], list[str], Any]] = {}

    def update(self, servers: Mapping[str, tuple[ToolRecord, ...]]) -> None:
        """Replace the tools by these. Vectors of servers whose tools did not change are kept."""
        before, now = self._known, {}
        for server, tools in servers.items():
            known = before.get(server)
            if known is None or known[0] != tools:
                known = (tools, [tool.name for tool in tools], self._vectors.encode([_text_of(tool) for tool in tools]))
            now[server] = known
        self._known = now

    def similarities(self, query: str, visible: Container[str]) -> dict[str, float]:
        """Return how similar each tool the agent sees is to a query, by canonical name: -1 to 1."""
        weighted = self._vectors.encode([query])[0]
        found: dict[str, float] = {}
        for _, names, rows in self._known.values():
            if names:
                found.update(zip(names, self._vectors.similarities(rows, weighted), strict=True))
        return {name: similarity for name, similarity in found.items() if name in visible}


def merge_hits(
    hits: Sequence[Hit], likeness: Mapping[str, float], visible: Mapping[str, ToolRecord], limit: int
) -> list[Hit]:
    """Merge the hits by keywords and the similar tools, best first; a tool asked for by its name stays in front.

    `hits`: 64 are enough. `likeness`: of every tool the agent sees.
    """
    usual = sum(likeness.values()) / max(1, len(likeness))
    beyond = max(likeness.values(), default=0.0) - usual
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    found = {hit.tool.name: (hit.name_match, hit.score / best) for hit in hits}
    if beyond > 0:
        nearest = nsmallest(
            _NEAREST, ((-similarity, name) for name, similarity in likeness.items() if similarity >= ALIKE)
        )
        found.update((name, (0, 0.0)) for _, name in nearest if name not in found)
        for name, (named, score) in found.items():
            found[name] = named, score + WEIGHT * max(0.0, (likeness.get(name, usual) - usual) / beyond)
    ordered = sorted(found, key=lambda name: (-found[name][0], -found[name][1], name))
    return [Hit(visible[name], found[name][1], found[name][0]) for name in ordered[:limit]]


def vectors_folder() -> Path:
    """Return the folder of the installed package.

    Raises:
        OperatorError: the package is not installed.
    """
    found = find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise OperatorError(f"`search.semantic` needs a model. Run: pip install '{DISTRIBUTION}[semantic]'")
    return Path(next(iter(found.submodule_search_locations)))


def open_vectors() -> Vectors:
    """Load the vectors of the installed package; takes a fifth of a second.

    Raises:
        OperatorError: the package is not installed.
    """
    return _PackageVectors(vectors_folder())


class _PackageVectors:
    """The vectors that the package ships."""

    def __init__(self, folder: Path) -> None:
        # Optional dependencies: installed with the extra `semantic` only.
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        (weights,) = sorted(folder.glob("weights/*_256.safetensors"))
        self._numpy = numpy
        self._words = load_file(weights)["embedding.weight"].astype(numpy.float32)
        self._tokenizer = Tokenizer.from_file(str(next(iter(sorted(folder.glob("tokenizers/*.json"))))))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def encode(self, texts: Sequence[str]) -> Any:
        """Return a matrix with a row for each text."""
        numpy = self._numpy
        rows = numpy.zeros((len(texts), self._words.shape[1]), numpy.float32)
        for at, encoded in enumerate(self._tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if encoded.ids:
                rows[at] = self._words[encoded.ids].mean(0)
        lengths = numpy.linalg.norm(rows, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return rows / lengths

    def similarities(self, rows: Any, row: Any) -> Sequence[float]:
        """Return the product of each row of a matrix and another row."""
        products: list[float] = (rows @ row).tolist()
        return products


def _text_of(tool: ToolRecord) -> str:
    description = tool.definition.get("description")
    text = description[:_READ] if isinstance(description, str) else ""
    return f"{tool.prefix} {' '.join(split(tool.own_name))}. {text}"
