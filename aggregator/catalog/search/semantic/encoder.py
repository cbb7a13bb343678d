"""The model, run by numpy: some BERT layers, then the normalized mean of their outputs for a text's pieces.

Sources: "BERT" (arXiv 1810.04805), "Sentence-BERT" (arXiv 1908.10084), and the format of safetensors: eight bytes with
the length of a JSON header, the header, which says where each tensor is, and the numbers.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aggregator.catalog.search.semantic.pieces import Pieces

Matrix = NDArray[np.float32]

# Pieces of one text that the model was trained to read.
MOST_PIECES: Final = 256
_HEAD: Final = 32
_EPSILON: Final = np.float32(1e-12)
# A longer header belongs to no model.
_HEADER_AT_MOST: Final = 2**20


class Encoder:
    """A model in a folder: `model.safetensors`, which is mapped into memory, and `vocab.txt`."""

    def __init__(self, folder: Path) -> None:
        self._tensors = _map_tensors(folder / "model.safetensors")
        self._pieces = Pieces(folder / "vocab.txt")
        self.width = int(self._tensors["embeddings.word_embeddings.weight"].shape[1])
        names = {name.split(".")[2] for name in self._tensors if name.startswith("encoder.layer.")}
        self._layers = [f"encoder.layer.{number}" for number in range(len(names))]

    def encode(self, texts: Sequence[str], most: int = MOST_PIECES) -> Matrix:
        """Return a matrix with a row for each text, of which at most so many pieces are read.

        Takes some 20 ms for a short text: call it in a thread.
        """
        rows = np.zeros((len(texts), self.width), np.float32)
        pieces = [self._pieces.read(text, most) for text in texts]
        # Texts of equal length together, so that none is padded: the time for padding is lost.
        by_length: dict[int, list[int]] = {}
        for at, numbers in enumerate(pieces):
            by_length.setdefault(len(numbers), []).append(at)
        for places in by_length.values():
            rows[places] = self._mean(np.array([pieces[at] for at in places]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows

    def _mean(self, pieces: NDArray[np.int64]) -> Matrix:
        """Return the mean of the last layer for each text: rows of as many pieces."""
        tensors = self._tensors
        states = tensors["embeddings.word_embeddings.weight"][pieces]
        states = states + tensors["embeddings.position_embeddings.weight"][: pieces.shape[1]]
        states = self._normed("embeddings", states + tensors["embeddings.token_type_embeddings.weight"][0])
        for layer in self._layers:
            seen = self._attended(f"{layer}.attention.self", states)
            states = self._normed(f"{layer}.attention.output", states + self._dense(f"{layer}.attention.output", seen))
            inner = _gelu(self._dense(f"{layer}.intermediate", states))
            states = self._normed(f"{layer}.output", states + self._dense(f"{layer}.output", inner))
        mean: Matrix = states.mean(1)
        return mean

    def _attended(self, part: str, states: Matrix) -> Matrix:
        texts, length, width = states.shape
        query, key, value = (
            self._linear(f"{part}.{name}", states).reshape(texts, length, -1, _HEAD).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(_HEAD**0.5)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen: Matrix = (shares @ value).transpose(0, 2, 1, 3).reshape(texts, length, width)
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
