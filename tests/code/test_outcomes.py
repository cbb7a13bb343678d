"""What a model reads of a program, and a program of a search: in which order, how much of it, and what is left out."""

import asyncio
import json
from typing import Any, Final

import pytest

from aggregator.code import programs as programs_module
from aggregator.code.sandbox import code_run
from aggregator.code.sandbox.forms import Lines
from aggregator.code.sandbox.outcome import Outcome, failure_text, refused_text
from aggregator.code.sandbox.prelude import FunctionCall
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.sandbox import Sandbox
from aggregator.domain.text.tokens import estimate
from tests.code.test_forms import LIMITS
from tests.peers.toolbox import Json, text_result

LONG: Final = "x" * 4_000


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome(""), "The program ended without printing anything."),
        (Outcome("\n\n"), "The program ended without printing anything."),
        (Outcome("a\n"), "a"),
        (Outcome("", ""), "The program ended without printing anything."),
        (Outcome("", "v"), "v"),
        (Outcome("a\n", "v"), "a\nv"),
        (Outcome("a\n", None, "E"), "a\nE"),
        (Outcome("", None, "E"), "E"),
        # The error goes first if the rest may be cut before it.
        (Outcome(f"{LONG}\n", None, "E"), f"{LONG}\nE"),
        (Outcome(f"{LONG}y\n", None, "E"), f"E\nBefore that it printed:\n{LONG}y"),
        (Outcome(f"{LONG}y\n", "v"), f"{LONG}y\nv"),
    ],
)
def test_the_order_of_an_outcome(outcome: Outcome, text: str) -> None:
    assert outcome.text == text


@pytest.mark.parametrize(("line", "source"), [(1, "a = 1"), (2, "b"), (3, "")])
def test_a_refusal_has_the_line_if_there_is_one(line: int, source: str) -> None:
    said = refused_text(Refusal(line, "it", "write that"), "a = 1\n  b  ")
    assert said == (
        f"line {line}\n    {source}\nNotImplementedError: programs here cannot have it: write that. No call was made."
    )


class _Frame:
    """A line of a traceback."""

    function_name = None

    def __init__(self, line: int, filename: str = "main") -> None:
        self.line, self.filename = line, filename


@pytest.mark.parametrize("count", [0, 1, 8, 9, 30])
def test_a_traceback_has_its_last_lines(count: int) -> None:
    """Those of the program alone."""
    lines = Lines.same([f"l{number}" for number in range(1, 31)])
    frames = [frame for number in range(1, count + 1) for frame in (_Frame(number), _Frame(number, "prelude"))]
    told = failure_text("E: x", frames, "main", lines).splitlines()
    shown = [f"l{number}" for number in range(1, count + 1)][-8:]
    assert [line.strip() for line in told if line.startswith("    ")] == shown
    assert told[1:2] == ([f"  ({count - 8} lines left out)"] if count > 8 else told[1:2])
    assert any("left out" in line for line in told) is (count > 8)
    assert (told[0], told[-1]) == ("Traceback (most recent call last):" if count else "E: x", "E: x")


@pytest.mark.parametrize(
    ("printed", "is_ended"),
    [(["abc", "de"], False), (["abc", "def"], True), (["abcdef"], True), (["abcde", "f"], True)],
)
async def test_so_many_characters_are_printed_and_no_more(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, printed: list[str], is_ended: bool
) -> None:
    """One that printed more is ended where it is, at the latest in its next call."""
    monkeypatch.setattr(code_run, "MOST_PRINTED", 5)
    code = "".join(f"print({part!r}, end='')\n" for part in printed)
    released = asyncio.Event()
    if not is_ended:
        released.set()

    async def waiting(call: FunctionCall) -> str:
        await released.wait()
        return "1"

    outcome = await sandbox.run(f"{code}call_tool('one')\nNone", waiting, LIMITS, "agent")
    assert (outcome.failure is not None) is is_ended
    assert outcome.printed == "abcdef"[:5]


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        ({"structuredContent": {"tools": [{"name": "a.b"}]}, "content": []}, [{"name": "a.b"}]),
        (text_result('{"tools": [{"name": "a.b"}]}'), [{"name": "a.b"}]),
        (text_result("a.b: Does it: well."), [{"name": "a.b", "description": "Does it: well."}]),
        (text_result("a.b: \nc.d: x"), [{"name": "a.b", "description": ""}, {"name": "c.d", "description": "x"}]),
        # Notes are no tools.
        (text_result("weak matches: no tool has it.\nSkills fit: x\na.b: x"), [{"name": "a.b", "description": "x"}]),
        (text_result("No tool fits."), []),
        (text_result(""), []),
    ],
)
def test_a_search_is_a_list_of_tools(result: Json, rows: list[Any]) -> None:
    assert json.loads(programs_module._rows(result)) == rows


@pytest.mark.parametrize("text", ["", "a", "word " * 100, "天气" * 100, "x" * 5_000])
@pytest.mark.parametrize("most", [1, 10, 10_000])
def test_a_text_is_cut_to_so_many_tokens(text: str, most: int) -> None:
    """And says how much is left out."""
    short = programs_module._shortened(text, most)
    kept, _, said = short.partition("\n… (")
    assert text.startswith(kept)
    assert estimate(kept) <= most
    assert (kept == text) is (estimate(text) <= most)
    assert said == ("" if kept == text else f"{len(text) - len(kept):,} more characters are left out: print less, or "
                    "only what you need)")  # fmt: skip
