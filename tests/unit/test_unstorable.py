"""Characters that can be neither stored nor sent: where they are found, and what stands in their place."""

from typing import Any

import pytest
from hypothesis import given

from aggregator.catalog.invisible_characters import DefinitionCleaner
from aggregator.config.server_config import ServerConfig
from aggregator.domain.text.unstorable import halved, may_be_halved, storable, storable_value, unstorable
from aggregator.wire.codec import encode
from tests.unit.strategies import json_values

KINDS = ("tool", "prompt", "template", "resource", "skill")


def cleaner(kind: str, *, keeps: bool) -> DefinitionCleaner:
    config = ServerConfig(
        id="s", key="s", prefix="s", type="stdio", command="x", invisible_characters="keep" if keeps else "remove"
    )
    return DefinitionCleaner(config, kind)


def test_what_is_found_and_what_takes_its_place() -> None:
    for bad, code in (("\ud83d", "U+D83D"), ("\udc00", "U+DC00"), ("\udfff", "U+DFFF")):
        assert halved(["good", f"a{bad}b"]) == unstorable([f"a{bad}b"]) == code
        assert storable(f"a{bad}b") == "a\ufffdb"
        assert may_be_halved(encode({"a": bad}))
    assert (halved(["\0"]), unstorable(["\0"])) == (None, "U+0000")
    assert storable("\0") == "\ufffd"
    for good in ("", "plain", "line\n\ttab", "\U0001f600 \u202e \ufffd"):
        assert unstorable([good]) is None
        assert storable(good) is good
        assert not may_be_halved(encode(good))


@given(json_values())
def test_a_value_can_be_stored_after_it(value: Any) -> None:
    kept = storable_value({"a\ud800": value, "b": [value, "\0"]})
    encode(kept).decode().encode()
    assert kept["a\ufffd"] == storable_value(value)
    assert storable_value(kept) is kept


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_names_and_values_are_refused_and_texts_mended(kind: str, keeps: bool) -> None:
    """With `invisible_characters: keep` too: what cannot be stored is of no use to any host."""

    def fault(name: str, definition: Any) -> str | None:
        return cleaner(kind, keeps=keeps).fault(name, definition, encode(definition))

    for name in ("a\ud83d", "a\0"):
        assert f"U+{ord(name[1]):04X}" in (fault(name, {"name": name}) or "nothing")
    refused: list[Any] = [{"inputSchema": {"properties": {"\ud83d": {}}}}, {"a": {"const": "\ud83d"}}, {"\ud83d": 1}]
    for definition in refused:
        assert "U+D83D" in (fault("a", definition) or "nothing"), definition
    assert fault("a", {"description": "\U0001f600", "inputSchema": {"pattern": "[^\0]"}}) is None
    text = {"description": "x\ud83dy"}
    if kind == "skill":
        assert "U+D83D" in (fault("a", text) or "nothing"), "nothing of a skill is changed"
        return
    assert fault("a", text) is None
    cleaning = cleaner(kind, keeps=keeps)
    assert cleaning.clean("a", text, encode(text)) == {"description": "x\ufffdy"}
    assert "neither stored nor sent" in cleaning.warnings()[0]
    assert f"{kind} 'a'" in cleaning.warnings()[0]
    nul = {"description": "x\0y"}
    assert cleaner(kind, keeps=keeps).clean("a", nul, encode(nul)) == {"description": "x\ufffdy" if keeps else "xy"}
    plain = {"description": "x\U0001f600y"}
    assert cleaning.clean("b", plain, encode(plain)) is plain


def test_a_definition_too_deep_to_be_written_is_looked_through() -> None:
    assert cleaner("tool", keeps=False).fault("a", {"\ud83d": 1}, None) is not None
