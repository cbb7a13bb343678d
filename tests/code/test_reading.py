"""Reading of programs: those of more than 16 KiB in a process of its own, and those that our own code fails at."""

import ast
import asyncio
from typing import Any, Final

import pytest

from aggregator.code.sandbox import reading
from aggregator.code.sandbox.methods import MethodForms
from aggregator.code.sandbox.reading import MOST_IN_THREAD, read_as_json
from aggregator.code.sandbox.sandbox import Sandbox
from aggregator.system.own_module import start_module
from tests.code.test_forms import LIMITS, answer, by_python

_COMMENTS: Final = "# a comment of some forty characters here\n" * 500
_FUNCTIONS: Final = "".join(
    f"def f{n}(values):\n    return sorted({{one: values.get(one, 0) for one in values}}.items())\n" for n in range(300)
)
_FORMS: Final = """
from enum import Enum
class Size(Enum):
    SMALL = 1
class Failed(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code
def numbers():
    for n in range(3):
        got = yield n
found = {"a": 1, "b": 2}
del found["a"]
note = [].append
try:
    raise Failed(7)
except Failed as error:
    print(error, error.code)
print(list(numbers()), found, Size.SMALL.name, round(70.35, 1), call_tool("one")["name"])
"""


@pytest.mark.parametrize("before", [_COMMENTS, _FUNCTIONS], ids=["comments", "functions"])
@pytest.mark.parametrize("fence", ["", "```"], ids=["plain", "fenced"])
async def test_a_long_program_has_the_forms_of_short_ones(
    sandbox: Sandbox, before: str, fence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(code: str) -> Any:
        raise AssertionError("a long program was read in this process")

    monkeypatch.setattr(reading, "read_program", elsewhere)
    code = before + _FORMS
    assert len(code) > MOST_IN_THREAD
    fenced = f"{fence}\n{code}\n{fence}" if fence else code
    ended = await sandbox.run(fenced, answer, LIMITS, "agent")
    assert ended.text.rstrip("\n") == await asyncio.to_thread(by_python, code)


async def test_a_long_program_may_ask_a_result_for_its_parts(sandbox: Sandbox) -> None:
    code = f"{_COMMENTS}result = call_tool('one')\nprint(result.content[0].text == result.text, result.isError)"
    assert (await sandbox.run(code, answer, LIMITS, "agent")).text == "True False"


async def test_an_error_of_a_long_program_has_the_authors_line(sandbox: Sandbox) -> None:
    text = (await sandbox.run(f"{_COMMENTS}class A(Exception): pass\n\nraise A('hère')", answer, LIMITS, "a")).text
    assert "line 503" in text
    assert "raise A(" in text
    text = (await sandbox.run(f"{_COMMENTS}class A(set): pass", answer, LIMITS, "agent")).text
    assert text.startswith("line 501\n    class A(set): pass\nNotImplementedError: programs here cannot have a class")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("_MOST_SECONDS", 0.0, "so much code that reading it takes more than 10 s, or too much memory"),
        ("_READER", "aggregator.no_such_module", "so much code that reading it takes more than 10 s"),
        ("start_module", None, "more than 16 KiB of code now"),
    ],
)
async def test_a_long_program_that_cannot_be_read_is_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, name: str, value: Any, said: str
) -> None:
    async def fails(module: str) -> Any:
        raise OSError("no more processes")

    monkeypatch.setattr(reading, name, value if value is not None else fails)
    ended = await sandbox.run(f"{_COMMENTS}call_tool('one')", answer, LIMITS, "agent")
    assert ended.calls == 0
    assert ended.failure is not None
    assert said in ended.failure
    assert "write a shorter program. No call was made." in ended.failure
    # Short programs run as before.
    assert (await sandbox.run("call_tool('one')['name']", answer, LIMITS, "agent")).text == "one"


async def test_a_cancelled_program_ends_its_reader(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    reads = asyncio.Event()

    async def noted(module: str) -> Any:
        started.append(await start_module(module))
        reads.set()
        return started[-1]

    monkeypatch.setattr(reading, "start_module", noted)
    running = asyncio.create_task(sandbox.run(_FUNCTIONS * 8, answer, LIMITS, "agent"))
    await reads.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert started[0].returncode is not None


@pytest.mark.parametrize("before", ["", _COMMENTS], ids=["short", "long"])
async def test_a_fault_of_our_rewriting_refuses_a_program(
    sandbox: Sandbox, before: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The operator gets the traceback, the model the line and what to do."""

    def fails(self: MethodForms, node: ast.Call) -> ast.AST:
        raise KeyError("a secret of ours")

    async def read_here(code: str) -> bytes:
        return read_as_json(code).encode()

    monkeypatch.setattr(MethodForms, "visit_Call", fails)
    monkeypatch.setattr(reading, "_answer_of_process", read_here)
    code = f"{before}found = {{}}\nclass A(Exception): pass\ncall_tool('one')\n"
    ended = await sandbox.run(code, answer, LIMITS, "agent")
    assert ended.calls == 0
    line = before.count("\n") + 3
    assert ended.failure == (
        f"line {line}\n    call_tool('one')\nNotImplementedError: programs here cannot have this line in this form, "
        "by a fault of the aggregator: write it more plainly. No call was made."
    )
    assert f"line {line} of it" in caplog.text
    assert "KeyError: 'a secret of ours'" in caplog.text
    monkeypatch.undo()
    assert (await sandbox.run("call_tool('one')['name']", answer, LIMITS, "agent")).text == "one"
