"""The sandbox: what programs can do, what they cannot, and how those end that want too much."""

import asyncio
import json
import os
import signal
import statistics
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.code.sandbox.bounds import MODULES, CallFailed, ProgramLimits, TooManyPrograms, check_installed
from aggregator.code.sandbox.code_run import MOST_PRINTED
from aggregator.code.sandbox.forms import Lines
from aggregator.code.sandbox.outcome import Outcome, failure_text, value_text
from aggregator.code.sandbox.prelude import FunctionCall, awaits, masked, program_of
from aggregator.code.sandbox.sandbox import AT_MOST, OF_ONE_AGENT, Sandbox
from aggregator.domain.errors import OperatorError
from tests.polling import until

ON_LINUX: Final = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LIMITS: Final = ProgramLimits(calls=5, seconds=1.0, memory=64 * 2**20)


class Functions:
    """Answer every call with what was asked; `bad` fails, and `slow` waits until it is released."""

    def __init__(self) -> None:
        self.calls: list[FunctionCall] = []
        self.release = asyncio.Event()
        self.cancelled = 0
        self.most = self.now = 0

    def made(self, calls: int) -> bool:
        return len(self.calls) == calls

    async def __call__(self, call: FunctionCall) -> str:
        self.calls.append(call)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            if call.arguments.get("name") == "bad":
                raise CallFailed("refused: the policy says no")
            if call.arguments.get("name") == "slow":
                await self.release.wait()
            else:
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1
        return json.dumps({"function": call.function, **call.arguments})


def children() -> list[int]:
    """Return the processes of programs, also those that have ended and were not waited for."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            # One may end at any moment.
            name, rest = (folder / "stat").read_text().rsplit(")", 1)
            if name.endswith("(monty") and int(rest.split()[1]) == os.getpid():
                found.append(int(folder.name))
    return found


@pytest.fixture
def functions() -> Functions:
    return Functions()


async def run(sandbox: Sandbox, code: str, functions: Functions, **limits: Any) -> Outcome:
    given = {"calls": LIMITS.calls, "seconds": LIMITS.seconds, "memory": LIMITS.memory, **limits}
    return await sandbox.run(code, functions, ProgramLimits(**given), "agent")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 2", "3"),
        ("'words'", "words"),
        ("print('a', 1)\nprint('b')", "a 1\nb"),
        ("print('a')\n[1, (2, 3), {'b': None}]", 'a\n[1, [2, 3], {"b": null}]'),
        ("x = 1", "The program ended without printing anything."),
        ("call_tool('a.b', {'x': 1})", '{"function": "call_tool", "name": "a.b", "arguments": {"x": 1}}'),
        ("call_tool('a.b', x=1)['arguments']", '{"x": 1}'),
        # As many calls as it may make.
        ("for n in range(5): call_tool('t', n=n)\n'all'", "all"),
        ("call_tool('a.b')['arguments']", "{}"),
        ("call_tool('a.b', None)['arguments']", "The program ended without printing anything."),
        ("call_tool('a.b', arguments={'x': 1})['arguments']", '{"x": 1}'),
        ("call_tool(name='a.b', arguments={'x': 1})['arguments']", '{"x": 1}'),
        ("call_tool('a.b', name='n', x=1)['arguments']", '{"name": "n", "x": 1}'),
        ("(await call_tool('a.b', x=1))['arguments']", '{"x": 1}'),
        ("search_tools('rain', level=2)", '{"function": "search_tools", "query": "rain", "level": 2}'),
        ("describe_tools(['a'])", '{"function": "describe_tools", "names": ["a"]}'),
        (
            "import asyncio\nfound = await asyncio.gather(*[call_tool('t', n=n) for n in range(4)])\n"
            "[one['arguments']['n'] for one in found]",
            "[0, 1, 2, 3]",
        ),
        ("# await is only a word here\nx = 'await'\ncall_tool('t')['name']", "t"),
        ("import asyncio\nawait asyncio.sleep(0.01)\nawait call_tool('t')\n'slept'", "slept"),
        ("try:\n    call_tool('bad')\nexcept RuntimeError as e:\n    print(e)", "refused: the policy says no"),
        ("import time\ntime.sleep(0.01)\n'slept'", "slept"),
        ("import time\nawait call_tool('t')\ntime.sleep(0.01)\n'slept'", "slept"),
        ("search_tools('rain', 2)['level']", "2"),
        ("describe_tools(['a'], level=1)['level']", "1"),
        ("call_tool(tool='a.b', args={'x': 1})", '{"function": "call_tool", "tool": "a.b", "args": {"x": 1}}'),
        ("call_tool('a.b', params={'x': 1})['params']", '{"x": 1}'),
        ("call_tool('a.b', params=1)['arguments']", '{"params": 1}'),
        ("import asyncio\nasync def main():\n    return await call_tool('t')\nasyncio.run(main())['name']", "t"),
        ("if call_tool('t'):\n    return 5\n6", "5"),
        ("```python\nprint(1)\n```\n", "1"),
        ("\n    x = 1\n    if x:\n        print(x)\n", "1"),
        ("from datetime import date\n[date(2026, 1, 2)]", '["2026-01-02"]'),
        ("from decimal import Decimal\n{'a': Decimal('1.50')}", '{"a": "1.50"}'),
        ("class A:\n    def __init__(self): self.x = 1\nA()", '{"x": 1}'),
    ],
)  # fmt: skip
async def test_what_programs_do(sandbox: Sandbox, functions: Functions, code: str, text: str) -> None:
    """Values and prints come back, calls look like Python's, plain and awaited."""
    assert (await run(sandbox, code, functions)).text == text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import socket", "ModuleNotFoundError"),
        ("import subprocess", "ModuleNotFoundError"),
        ("import ctypes", "ModuleNotFoundError"),
        ("__import__('os')", "NameError"),
        ("open('/etc/passwd').read()", "PermissionError"),
        ("open('/tmp/x', 'w')", "PermissionError"),
        ("import os\nos.listdir('/')", "PermissionError"),
        ("import os\nos.getenv('HOME')", "not supported"),
        ("import os\nos.environ", "not supported"),
        ("import os\nos.system('id')", "AttributeError"),
        ("from pathlib import Path\nPath('/etc/passwd').read_text()", "PermissionError"),
        ("import sys\nsys.modules", "AttributeError"),
        ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
        ("'{0.__class__.__mro__}'.format(1)", "AttributeError"),
        ("call_tool.__globals__", "AttributeError"),
        ("call_tool.__code__", "AttributeError"),
        ("globals()", "NameError"),
        ("eval('open(\"/etc/passwd\")')", "PermissionError"),
        ("exec('import socket')", "ModuleNotFoundError"),
        ("x = [0] * 10**9", "MemoryError"),
        ("'a' * 10**9", "MemoryError"),
        ("10 ** 10 ** 8", "MemoryError"),
        ("x = 'a'\nwhile True: x += x", "MemoryError"),
        ("x = []\nwhile True: x.append('a' * 100_000)", "MemoryError"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError"),
        ("x = " + "(" * 50_000 + ")" * 50_000, "SyntaxError"),
        ("while True: pass", "TimeoutError"),
        ("try:\n    while True: pass\nexcept BaseException: pass\nprint('still here')", "TimeoutError"),
        ("sum(range(10**12))", "TimeoutError"),
        ("import time\ntime.sleep(30)", "TimeoutError"),
        ("import asyncio\nfor i in range(9): await asyncio.sleep(0.3)", "TimeoutError"),
        ("while True:\n    try: nothing\n    except NameError: pass", "limit"),
        ("_call_now(1, 2)", "one text is expected"),
        ("_call_now('[1]')", "RuntimeError"),
        ("_call_now('{')", "RuntimeError"),
        ("call_tool('t', lambda: 1)", "not JSON serializable"),
        ("call_tool('t', {'x': float('nan')})", "NaN"),
        ("call_tool('t', {}, x=1)", "not both"),
        ("call_tool()", "takes the name"),
        ("call_tool('t', {}, {})", "takes the name"),
        ("a = []\nfor i in range(100_000): a = [a]\ncall_tool('t', {'a': a})", "RecursionError"),
        ("r = call_tool('t')\nx = await call_tool('t')\nr['name']", "every call of a tool needs it"),
        ("for n in range(9): call_tool('t', n=n)", "may make 5 calls"),
        ("1 +", "SyntaxError"),
        ("await call_tool('t')\ncall_tool('t')\ncall_tool('t')", "never made, as `await` is missing before them: 2"),
        ("async def main(): return await call_tool('t')\nmain()", "write `await` before it"),
        ("await call_tool('t')\n_x_left = 5\nprint('x')", "not subscriptable"),
        ("search_tools('a', 1, 2)", "the rest by name"),
        ("search_tools('a', query='b')", "query twice"),
        ("import time\nfor n in range(9): time.sleep(0.3)", "sleep limit"),
        ("import requests", "There is no network"),
        ("from tools import call_tool", "need no import"),
        ("maps.drive(to='x')", "call_tool('server.tool', {arguments})"),
        ("list_servers()", "Call it by call_tool"),
        ("exit()", "ends after its last line"),
        ("import sys\nsys.exit(1)", "ends after its last line"),
        ("import asyncio\nasync with asyncio.Barrier(5): pass\nawait call_tool('t')", "Use asyncio.gather"),
        ("import asyncio\nasyncio.gather(call_tool('t'))", "write `await` before it"),
        ("'text'['name']", "a text if it is no JSON"),
        ("[1]['content']", "A result is what the tool gave"),
        ("x = 7\nx.content", "A result is what the tool gave"),
        ("x = 7\nx['count']", "A result is what the tool gave"),
        ("import json\njson.loads(7)", "is a dict or a list already"),
        ("import json\njson.loads('no JSON')", "any other is a text"),
        ("while True: pass", "does not count"),
    ],
)  # fmt: skip
async def test_what_programs_cannot(sandbox: Sandbox, functions: Functions, code: str, said: str) -> None:
    """No file, no network, no environment, no inside of the interpreter, and an end to all that is too much."""
    outcome = await run(sandbox, code, functions)
    assert outcome.failure is not None, outcome.text
    assert said in outcome.failure
    assert "still here" not in outcome.text
    for path in (os.getcwd(), "site-packages", "/usr", ".py", "python-input"):
        assert path not in outcome.failure, "no path of this machine"


@pytest.mark.parametrize(
    "code",
    [
        "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
        "import re\nre.search(r'(x+x+)+y', 'x' * 60)",
        "[i for i in range(300_000)][:3]",
        "class A: pass\nA()",
        "lambda: 1",
        "x = [1]\nx.append(x)\nx",
        "a = []\nfor i in range(100_000): a = [a]\na",
        "{1, 2}, b'x', 1 + 2j, float('nan'), ...",
        "'\\ud800'",
        "raise SystemExit(3)",
        "def f():\n    f.x = f\nf",
        "7 ** (10 ** 6) % 10",
        "object",
    ],
)
async def test_odd_programs_have_an_outcome(sandbox: Sandbox, functions: Functions, code: str) -> None:
    """Whatever a program ends with, there is a text of it, and the next program runs."""
    outcome = await run(sandbox, code, functions)
    assert outcome.text
    outcome.text.encode()
    assert (await run(sandbox, "'next'", functions)).text == "next"


async def test_every_module_that_is_named_is_there(sandbox: Sandbox, functions: Functions) -> None:
    """The list that a model gets with a failed import is true."""
    outcome = await run(sandbox, "\n".join(f"import {name}" for name in MODULES), functions)
    assert outcome.failure is None


async def test_an_error_of_a_tool_gets_no_advice(sandbox: Sandbox) -> None:
    """The words of a server may be those of the interpreter."""

    async def failing(call: FunctionCall) -> str:
        raise CallFailed("TypeError: a coroutine has no attribute")

    outcome = await sandbox.run("call_tool('t')", failing, LIMITS, "agent")
    assert outcome.text.endswith("RuntimeError: TypeError: a coroutine has no attribute")


def test_a_program_keeps_the_numbers_of_its_lines() -> None:
    """What stands around it is taken away within its lines; texts in an ordinary program are left as they are."""
    assert program_of("\n```python\nx = 1\n```") == "\n\nx = 1"
    assert program_of("x = '''\n```\n'''") == "x = '''\n```\n'''"
    assert program_of("  x = 1\n  y = 2") == "x = 1\ny = 2"


@ON_LINUX
async def test_the_process_has_nothing_to_give(
    sandbox: Sandbox, functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A way out of the interpreter would find no variable, and could open no file and use no more memory or time."""
    monkeypatch.setenv("SECRET", "only for the gateway")
    # Beside busy processes, one that gives way to them computes for long.
    running = asyncio.ensure_future(run(sandbox, "call_tool('slow')", functions, seconds=60.0))
    await until(lambda: bool(functions.calls))
    (worker,) = children()
    folder = Path(f"/proc/{worker}")
    assert await asyncio.to_thread((folder / "environ").read_bytes) == b""
    rows = (await asyncio.to_thread((folder / "limits").read_text)).splitlines()
    held = {row[:26].strip(): row[26:].split()[:2] for row in rows}
    assert held["Max open files"] == ["3", "3"]
    assert held["Max file size"] == held["Max core file size"] == ["0", "0"]
    assert "unlimited" not in held["Max address space"] + held["Max cpu time"]
    functions.release.set()
    assert (await running).failure is None


@ON_LINUX
async def test_nothing_is_left_of_programs(sandbox: Sandbox, functions: Functions) -> None:
    """Neither processes nor open files, whether programs end, fail or are cancelled in a call, a loop or a sleep."""
    assert (await run(sandbox, "1", functions)).text == "1"
    before = len(os.listdir("/proc/self/fd"))
    for code in ("call_tool('t')", "raise ValueError('no')", "x = [0] * 10**9") * 4:
        await run(sandbox, code, functions)
    waits = "import asyncio\nawait call_tool('t')\nawait asyncio.sleep(1)"
    for code in ("call_tool('slow')", "call_tool('t')\nwhile True: pass", waits) * 4:
        functions.calls.clear()
        running = asyncio.ensure_future(run(sandbox, code, functions))
        await until(partial(functions.made, 1))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await until(lambda: not children() and len(os.listdir("/proc/self/fd")) <= before)
    assert functions.now == 0


@ON_LINUX
async def test_a_process_that_is_killed(sandbox: Sandbox, functions: Functions) -> None:
    """The program ends with a reason, and the next one runs."""
    running = asyncio.ensure_future(run(sandbox, "call_tool('slow')", functions))
    await until(lambda: bool(functions.calls))
    (worker,) = children()
    os.kill(worker, signal.SIGKILL)
    functions.release.set()
    outcome = await running
    assert outcome.failure is not None
    assert "or was killed" in outcome.failure
    assert (await run(sandbox, "1", functions)).text == "1"


async def test_lines_are_named_and_files_are_not(sandbox: Sandbox, functions: Functions) -> None:
    """A traceback tells the lines of the program and nothing of how calls leave the sandbox."""
    code = "def ask():\n    return call_tool('bad')\n\nprint('before')\nask()\n"
    assert (await run(sandbox, code, functions)).text == (
        "before\nTraceback (most recent call last):\n  line 5\n    ask()\n  line 2, in ask\n"
        "    return call_tool('bad')\nRuntimeError: refused: the policy says no"
    )


@pytest.mark.parametrize("code", ["while True: print('x' * 1000)", "print('x' * 5_000_000)"])
async def test_printing_is_bounded(sandbox: Sandbox, functions: Functions, code: str) -> None:
    """The program is ended with the first of what it printed, long before its time is over."""
    outcome = await run(sandbox, code, functions, seconds=3600.0)
    assert outcome.failure is not None
    assert "printed more" in outcome.failure
    assert outcome.text.startswith(outcome.failure), "what is read first, since the rest may be cut"
    assert outcome.printed.rstrip() in outcome.text
    assert len(outcome.printed) == MOST_PRINTED


async def test_others_go_on_while_a_program_computes(sandbox: Sandbox, functions: Functions) -> None:
    """An endless loop holds up neither the event loop nor another program."""
    endless = asyncio.ensure_future(run(sandbox, "while True: pass", functions, seconds=3600.0))
    done = 0
    for _ in range(3):
        assert (await run(sandbox, "1 + 1", functions)).text == "2"
        done += 1
    assert done == 3
    assert not endless.done()
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    assert repr(sandbox) == "<Sandbox, 0 programs>"


async def test_cancelling_ends_the_calls(sandbox: Sandbox, functions: Functions) -> None:
    """What a program had asked for is cancelled with it, one call and several at once."""
    several = "import asyncio\nawait asyncio.gather(*[call_tool('slow') for _ in range(3)])"
    for code, calls in (("call_tool('slow')", 1), (several, 3)):
        functions.calls.clear()
        functions.cancelled = 0
        running = asyncio.ensure_future(run(sandbox, code, functions))
        await until(partial(functions.made, calls))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert functions.cancelled == calls


async def test_a_program_makes_so_many_calls_at_one_time(
    sandbox: Sandbox, functions: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for their turn."""
    monkeypatch.setattr("aggregator.code.sandbox.code_run._CALLS_AT_ONCE", 2)
    code = "import asyncio\nlen(await asyncio.gather(*[call_tool('slow') for _ in range(5)]))"
    running = asyncio.ensure_future(run(sandbox, code, functions))
    await until(partial(functions.made, 2))
    functions.release.set()
    assert (await running).text == "5"
    assert functions.most == 2


async def test_waiting_for_calls_takes_none_of_the_time(sandbox: Sandbox, functions: Functions) -> None:
    """The clock of a program stands still while it waits for an answer."""
    code = "import time\ncall_tool('slow')\ntime.perf_counter() > 0"
    running = asyncio.ensure_future(run(sandbox, code, functions, seconds=0.05))
    await until(lambda: bool(functions.calls))
    asyncio.get_running_loop().call_later(0.2, functions.release.set)
    assert (await running).text == "true"


async def test_a_program_sleeps_as_long_as_it_says(sandbox: Sandbox, functions: Functions) -> None:
    """Of two that begin together, the one with less to wait for comes first; a program that polls does not run hot."""
    code = """
import asyncio

async def after(seconds, name):
    await asyncio.sleep(seconds)
    await call_tool(name)

await asyncio.gather(after(0.2, "late"), after(0.05, "soon"), after(0, "now"))
"""
    assert (await run(sandbox, code, functions)).failure is None
    assert [call.arguments["name"] for call in functions.calls] == ["now", "soon", "late"]


async def test_so_many_at_once(sandbox: Sandbox, functions: Functions) -> None:
    """One agent has a share of the programs, and all together have an end."""
    mine = [asyncio.ensure_future(run(sandbox, "call_tool('slow')", functions)) for _ in range(OF_ONE_AGENT)]
    await until(lambda: len(functions.calls) == OF_ONE_AGENT)
    with pytest.raises(TooManyPrograms, match="of this agent"):
        await run(sandbox, "1", functions)
    others = [
        asyncio.ensure_future(sandbox.run("call_tool('slow')", functions, LIMITS, f"other {number // OF_ONE_AGENT}"))
        for number in range(AT_MOST - OF_ONE_AGENT)
    ]
    await until(lambda: len(functions.calls) == AT_MOST)
    with pytest.raises(TooManyPrograms, match="run already"):
        async with asyncio.timeout(10):
            await sandbox.run("1", functions, LIMITS, "one more")
    functions.release.set()
    for running in (*mine, *others):
        assert (await running).failure is None
    assert (await run(sandbox, "1", functions)).text == "1"


async def test_a_result_must_fit(sandbox: Sandbox) -> None:
    """What is too large for the memory of a program fails the call, not the process."""

    async def large(call: FunctionCall) -> str:
        return json.dumps("x" * 20_000_000)

    code = "try:\n    call_tool('t')\nexcept RuntimeError as error:\n    print(error)"
    outcome = await sandbox.run(code, large, LIMITS, "agent")
    assert "more than a program here has memory for" in outcome.text


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is told the command."""
    monkeypatch.setattr("aggregator.code.sandbox.bounds.find_spec", lambda name: None)
    with pytest.raises(OperatorError, match=r"pip install 'aggregator-mcp\[code\]'"):
        check_installed()


@pytest.mark.parametrize(
    ("code", "awaited"),
    [
        ("await call_tool('x')", True),
        ("x = 1  # await", False),
        ('x = "await"', False),
        ("'''\nawait\n'''", False),
        ("awaited = 1", False),
        ('x = "\\"" ; await f()', True),
        ("'" * 200_000, False),
        ('"""' + "x" * 200_000, False),
        ("x = 'await\ny = await f()", True),
        ("x = '" + "\\'" * 100_000, False),
        ('x = """' + '\\"' * 100_000, False),
        ("x = '''" + "\\'" * 100_000 + "\nawait", False),
    ],
)
def test_what_makes_a_program_awaited(code: str, awaited: bool) -> None:
    """The word in a comment or a text does not count, and looking for it takes linear time."""
    assert awaits(masked(code)) is awaited


VALUES: Final = [3, 1, 4, 1, 5, 9, 2, 6]
OTHERS: Final = [2.5, 0.5, 4.25, 1, 5, 8, 2, 7]
FIGURES: Final = (
    *("mean", "fmean", "median", "median_low", "median_high", "mode", "multimode", "stdev", "pstdev", "variance"),
    *("pvariance", "geometric_mean", "harmonic_mean", "quantiles"),
)


@pytest.mark.parametrize("data", [VALUES, OTHERS, [1, 2], [2, 2, 4]], ids=str)
async def test_statistics_are_those_of_python(sandbox: Sandbox, functions: Functions, data: list[float]) -> None:
    """Proves: F5. Each function of the module gives what a model expects of it."""
    code = f"import statistics as s\ndata = {data}\n[{', '.join(f's.{name}(data)' for name in FIGURES)}]"
    found = json.loads((await run(sandbox, code, functions)).text)
    expected = [getattr(statistics, name)(data) for name in FIGURES]
    assert found == [pytest.approx(one) for one in expected]


async def test_statistics_of_pairs_and_parts(sandbox: Sandbox, functions: Functions) -> None:
    code = f"""from statistics import (correlation, covariance as cov,
    quantiles, fmean)
a, b = {VALUES}, {OTHERS}
[correlation(a, b), cov(a, b), *quantiles(a, n=10, method="inclusive"), *quantiles(a, n=10), fmean(a, weights=b)]"""
    found = json.loads((await run(sandbox, code, functions)).text)
    tenths = [*statistics.quantiles(VALUES, n=10, method="inclusive"), *statistics.quantiles(VALUES, n=10)]
    pairs = [statistics.correlation(VALUES, OTHERS), statistics.covariance(VALUES, OTHERS)]
    assert found == pytest.approx([*pairs, *tenths, statistics.fmean(VALUES, OTHERS)])


READS: Final = "[f.read(1), f.readline(), f.readline(), f.tell(), f.seek(0), f.readlines(), f.read()]"
WRITES: Final = "f.write('X'); f.seek(0, 2); f.writelines(['d', 'e']); f.truncate(4); f.getvalue()"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("json.dumps([math.floor(1.5), statistics.mean([1, 3])])", "[1, 2]"),
        ("import json as j, re\nj.dumps(datetime.date(2026, 1, 2).isoformat() + re.escape('a'))", '"2026-01-02a"'),
        ("x = [1]\nf'{json.dumps(x)}'", "[1]"),
        ("f = io.StringIO('a')\nf.read()", "a"),
        ("await asyncio.gather(call_tool('a'), call_tool('b'))", '[["a"], ["b"]]'),
        ("copy = [1]\ncopy.append(2)\ncopy", "[1, 2]"),
    ],
)
async def test_a_forgotten_import_is_made(sandbox: Sandbox, code: str, text: str) -> None:
    """Proves: F5. Also of a module in an f-string; a variable of the same name stays the program's."""

    async def named(call: FunctionCall) -> str:
        return json.dumps([call.arguments["name"]])

    assert (await sandbox.run(code, named, LIMITS, "agent")).text.strip() == text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import csv, io\nlist(csv.DictReader(io.StringIO('a,b\\n1,2\\n')))", '[{"a": "1", "b": "2"}]'),
        ("from io import StringIO as S  # io\nimport csv\nf = S()\ncsv.writer(f).writerow(['a,b', 1])\nf.getvalue()",
         '"a,b",1'),
        (f"import io\nwith io.StringIO('x\\ny\\nz') as f:\n    r = {READS}\nr",
         '["x", "\\n", "y\\n", 4, 0, ["x\\n", "y\\n", "z"], ""]'),
        (f"import io\nf = io.StringIO('abc')\n{WRITES}", "Xbcd"),
        ("if True: import io; x = io.StringIO('a').read()\nx", "a"),
        ("def f():\n    import statistics, json\n    return json.dumps(statistics.mean([1, 2]))\nf()", "1.5"),
        ('x = """\nimport io\n"""\nx', "import io"),
        ("import statistics\ntry:\n    statistics.mean([])\nexcept statistics.StatisticsError as e:\n    x = str(e)\nx",
         "mean requires at least 1 data point"),
    ],
)  # fmt: skip
async def test_texts_as_files_and_imports_anywhere(
    sandbox: Sandbox, functions: Functions, code: str, text: str
) -> None:
    """Proves: F5. Imports of the modules that the interpreter lacks, wherever they stand, and never within a text."""
    assert (await run(sandbox, code, functions)).text.strip() == text


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import io\n\nio.BytesIO()",
         "  line 3\n    io.BytesIO()\nAttributeError: '_Io' object has no attribute 'BytesIO'. Of io"),
        ("from statistics import (\n  NormalDist,\n)\nNormalDist(1 / 0)", "Compute it with sum, sorted and math."),
        ("from statistics import (\n  mean,\n)\n1 / 0", "  line 4\n    1 / 0\nZeroDivisionError"),
    ],
)  # fmt: skip
async def test_what_the_modules_lack(sandbox: Sandbox, functions: Functions, code: str, said: str) -> None:
    """Proves: E10. The error tells what is there, and lines keep their numbers."""
    assert said in (await run(sandbox, code, functions)).text


def test_the_words_of_an_outcome() -> None:
    """A value that JSON cannot carry is shown as Python writes it; an error without lines has none."""
    assert value_text({(1, 2): 3}) == "{(1, 2): 3}"
    assert value_text(None) is None
    assert failure_text("MemoryError: too much", [], "main", Lines.same([])) == "MemoryError: too much"
    assert failure_text("E: " + "x" * 9_000, [], "main", Lines.same([])).endswith("more characters)")
