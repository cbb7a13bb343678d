"""F-strings with their own quotes within, which Python before 3.12 cannot read: programs with them have all forms."""

import pytest

from aggregator.code.sandbox.quotes import rewritten_quotes, with_other_quotes
from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ('d = {"a": 1, "b": 2}\ndel d["b"]\nprint(f"{d["a"]} x {", ".join(["b"])}", d)', "1 x b {'a': 1}"),
        ('r = call_tool("one")\nprint(f"{r.content[0].text} {"\\n".join(["a"])}")', '{"name": "one"} a'),
        ("x = [].append\nprint(f'{len('ab'):>{int('4')}}|{'it is'!r}')", "   2|'it is'"),
        ('def f():\n    yield f"{f"{1 + 1}"}"\nprint(*f())', "2"),
        # The line is the author's.
        ('d = {}\ndel d["a"], f"{d["a"]}"', 'line 2\n    del d["a"], f"{d["a"]}"'),
    ],
)
async def test_a_program_may_have_such_quotes(sandbox: Sandbox, code: str, text: str) -> None:
    assert text in (await sandbox.run(code, answer, LIMITS, "agent")).text


@pytest.mark.parametrize(
    ("code", "new"),
    [
        ('print(f"{d["a"]} x {", ".join(["b"])}")', "print(f\"{d['a']} x {', '.join(['b'])}\")"),
        ('f"{x["a"]:>{w["b"]}} {{}} {"\\n".join(l)}"', "f\"{x['a']:>{w['b']}} {{}} {(chr(10)).join(l)}\""),
        ("f'{d['a']}' # it's", "f'{d[\"a\"]}' # it's"),
        ('x = "{d["\ny = f"{a["b"]}"', 'x = "{d["\ny = f"{a[\'b\']}"'),
        ('f"{x["it\'s"]}"', "f\"{x['''it's''']}\""),
        ('f"{f"{a}"}"', "f\"{f'{a}'}\""),
        ('f"{(lambda x: {"a": 1})(2)["a"]}"', "f\"{(lambda x: {'a': 1})(2)['a']}\""),
        # Nothing to write otherwise.
        ('f"{d[\'a\']} {{x}} {1:02d}" "b" # f"{x["a"]}"',) * 2,
        ("rf'{a}\\d' '''it's {\"''' f\"{x!r:%H:%M}\"",) * 2,
    ],
)
def test_quotes_within_are_written_otherwise(code: str, new: str) -> None:
    assert rewritten_quotes(code) == new


@pytest.mark.parametrize("code", ['f"{a", b}', 'f"{a[', "f'{'", 'x = "', 'f"{f\'{f"{a}"}\'}"', 'f"{"' + "(" * 5_000])
def test_what_has_no_end_stays(code: str) -> None:
    assert with_other_quotes(code) == code
