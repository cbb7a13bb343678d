"""The vectors computed so far for the tools by one model, and the similarity of each tool to a query."""

from collections.abc import Container, Iterable, Mapping, Sequence
from random import shuffle
from typing import Any, Final, Protocol

import numpy as np

from aggregator.catalog.search.semantic.texts import digest_of, text_of
from aggregator.domain.records import ToolRecord

# Bytes of a kept vector: 384 little-endian 32-bit floats.
_VECTOR_BYTES: Final = 4 * 384


# So many tools the usual one counts for, where what all tools have in common is taken away: a few may resemble each
# other for what they do.
_USUAL: Final = 32


class TextEncoder(Protocol):
    """A model that makes a vector of each text, of length 1; its matrices are numpy's, of 32-bit floats."""

    def encode_queries(self, texts: Sequence[str], most: int) -> Any:
        """Return a matrix with a row for each query, of which at most so many pieces are read."""

    def encode_tools(self, texts: Sequence[str], most: int) -> Any:
        """Return a matrix with a row for each text of a tool, of which at most so many pieces are read."""


class MeaningIndex:
    """The vectors of one catalog. Its methods take time with the number of tools: call them in a thread."""

    def __init__(self, tools: Iterable[ToolRecord], *, latin: bool = True, usual: Any | None = None) -> None:
        """Index tools for a model. `latin`: it reads Latin letters only. `usual`: what texts have in common.

        With `usual`, the common part of the tools is subtracted from their vectors.
        """
        self._usual = usual
        self._digests: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        for tool in tools:
            text = text_of(tool, latin=latin)
            digest = self._digests[tool.name] = digest_of(text)
            self._texts[digest] = text
        self._vectors: dict[str, Any] = {}
        self._published: tuple[list[str], Any] = ([], None)

    def __len__(self) -> int:
        """Return how many tools are found by their meaning."""
        return len(self._published[0])

    def missing(self, *, mixed: bool = False) -> list[tuple[str, str]]:
        """Return the texts that have no vector yet, after their digests; `mixed` in an order of this process."""
        texts = [(digest, text) for digest, text in self._texts.items() if digest not in self._vectors]
        if mixed:
            shuffle(texts)
        return texts

    def add(self, vectors: Mapping[str, Any]) -> None:
        """Take the vectors of texts, by digest. Those of other texts are left out; `publish` makes them count."""
        self._vectors.update((digest, row) for digest, row in vectors.items() if digest in self._texts)

    def add_from(self, other: "MeaningIndex") -> None:
        """Take the vectors that another index has of the same texts."""
        self.add(other._vectors)

    def publish(self) -> None:
        """Let the vectors that were added count from now on."""
        names = [name for name, digest in self._digests.items() if digest in self._vectors]
        if names:
            matrix = np.stack([self._vectors[self._digests[name]] for name in names])
            # From here on each vector is a row of the matrix, so that it is in memory once.
            self._vectors.update((self._digests[name], row) for name, row in zip(names, matrix, strict=True))
            self._published = names, matrix if self._usual is None else _centred(matrix, self._usual)

    def similarities(self, vector: Any, visible: Container[str]) -> dict[str, float]:
        """Return how similar each tool that the agent sees is to a query's vector, by canonical name: -1 to 1."""
        names, matrix = self._published
        if not names:
            return {}
        products: list[float] = (matrix @ vector).tolist()
        return {name: like for name, like in zip(names, products, strict=True) if name in visible}


def _centred(matrix: Any, usual: Any) -> Any:
    """Return rows of length 1, without their common part."""
    apart = matrix - (matrix.sum(0) + _USUAL * usual) / (len(matrix) + _USUAL)
    return apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), np.float32(1e-9))


def row_of(vector: bytes) -> Any | None:
    """Return the row that `vector` was kept from; None if it has another length."""
    return np.frombuffer(vector, "<f4") if len(vector) == _VECTOR_BYTES else None
