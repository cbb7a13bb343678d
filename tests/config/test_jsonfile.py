"""JSON as people keep it."""

from pathlib import Path

import pytest

from aggregator.config.errors import ConfigError
from aggregator.config.files.jsonfile import read_object


def written(folder: Path, content: bytes) -> Path:
    path = folder / "aggregator.json"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": "//x", "b": [1]}',
        b'\xef\xbb\xbf{"a": "//x", "b": [1]}',
        '{"a": "//x", "b": [1]}'.encode("utf-16"),
        b'// first\n{"a": "//x", /* "c": 2, */ "b": [1,], // last\n}',
        b'{"a": "//x", "b": [1, // one\n ] , }',
    ],
)
def test_comments_commas_and_encodings_are_forgiven(tmp_path: Path, content: bytes) -> None:
    assert read_object(written(tmp_path, content)) == {"a": "//x", "b": [1]}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "file is empty"),
        (b"mcpServers:\n  time:\n    command: uvx\n", "line 1, column 1: this is YAML, .* is JSON. Write it as JSON"),
        (b"\n# servers\n---\nmcpServers: {}\n", "line 2, column 1: this is YAML"),
        (b"mcpServers", "line 1, column 1: this is not JSON. Write a value here"),
        (b'{"a": b: 1}', "line 1, column 7: this is not JSON. Write a value here"),
        (b'{\n  "a": 1\n  "b": 2\n}', "line 3, column 3.*comma"),
        (b'{\n  // why\n  "a": tru }', "line 3, column 8.*Write a value here"),
        (b'{"a": "C:\\Users"}', "line 1, column 10.*backslash twice"),
        (b'{"a": "b}', "no closing double quote"),
        (b"{'a': 1}", "double quotes"),
        (b"{} {}", "goes on after"),
        (b"[]", "expected an object at the root.*got a list"),
        (b"null", "got null"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number that cannot be used"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe\xfa", "UTF-8"),
        (b"{\x80}", "UTF-8"),
    ],
)
def test_what_is_not_json_is_told_with_its_place(tmp_path: Path, content: bytes, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_object(written(tmp_path, content))
    assert str(tmp_path) in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        read_object(tmp_path)
    with pytest.raises(ConfigError, match="There is no file"):
        read_object(tmp_path / "absent.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_object(tmp_path / "a\0b")
    with pytest.raises(ConfigError, match="larger than 16 MiB"):
        read_object(written(tmp_path, b" " * (16 * 2**20 + 1)))


def test_doubled_keys_are_noticed(tmp_path: Path) -> None:
    root = read_object(written(tmp_path, b'{"a": 1, "b": {"c": 1}, "a": 2}'))
    assert root == {"a": 2, "b": {"c": 1}}
    assert root.repeated == ("a",)
