"""Edits of random documents: the edited value changes, and nothing else does."""

import copy
import json
import tomllib
from pathlib import Path as FilePath
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aggregator.config.files.jsonfile import read_object
from aggregator.editing.document import Format, Path
from aggregator.editing.open_document import open_document
from tests.laws import examples

from .written import JsonWriter, TomlWriter, YamlWriter, comments, objects

FORMATS: list[Format] = ["json", "toml", "yaml"]


def written(format: Format, value: dict[str, Any], seed: int) -> str:
    """Return a value as a person may have written it."""
    if format == "toml":
        writer: Any = TomlWriter(seed)
    else:
        writer = JsonWriter(seed) if format == "json" else YamlWriter(seed)
    return str(writer.line_ends(writer.text(value)))


def read(format: Format, text: str) -> Any:
    """Return the values of a text as another reader than ours has them."""
    if format == "json":
        return read_object(FilePath("x"), text.encode())
    return tomllib.loads(text) if format == "toml" else yaml.safe_load(text) or {}


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Return the paths of all values in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [inner for key, item in items for inner in paths(item, (*path, key))]


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def same(format: Format, found: Any, expected: Any) -> bool:
    """Return whether values are equal; a table of TOML without a header is gone with the last value in it."""
    return bool(full(found) == full(expected)) if format == "toml" else bool(found == expected)


def full(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item for key, item in ((key, full(item)) for key, item in value.items()) if item != {}}
    return value


# Each example is checked whole, so few tell much.
EXAMPLES = settings(max_examples=examples(60))
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("format", FORMATS)
@EXAMPLES
@given(data=st.data(), seed=SEEDS)
def test_what_is_written_is_read_as_it_was_meant(format: Format, data: st.DataObject, seed: int) -> None:
    value = data.draw(objects(null=format != "toml"))
    text = written(format, value, seed)
    document = open_document(text, format, "x")
    assert (document.text, document.root) == (text, value)


@pytest.mark.parametrize("format", FORMATS)
@EXAMPLES
@given(data=st.data(), seed=SEEDS)
def test_a_value_is_put(format: Format, data: st.DataObject, seed: int) -> None:
    """The parsed result equals the same edit on plain objects; every comment outside of the value stays."""
    whole = {"before": data.draw(objects(null=format != "toml")), "edited": {}, "after": 1}
    whole["edited"] = data.draw(objects(null=format != "toml"))
    text = written(format, whole, seed)
    containers = [path for path in paths(whole) if path[0] == "edited" and isinstance(at(whole, path), dict | list)]
    path = data.draw(st.sampled_from(containers))
    container = at(whole, path)
    if isinstance(container, list):
        path = (*path, data.draw(st.integers(0, len(container))))
    else:
        path = (*path, data.draw(st.sampled_from(["new", "a", "my server", "x.y", *container])))
    new = data.draw(objects(null=format != "toml").map(lambda drawn: next(iter(drawn.values()), drawn)))
    old = at(container, path[-1:]) if path in paths(whole) else None
    document = open_document(text, format, "x")
    document.put(path, new)
    expected = copy.deepcopy(whole)
    target = at(expected, path[:-1])
    if isinstance(target, list):
        index = int(path[-1])
        target[index : index + 1] = [new]
    else:
        target[path[-1]] = new
    assert same(format, document.root, expected)
    assert same(format, read(format, document.text), expected)
    if not isinstance(old, dict | list):
        assert comments(document.text) == comments(text)


@pytest.mark.parametrize(
    ("text", "unit", "dash"),
    [
        ("a: 1\n", "  ", "  "),
        # Values in one line have no spacing that counts.
        ("a: {b: 1}\nc: [1]\n", "  ", "  "),
        ("a:\n    b: 1\n", "    ", "  "),
        ("a:\n    - 1\n", "  ", "    "),
        ("a:\n- 1\n", "  ", ""),
        ("a:\n    b: 1\nc:\n- 1\n", "    ", ""),
        ("a:\n- 1\nc:\n   b: 1\n", "   ", ""),
        ("a:\n - 1\nb:\n- 1\n", "  ", " "),
    ],
)
def test_a_value_that_is_put_has_the_spacing_of_the_document(text: str, unit: str, dash: str) -> None:
    document = open_document(text, "yaml", "x")
    document.put(("new",), {"env": {"A": "b"}, "args": ["-y"]})
    assert document.text == f'{text}new:\n{unit}env:\n{unit * 2}A: b\n{unit}args:\n{unit}{dash}- "-y"\n'


@pytest.mark.parametrize("format", FORMATS)
@EXAMPLES
@given(data=st.data(), seed=SEEDS)
def test_a_value_that_is_put_and_removed_leaves_the_text_as_it_was(
    format: Format, data: st.DataObject, seed: int
) -> None:
    whole = data.draw(objects(null=format != "toml"))
    assume(whole)
    text = written(format, whole, seed)
    containers = [(), *(path for path in paths(whole) if isinstance(at(whole, path), dict) and at(whole, path))]
    path = (*data.draw(st.sampled_from(containers)), "new one")
    document = open_document(text, format, "x")
    document.put(path, data.draw(st.sampled_from([1, "x", ["-y", "x"], {"command": "x", "env": {"A": "b"}}])))
    assert document.text != text
    document.remove(path)
    assert document.text == text


@pytest.mark.parametrize("format", FORMATS)
@EXAMPLES
@given(data=st.data(), seed=SEEDS)
def test_a_value_is_removed(format: Format, data: st.DataObject, seed: int) -> None:
    whole = {"before": data.draw(objects(null=format != "toml")), "edited": {}, "after": 1}
    whole["edited"] = data.draw(objects(null=format != "toml"))
    text = written(format, whole, seed)
    path = data.draw(st.sampled_from(paths(whole)))
    document = open_document(text, format, "x")
    document.remove(path)
    expected = copy.deepcopy(whole)
    del at(expected, path[:-1])[path[-1]]
    assert same(format, document.root, expected)
    assert same(format, read(format, document.text), expected)
    if not isinstance(at(whole, path), dict | list):
        assert comments(document.text) == comments(text)


@pytest.mark.parametrize("format", FORMATS)
@EXAMPLES
@given(data=st.data(), seed=SEEDS)
def test_a_key_is_renamed_in_its_place(format: Format, data: st.DataObject, seed: int) -> None:
    whole = data.draw(objects(null=format != "toml"))
    text = written(format, whole, seed)
    named = [path for path in paths(whole) if isinstance(path[-1], str)]
    assume(named)
    path = data.draw(st.sampled_from(named))
    document = open_document(text, format, "x")
    document.rename(path, "a new name")
    container = at(document.root, path[:-1])
    assert list(container.values()) == list(at(whole, path[:-1]).values()) or format == "toml"
    assert comments(document.text) == comments(text)
    document.rename((*path[:-1], "a new name"), str(path[-1]))
    assert same(format, document.root, whole)
    assert json.dumps(whole, sort_keys=True) == json.dumps(document.root, sort_keys=True)


@pytest.mark.parametrize(
    ("format", "text", "every"),
    [
        (
            "json",
            '{"a": {"k": "one", "k": "two"}, "a": {"k": "three"}}',
            {"a": [{"k": ["one", "two"]}, {"k": "three"}]},
        ),
        ("yaml", "a:\n  k: one\n  k: two\n", {"a": {"k": ["one", "two"]}}),
        ("toml", '[a]\nk = "one"\n', {"a": {"k": "one"}}),
        ("json", "// nothing\n", {}),
        ("yaml", "# nothing\n", {}),
        ("toml", "# nothing\n", {}),
    ],
)
def test_the_values_of_a_key_that_is_there_twice_are_known(format: Format, text: str, every: object) -> None:
    """None of them is printed: which one counts is for the host to say."""
    assert open_document(text, format, "its file").every_value == every
