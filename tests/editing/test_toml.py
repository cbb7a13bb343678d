"""TOML as people keep it for their hosts: an entry is put in and taken out, and every other byte stays."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.editing.errors import EditError
from aggregator.editing.open_document import open_document

PIECES = (
    "# at the top\n\n",
    'model = "o5"  # the best\napproval.policy = "never"\napproval . "a b" = { x = 1, y = [ 1, 2 ] }\n\n',
    'date = 2026-11-28T10:00:00Z\nlong = """\nx = 1\n# no comment\n"""\nhex = 0xFF\n',
    "[[profiles]]  # the first\nname = 'a'\n  [profiles.inner]\n  x = 1\n\n[[profiles]]\nname = 'b'\n",
    '[mcp_servers.one]\ncommand = "npx"\nargs = [\n  "-y", # yes\n  "x",\n]\n\n[mcp_servers.one.env]\nA = "b"\n',
    '# about two\n[mcp_servers."t w o"]\nurl="https://x"\nhttp_headers={ A = "b" }\n#off = true\n\n\n',
    "[tools]\nweb = true\n\n",
    "[mcp_servers.one.tools.a]\napproval = 'no'\n",
    "\n# at the end",
)
ENTRY = {"command": "python", "args": ["-m", "aggregator"], "required": True, "env": {"A": "b"}}
_UNSAFE = "x is written in a form that cannot be edited safely. Edit it by hand."
TEXTS = st.lists(st.sampled_from(range(len(PIECES))), unique=True).map(
    lambda chosen: "".join(PIECES[at] for at in sorted(chosen))
)


@given(TEXTS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\ufeff"]), st.booleans())
def test_an_entry_is_one_piece_that_is_put_in_and_taken_out(text: str, newline: str, mark: str, nested: bool) -> None:
    """E7: dotted and inline tables, arrays of tables, comments, CRLF and the byte order mark stay as they are."""
    text = mark + text.replace("\n", newline)
    document = open_document(text, "toml", "x")
    document.put(("mcp_servers", "new"), ENTRY if nested else {"url": "http://127.0.0.1:8642/mcp"})
    made = document.text
    shared = next((at for at, (old, new) in enumerate(zip(text, made, strict=False)) if old != new), len(text))
    assert made.endswith(text[shared:])
    assert "\r\n" not in text or made.count("\n") == made.count("\r\n")
    assert "new" in tomllib.loads(made.removeprefix("\ufeff"))["mcp_servers"]
    document.remove(("mcp_servers", "new"))
    assert document.text == text


def test_what_is_taken_out_leaves_the_comments_of_its_neighbours() -> None:
    text = "# one\n[s.a]\nx = 1 # of x\n# of a\n\n# two\n[s.b]\ny = 2\n# at the end\n"
    document = open_document(text, "toml", "x")
    document.remove(("s", "a"))
    assert document.text == "# one\n# of a\n\n# two\n[s.b]\ny = 2\n# at the end\n"
    document.remove(("s", "b"))
    assert document.text == "# one\n# of a\n\n# two\n# at the end\n"


def test_a_comment_on_the_line_of_what_is_taken_out_stays() -> None:
    document = open_document("a = 1 # of a\nb = [\n  1, # one\n  2 # two\n]\n", "toml", "x")
    document.remove(("b", 0))
    document.remove(("b", 0))
    document.remove(("a",))
    assert document.root == {"b": []}
    assert document.text == "# of a\nb = [\n   # one\n   # two\n]\n"


def test_a_new_table_stands_before_the_comment_above_the_next_one() -> None:
    document = open_document("[s.a]\nx = 1\n\n# about t\n[t]\ny = 2\n", "toml", "x")
    document.put(("s", "b"), {"z": 3})
    assert document.text == "[s.a]\nx = 1\n\n[s.b]\nz = 3\n\n# about t\n[t]\ny = 2\n"


def test_a_list_of_tables_takes_one_more() -> None:
    text = "[[s]]\nx = 1\n\n[t]\n"
    document = open_document(text, "toml", "x")
    document.put(("s", 1), {"x": 2})
    assert document.text == "[[s]]\nx = 1\n\n[[s]]\nx = 2\n\n[t]\n"
    document.remove(("s", 1))
    assert document.text == text
    with pytest.raises(EditError, match="takes tables only"):
        document.put(("s", 1), 1)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a = 1\nb = \n", "line 2, column 5"),
        ("a = 1\na = 2\n", "line 2, column 6"),
        ("[a]\nx = 1\n[a]\n", "line 3, column 3"),
        ("a = {x = 1\n", "line 1, column 11"),
        ('# c\na = "x', "line 2, column 7"),
    ],
)
def test_a_broken_text_is_refused_with_its_place(text: str, place: str) -> None:
    with pytest.raises(EditError, match=rf"^config.toml, {place}: this is not TOML \(.*\)\. Correct it there\.$"):
        open_document(text, "toml", "config.toml")


def test_no_depth_makes_a_traceback() -> None:
    """Deep enough for tomlkit and not for the reader, or for both: one sentence, and the text as it was."""
    for depth in (20, 100, 300, 900, 5_000):
        text = f"a = {'[' * depth}{']' * depth}\n"
        assert _edited(text) in (f"{text}b = 1\n", "x is nested too deeply to be edited.", _UNSAFE)


def _edited(text: str) -> str:
    """Return the text with one more pair, or the error."""
    try:
        document = open_document(text, "toml", "x")
        document.put(("b",), 1)
    except EditError as error:
        return str(error)
    return document.text


@pytest.mark.parametrize(
    ("path", "value"),
    [(("a", "b"), 1), (("t", 0), 1), (("a",), None), (("l", "x"), {}), (("a",), "\ud800"), (("i", "x", "y"), 1)],
)
def test_an_edit_that_does_not_fit_leaves_the_text(path: tuple[str | int, ...], value: object) -> None:
    text = "a = 1\nl = [1]\ni = { x = 1 }\n[t]\nx = 1\n"
    document = open_document(text, "toml", "x")
    with pytest.raises(EditError):
        document.put(path, value)
    assert document.text == text


def test_lines_are_those_of_the_keys() -> None:
    document = open_document("# c\na.b = 1\n\n[s.x]\ny = 2\nz = { q = 1 }\n[s.w]\n", "toml", "x")
    lines = {path: document.line(path) for path in [("a", "b"), ("s", "x"), ("s", "x", "y"), ("s", "x", "z", "q")]}
    assert lines == {("a", "b"): 2, ("s", "x"): 4, ("s", "x", "y"): 5, ("s", "x", "z", "q"): 6}
    assert [document.line(path) for path in [("s", "w"), ("s", "w", "no"), ("none",)]] == [7, 7, 1]
