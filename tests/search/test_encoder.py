"""The model run by numpy: a tiny one with arbitrary weights for its form, the installed one for its answers."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aggregator.catalog.search.semantic import installed
from aggregator.catalog.search.semantic.encoder import Encoder, read_minilm
from aggregator.catalog.search.semantic.models import ENGLISH
from aggregator.catalog.search.semantic.pieces import Pieces
from aggregator.domain.errors import OperatorError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS += ["play", "##ing", "##ed", "rain", "un", "##play", ".", ",", "天", "a", "cafe"]
LAYER = {
    "attention.self.query": (64, 64),
    "attention.self.key": (64, 64),
    "attention.self.value": (64, 64),
    "attention.output.dense": (64, 64),
    "intermediate.dense": (96, 64),
    "output.dense": (64, 96),
}


def save(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [start, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(t.tobytes() for t in tensors.values()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of two layers, 64 wide, with arbitrary weights."""
    rng = np.random.default_rng(7)

    def some(*shape: int) -> Any:
        return rng.normal(0, 0.5, shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": some(len(WORDS), 64),
        "embeddings.position_embeddings.weight": some(40, 64),
        "embeddings.token_type_embeddings.weight": some(2, 64),
    }
    norms = ["embeddings"]
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        for name, shape in LAYER.items():
            tensors |= {f"{layer}.{name}.weight": some(*shape), f"{layer}.{name}.bias": some(shape[0])}
        norms += [f"{layer}.attention.output", f"{layer}.output"]
    for name in norms:
        tensors |= {f"{name}.LayerNorm.weight": some(64), f"{name}.LayerNorm.bias": some(64)}
    save(tmp_path / "model.safetensors", tensors)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Playing, rain.", ["play", "##ing", ",", "rain", "."]),
        ("UNPLAYED", ["un", "##play", "##ed"]),
        ("café\u200b\x00", ["cafe"]),
        ("天天 rain", ["天", "天", "rain"]),
        ("a\u3000a\ta", ["a", "a", "a"]),
        ("xyz " + "a" * 101, ["[UNK]", "[UNK]"]),
        ("a+a", ["a", "[UNK]", "a"]),
        ("", []),
    ],
)
def test_pieces_of_texts(folder: Path, text: str, pieces: list[str]) -> None:
    """Proves: F5. Longest first, without capitals and accents; signs and ideographs stand alone."""
    read = Pieces(folder / "vocab.txt").read(text, 40)
    assert [WORDS[number] for number in read] == ["[CLS]", *pieces, "[SEP]"]


def test_pieces_are_bounded(folder: Path) -> None:
    """Proves: F5. A long text is cut, and its end is still marked."""
    read = Pieces(folder / "vocab.txt").read("rain " * 100_000, 10)
    assert len(read) == 10
    assert WORDS[read[-1]] == "[SEP]"


def test_texts_together_are_as_texts_alone(folder: Path) -> None:
    """Proves: F5. The neighbours of a text, of whatever length, do not change its vector, whose length is 1."""
    encoder = Encoder(read_minilm(folder))
    texts = ["rain", "playing, rain.", "", "unplayed", "a a a a a a", "rain"]
    together = encoder.encode(texts, 40)
    assert together.shape == (6, 64)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for text, row in zip(texts, together, strict=True):
        assert np.allclose(encoder.encode([text], 40)[0], row, atol=1e-6)
    assert np.allclose(together[0], together[5], atol=1e-6)
    assert not np.allclose(together[0], together[1], atol=1e-2)


def test_the_order_of_words_counts(folder: Path) -> None:
    """Proves: F5. The places of pieces are part of what the model reads."""
    one, other = Encoder(read_minilm(folder)).encode(["rain play", "play rain"], 40)
    assert not np.allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("damage", [b"", b"\xff" * 64, b"\x02\0\0\0\0\0\0\0{}"])
def test_damaged_files_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    """Proves: F5. With the file's place and the command that installs the model."""
    (folder / "model.safetensors").write_bytes(damage)
    package = folder / "package"
    package.mkdir()
    (package / "model").symlink_to(folder)
    monkeypatch.setattr(installed, "_folder_of", lambda _: package)
    with pytest.raises(OperatorError, match=r"cannot be used .* Run: `pip install"):
        installed.open_encoder(ENGLISH)


def test_the_installed_model_gives_the_published_similarities() -> None:
    """Proves: F5. As sentence-transformers 6.2 with PyTorch 2.13 does, to five digits."""
    try:
        encoder = installed.open_encoder(ENGLISH)
    except OperatorError as error:
        pytest.skip(f"NOT RUN with the real model: {error}")
    rows = encoder.encode(
        [
            "A man is eating food.",
            "A man is eating a piece of bread.",
            "The girl is carrying a baby.",
            "What is the weather tomorrow?",
            "Predicts rain and sunshine.",
        ]
    )
    assert rows.shape == (5, 384)
    expected = [0.755337, -0.104959, -0.039831, -0.097022, 0.572926]
    pairs = [(0, 1), (0, 2), (0, 3), (0, 4), (3, 4)]
    assert [float(rows[a] @ rows[b]) for a, b in pairs] == pytest.approx(expected, abs=1e-5)
