"""The models, run by numpy: BERT layers, then the normalized mean of their outputs for a text's pieces.

Sources: "BERT" (arXiv 1810.04805), "Sentence-BERT" (arXiv 1908.10084), and the format of safetensors: eight bytes with
the length of a JSON header, the header, which says where each tensor is, and the numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from aggregator.catalog.search.semantic.pieces import Pieces

Matrix = NDArray[np.float32]
Numbers = NDArray[np.int64]

# Pieces of one text that the models were trained to read.
MOST_PIECES: Final = 256
_HEAD: Final = 32
_EPSILON: Final = np.float32(1e-12)
# A longer header belongs to no model.
_HEADER_AT_MOST: Final = 2**20


class PieceReader(Protocol):
    """The vocabulary of a model."""

    def read(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, at most `most`, between the begin and end markers."""


class PieceVectors(Protocol):
    """The vectors of all pieces of a vocabulary, one row for each."""

    def __getitem__(self, numbers: Numbers) -> Matrix: ...


@dataclass(frozen=True, slots=True)
class Model:
    """The parts of a model: its vocabulary, the vectors of its pieces, and the other weights by their names in BERT.

    `of_query` and `of_tool` are prefixes that the model was trained with.
    """

    pieces: PieceReader
    vectors: PieceVectors
    tensors: Mapping[str, Matrix]
    of_query: str = ""
    of_tool: str = ""


class Encoder:
    """A model that makes a vector of each text."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._tensors = model.tensors
        self.width = int(self._tensors["embeddings.position_embeddings.weight"].shape[1])
        names = {name.split(".")[2] for name in self._tensors if name.startswith("encoder.layer.")}
        self._layers = [f"encoder.layer.{number}" for number in range(len(names))]

    def encode_queries(self, texts: Sequence[str], most: int = MOST_PIECES) -> Matrix:
        """Return a matrix with a row for each query. Takes some 10 to 30 ms a query: call it in a thread."""
        return self.encode([self._model.of_query + text for text in texts], most)

    def encode_tools(self, texts: Sequence[str], most: int = MOST_PIECES) -> Matrix:
        """Return a matrix with a row for each text of a tool. Takes some 10 to 40 ms a text: call it in a thread."""
        return self.encode([self._model.of_tool + text for text in texts], most)

    def encode(self, texts: Sequence[str], most: int = MOST_PIECES) -> Matrix:
        """Return a matrix with a row of length 1 for each text, of which at most so many pieces are read."""
        rows = self._means([self._model.pieces.read(text, most) for text in texts])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def _means(self, texts: Sequence[Sequence[int]]) -> Matrix:
        """Return the mean of the last layer for each text.

        All pieces are one matrix, so that each weight is read once; a text attends to its own pieces alone.
        """
        tensors = self._tensors
        ends = np.cumsum([len(text) for text in texts])
        parts = [slice(end - len(text), end) for text, end in zip(texts, ends.tolist(), strict=True)]
        states = self._model.vectors[np.concatenate([np.array(text, np.int64) for text in texts])]
        places = np.concatenate([np.arange(len(text)) for text in texts])
        states = states + tensors["embeddings.position_embeddings.weight"][places]
        states = self._normed("embeddings", states + tensors["embeddings.token_type_embeddings.weight"][0])
        for layer in self._layers:
            seen = self._attended(f"{layer}.attention.self", states, parts)
            states = self._normed(f"{layer}.attention.output", states + self._dense(f"{layer}.attention.output", seen))
            inner = _gelu(self._dense(f"{layer}.intermediate", states))
            states = self._normed(f"{layer}.output", states + self._dense(f"{layer}.output", inner))
        return np.stack([states[part].mean(0) for part in parts])

    def _attended(self, part: str, states: Matrix, texts: Sequence[slice]) -> Matrix:
        query, key, value = (
            self._linear(f"{part}.{name}", states).reshape(len(states), -1, _HEAD).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        seen = np.empty_like(states)
        for text in texts:
            scores = query[:, text] @ key[:, text].transpose(0, 2, 1) / np.float32(_HEAD**0.5)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            seen[text] = (shares @ value[:, text]).transpose(1, 0, 2).reshape(-1, states.shape[1])
        return seen

    def _dense(self, part: str, states: Matrix) -> Matrix:
        return self._linear(f"{part}.dense", states)

    def _linear(self, part: str, states: Matrix) -> Matrix:
        product: Matrix = states @ self._tensors[f"{part}.weight"].T + self._tensors[f"{part}.bias"]
        return product

    def _normed(self, part: str, states: Matrix) -> Matrix:
        away = states - states.mean(-1, keepdims=True)
        away /= np.sqrt(np.square(away).mean(-1, keepdims=True) + _EPSILON)
        normed: Matrix = away * self._tensors[f"{part}.LayerNorm.weight"] + self._tensors[f"{part}.LayerNorm.bias"]
        return normed


def _gelu(values: Matrix) -> Matrix:
    """Return x times the share of the normal distribution below x, to 1e-6 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(values) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429) * t - np.float32(1.453152027)
    for term in (1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(term)
    above = np.float32(0.5) * series * t * np.exp(-size * size)
    found: Matrix = values * np.where(values > 0, 1 - above, above)
    return found


def read_minilm(folder: Path) -> Model:
    """Return the model of a folder: `model.safetensors`, which is mapped into memory, and `vocab.txt`.

    Raises:
        ValueError, LookupError: its files are damaged.
        OSError: they cannot be read.
    """
    tensors = _map_tensors(folder / "model.safetensors")
    return Model(Pieces(folder / "vocab.txt"), tensors["embeddings.word_embeddings.weight"], tensors)


def _map_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of 32-bit floats in a file by name, without reading them.

    Raises:
        ValueError: it is no such file.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _HEADER_AT_MOST:
            raise ValueError(f"{path} is no safetensors file.")
        header = json.loads(file.read(length))
    raw = np.memmap(path, np.uint8, "r", offset=8 + length)
    tensors: dict[str, Any] = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            first, last = entry["data_offsets"]
            tensors[name] = np.asarray(raw[first:last]).view("<f4").reshape(entry["shape"])
    return tensors
