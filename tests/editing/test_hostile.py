"""Documents that were written to break an editor: each is edited or refused in one sentence, in linear time."""

import json

import pytest

from aggregator.editing.document import Format
from aggregator.editing.errors import EditError
from aggregator.editing.open_document import open_document

DEEP = 100_000


@pytest.mark.parametrize(
    ("format", "text", "said"),
    [
        ("json", "[" * DEEP, "nested too deeply"),
        ("json", '{"a": ' * DEEP, "nested too deeply"),
        ("json", '{"a": 1} {}', "line 1, column 10: this is not JSON"),
        ("json", '{"a": "\0"}', "this is not JSON"),
        ("json", '{"a": NaN}', "NaN is not JSON"),
        ("json", "[]", "expected an object at the root"),
        ("json", '{"a": "\ud800"}', "half a character"),
        ("toml", 'a = "\ud800"', "half a character"),
        ("yaml", 'a: "\ud800"', "half a character"),
        ("yaml", "a: b # \udc00", "half a character"),
        ("json", '{"a": 1 // x\r, "b": 2}', "line 1: a comment holds a carriage return"),
        ("toml", "a = " + "[" * DEEP, "x"),
        ("toml", "a = 1\na = 2", "this is not TOML"),
        ("toml", "a = '\0'", "this is not TOML"),
        ("yaml", "[" * DEEP, "nested too deeply"),
        ("yaml", "a: 1\n---\nb: 2\n", "more than one document"),
        ("yaml", "- a\n", "expected keys and values"),
        ("yaml", "a: 'x\n", "this is not YAML"),
        ("yaml", "a: \0", "x"),
        ("yaml", "a: &a [*a]\n", "names nothing that stands before it"),
        ("yaml", "? [a]\n: b\n", "a key that is no text"),
        ("yaml", "a" * (2**20 + 1), "larger than 1 MiB"),
    ],
)
def test_what_cannot_be_edited_is_refused_in_one_sentence(format: Format, text: str, said: str) -> None:
    with pytest.raises(EditError, match=said) as caught:
        open_document(text, format, "x")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_aliases_cannot_fill_the_memory() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(EditError, match="repeats so much"):
        open_document("\n".join(lines), "yaml", "x")


@pytest.mark.parametrize(
    "unit",
    ['"', '"\\"', "/*", "//", ",", ", ", "[", "#", "'", "{", "\\", '"a" ', "/", "*/"],
)
def test_no_text_makes_the_search_for_comments_slow(unit: str) -> None:
    """A pattern that tries again at every place would take hours for these."""
    with pytest.raises(EditError):
        open_document("{" + unit * (2**20 // len(unit)), "json", "x")


def test_a_large_document_is_edited() -> None:
    whole = {"mcpServers": {f"s{n}": {"command": "npx", "args": ["-y", "x"]} for n in range(60_000)}}
    document = open_document(json.dumps(whole, indent=4), "json", "x")
    document.put(("mcpServers", "new"), {"command": "x"})
    document.remove(("mcpServers", "s59999"))
    assert len(document.text) > 8_000_000
    assert document.text.endswith('        "new": {\n            "command": "x"\n        }\n    }\n}')


@pytest.mark.parametrize("number", ["9" * 5000, "1e999", "-0", "1E5", "0.1e-400"])
def test_numbers_beyond_ours_stay_as_they_are_written(number: str) -> None:
    document = open_document(f'{{"a": {number}}}', "json", "x")
    document.put(("b",), 1)
    assert document.text == f'{{"a": {number}, "b": 1}}'


def test_of_a_repeated_key_the_last_counts() -> None:
    text = '{"a": {"x": 1}, "b": 0, "a": {"x": 2}}'
    document = open_document(text, "json", "x")
    document.put(("a", "x"), 3)
    assert document.text == '{"a": {"x": 1}, "b": 0, "a": {"x": 3}}'
    document.remove(("a",))
    assert document.text == '{"b": 0}'
    document = open_document(text, "json", "x")
    document.rename(("a",), "c")
    assert document.text == '{"b": 0, "c": {"x": 2}}'


def test_half_a_character_is_written_as_an_escape_where_there_is_one() -> None:
    document = open_document('{"a": 1}', "json", "x")
    document.put(("a",), "\ud800")
    assert document.text == '{"a": "\\ud800"}'
    for format in ("toml", "yaml"):
        other = open_document("b: 1\n" if format == "yaml" else "b = 1\n", format, "x")
        before = other.text
        with pytest.raises(EditError):
            other.put(("a",), "\ud800")
        assert other.text == before


def test_a_path_through_a_value_without_parts_is_refused() -> None:
    document = open_document('{"mcpServers": []}', "json", "x")
    with pytest.raises(EditError, match="x: mcpServers is not an object"):
        document.put(("mcpServers", "time"), {})
    with pytest.raises(KeyError):
        document.remove(("mcpServers", "time"))
    with pytest.raises(EditError, match="is there already"):
        open_document('{"a": 1, "b": 2}', "json", "x").rename(("a",), "b")


def test_null_counts_as_missing_on_the_way() -> None:
    document = open_document('{"mcpServers": null}', "json", "x")
    document.put(("mcpServers", "a"), 1)
    assert document.root == {"mcpServers": {"a": 1}}


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(("format", "before"), [("json", "{}"), ("toml", "a = 1"), ("yaml", "a: 1"), ("json", "")])
def test_a_byte_order_mark_and_a_missing_last_line_end_stay(format: Format, before: str, mark: str) -> None:
    document = open_document(mark + before, format, "x")
    document.put(("b",), 2)
    assert document.text.startswith(mark)
    assert document.root["b"] == 2
    assert document.text.endswith("\n") is (not before)
    document.remove(("b",))
    assert document.text == mark + (before or "{}\n")
