"""The value that a program ends with: what is large becomes a text within the sandbox, and is the same text."""

import json
from typing import Any

import pytest

from aggregator.code.sandbox.ending import with_end
from aggregator.code.sandbox.outcome import value_text
from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer

_ROWS = [{"id": at, "name": "ä" * 20, "of": None, "n": 1.5, "ok": at % 2 == 0} for at in range(3_000)]


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("[0] * 1_000_000", [0] * 1_000_000),
        ('[{"id": at, "name": "ä" * 20, "of": None, "n": 1.5, "ok": at % 2 == 0} for at in range(3_000)]', _ROWS),
        ("x = [(1, 'a'), (2, 'b')]\nx * 2_000", [[1, "a"], [2, "b"]] * 2_000),
        ("x = {n: {str(n)} for n in range(3_000)}\nx", {n: [str(n)] for n in range(3_000)}),
        ("['a' * 60_000, {'k': 'b' * 60_000}]", ["a" * 60_000, {"k": "b" * 60_000}]),
        ("import datetime\n[datetime.date(2025, 1, 2)] * 3_000", ["2025-01-02"] * 3_000),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n    y: list\n[A(1, [2])] * 3_000",
            [{"x": 1, "y": [2]}] * 3_000,
        ),
        ("if True:\n    return [5] * 3_000\ncall_tool('one')", [5] * 3_000),
        ("class A(Exception): pass\n(\n  [5]\n  * 3_000  # a comment\n)", [5] * 3_000),
        (
            "import asyncio\nasync def main():\n    await call_tool('one')\n    return [7] * 3_000\nawait main()",
            [7] * 3_000,
        ),
        # Small values are shown as they always were.
        ("{1: {2}, 'a': (3, None)}", {1: [2], "a": [3, None]}),
        ("call_tool('one')", {"name": "one"}),
        ("*[1], 2", [1, 2]),
        ("'ü' ; 'ä'", "ä"),
    ],
)
async def test_a_program_ends_with_a_value(sandbox: Sandbox, code: str, value: Any) -> None:
    ended = await sandbox.run(code, answer, LIMITS, "agent")
    assert ended.failure is None
    assert ended.text == value_text(value)


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        ("x = []\nx.append(x)\nx", "[[...]]"),
        ("x = {}\nx['a'] = x\nreturn x", "{'a': {...}}"),
        ("x = []\nfor n in range(3_000): x.append(x)\nx", "[[...], [...], "),
        ("x = y = []\nfor n in range(3_000):\n    y.append([])\n    y = y[0]\nx", "[[[["),
        ("{(1, 2): 'y' * 200_000}", '{"(1, 2)": "yyyy'),
        ("{(1, 2): [{3, 4}] * 3_000}", '{"(1, 2)": [[3, 4], '),
    ],
)
async def test_a_value_that_json_cannot_have_is_shown(sandbox: Sandbox, code: str, begins: str) -> None:
    """Its calls are made by then: an error would have them made again."""
    ended = await sandbox.run(code, answer, LIMITS, "agent")
    assert ended.failure is None
    assert ended.text.startswith(begins)


async def test_an_error_has_the_line_as_it_was_written(sandbox: Sandbox) -> None:
    ended = await sandbox.run("import json\n'ä'; json.loads('{')", answer, LIMITS, "agent")
    assert ended.failure is not None
    assert "  line 2\n    'ä'; json.loads('{')\n" in ended.failure


@pytest.mark.parametrize(
    ("code", "new"),
    [
        ("print(1)", "print(1)"),
        ("def f(): return 1", "def f(): return 1"),
        ("x = 1", "x = 1"),
        ("'ä'; (1 +\r\n 2)\n", "'ä'; (_x_shown((1 +\r\n 2)))\n"),
        ("if a: return 1\nelse: return", "if a: return _x_shown((1))\nelse: return"),
        ("try:\n  return 1\nexcept A:\n  return 2\nf(", "try:\n  return 1\nexcept A:\n  return 2\nf("),
        ("match a:\n  case 1: return 2", "match a:\n  case 1: return _x_shown((2))"),
    ],
)
def test_only_values_that_leave_are_asked(code: str, new: str) -> None:
    assert with_end(code) == new
    assert json.dumps(new).count("\\n") == json.dumps(code).count("\\n")
