"""Small modules of programs, held against Python's own."""

import heapq
import string
import textwrap
import urllib.parse
from typing import Any, Final

import pytest

from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_first_tries import run

_MODULES: Final[dict[str, Any]] = {
    **{"heapq": heapq, "string": string, "textwrap": textwrap, "urllib": urllib},
}
_TEXT: Final = "The quick brown fox jumps over the lazy dog, and an-extraordinarily-long-word follows it."
EXPRESSIONS: Final = [
    "[heapq.nlargest(2, [1, 5, 3]), heapq.nsmallest(2, ['bb', 'a', 'ccc'], key=len), heapq.nlargest(-1, [1])]",
    "list(heapq.merge([1, 4], [2, 3]))",
    "[string.ascii_letters, string.digits, string.hexdigits, string.punctuation, string.whitespace]",
    "string.capwords('to be  or not')",
    *(f"textwrap.wrap({_TEXT!r}, {width})" for width in (1, 12, 20, 50, 200)),
    f"textwrap.fill({_TEXT!r}, 30, initial_indent='* ', subsequent_indent='  ')",
    *(f"textwrap.shorten({_TEXT!r}, {width}, placeholder='...')" for width in (14, 40, 200)),
    f"textwrap.shorten({_TEXT!r}, 30)",
    "textwrap.wrap('ab cd', 2, subsequent_indent='    ')",
    "textwrap.indent('a\\n\\n  b\\n', '> ')",
    "textwrap.dedent('  a\\n    b\\n\\n  c')",
    "textwrap.dedent('a\\n  b')",
    "[urllib.parse.quote('a b/ü~?'), urllib.parse.quote('a/b', safe=''), urllib.parse.quote_plus('a b&c')]",
    "[urllib.parse.unquote('a%20b%C3%BC%zz+'), urllib.parse.unquote('%E5%8C%97x')]",
    "urllib.parse.unquote_plus('a+b%2Bc')",
    "urllib.parse.urlencode({'q': 'a b', 'n': 1})",
    "urllib.parse.urlencode([('a', [1, 2]), ('b', 'x')], doseq=True)",
    "urllib.parse.parse_qs('a=1&a=2&b=&c=x+y')",
    "urllib.parse.parse_qsl('a=1&b=', keep_blank_values=True)",
    *(
        f"[(u := urllib.parse.urlparse({url!r})) and 0, u.scheme, u.netloc, u.path, u.query, u.fragment, u.hostname, "
        "u.port, u.geturl()]"
        for url in ("https://me@A.example:8080/x/y?q=1#top", "mailto:a@b", "/only/path?x", "a.example/x", "")
    ),
    *(
        f"urllib.parse.urljoin('https://a.example/b/c?d=1', {url!r})"
        for url in (
            "e",
            "/e",
            "../e",
            "./e/",
            "?f=2",
            "#g",
            "https://b.example",
            "//b.example/x",
            "",
            "..",
            "../../../e",
        )
    ),
    "urllib.parse.urlunparse(('https', 'a.example', '/x', '', 'q=1', ''))",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
async def test_as_python_has_it(sandbox: Sandbox, expression: str) -> None:
    imports = "import heapq, string, textwrap, urllib.parse\n"
    wanted = eval(expression, dict(_MODULES))  # noqa: S307 - the expressions above
    assert await run(sandbox, f"{imports}print(repr({expression}))") == repr(wanted)


HEAP: Final = """
import heapq
heap = [5, 1, 4]
heapq.heapify(heap)
heapq.heappush(heap, 2)
print([heapq.heappop(heap), heapq.heappushpop(heap, 0), heapq.heapreplace(heap, 9)])
print([heapq.heappop(heap) for _ in heap[:]])
"""
DATA: Final = """
from dataclasses import dataclass, field, asdict, astuple, fields, replace, is_dataclass

@dataclass
class Item:
    sku: str
    count: int = 1

@dataclass(slots=True, kw_only=True)
class Order:
    id: int
    items: list[Item] = field(default_factory=list)
    by: dict = field(default_factory=dict)

order = Order(id=1, items=[Item("a"), Item("b", 2)], by={"x": (Item("c"),)})
changed = replace(order, id=2)
print([asdict(order), astuple(order), [one.name for one in fields(Order)], changed.id, order.id, changed == order])
print([is_dataclass(Item), is_dataclass(order), is_dataclass(3), asdict(Item("a"), dict_factory=list)])
for wrong in (Item, 3):
    try:
        asdict(wrong)
    except TypeError as error:
        print(error)
"""
FROZEN: Final = """
import dataclasses
@dataclasses.dataclass(frozen=True)
class A:
    x: int
try:
    A(1).x = 2
except dataclasses.FrozenInstanceError as error:
    print(error)
print(dataclasses.replace(A(1), x=3), [one.default is dataclasses.MISSING for one in dataclasses.fields(A)])
"""


@pytest.mark.parametrize("program", [HEAP, DATA, FROZEN], ids=["heapq", "dataclasses", "frozen"])
async def test_a_program_prints_what_it_prints_in_python(
    sandbox: Sandbox, program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(program, {"__name__": "dataclasses_of_a_program"})  # noqa: S102 - the programs above
    assert await run(sandbox, program) == capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("from collections import OrderedDict, Counter\nd = OrderedDict(a=1)\n[dict(d), Counter('aab')['a']]",
         '[{"a": 1}, 2]'),
        ("import logging\nlog = logging.getLogger('x')\nlog.info('no')\nlog.warning('%s of %d', 'a', 2)\n"
         "logging.basicConfig(level='INFO')\nlog.info('yes')\nlogging.error('100%')",
         "WARNING:x:a of 2\nINFO:x:yes\nERROR:root:100%"),
        ("import urllib.request\nurllib.request.urlopen('https://a.example')", "There is no network: call a tool."),
        ("import urllib\nurllib.request.urlopen('https://a.example')", "There is no network: call a tool."),
        ("import dataclasses\ndataclasses.make_dataclass('A', [])", "Of dataclasses there are"),
    ],
)  # fmt: skip
async def test_what_these_modules_say(sandbox: Sandbox, code: str, text: str) -> None:
    assert text in await run(sandbox, code)
