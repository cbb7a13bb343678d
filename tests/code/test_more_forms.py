# ruff: noqa: E501 - programs
"""More forms that the interpreter lacks: heirs of `dict`, `list` and `HTMLParser`, `__getattr__`, `del`, `__dict__`, `round`."""

import asyncio
import threading
from typing import Any, Final

import pytest

from aggregator.code.sandbox import reading
from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer, by_python

PROGRAMS: Final = {
    "a dict with __missing__": """
class D(dict):
    def __missing__(self, k): return k * 2
d = D(a="1"); print(d["a"], d["b"], d.get("c"), len(d), list(d.items()), d, dict(d), {**d, "z": 1}, "a" in d, "q" in d, [k for k in d], isinstance(d, dict), d == {"a": "1"}, bool(D()), d | {"x": 1})
import json
d["n"] = D(y=1); del d["a"]; print(json.dumps(d), sorted(d), list(d.values()), d.pop("n"), d)
def f(**k): return k
d["p"] = 1; print(f(**d)); d.update({"r": 2}, s=3); print(d.setdefault("t", 4), len(d), max(d.values()), sum(d.values()))
for k, v in d.items(): print(k, v)
""",
    "a dict with attributes": """
class AttrDict(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name)
a = AttrDict({"title": "T", "n": 3}); print(a.title, a["n"], a.n + 1, hasattr(a, "zz"), getattr(a, "zz", 9), getattr(a, "n"), a.keys(), "x".upper(), f"{a.title!r}")
try: a.missing
except AttributeError as e: print("AE", e)
""",
    "a dict with methods of its own": """
class D(dict):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.calls = 0
    def __setitem__(self, k, v):
        self.calls += 1
        super().__setitem__(k.lower(), v)
    def __getitem__(self, k): return super().__getitem__(k.lower())
d = D(x=1); d["ABC"] = 5; print(d["abc"], d["Abc"], d.calls, len(d), d)
""",
    "a UserDict": """
from collections import UserDict
class D(UserDict):
    def __setitem__(self, k, v): super().__setitem__(k.lower(), v)
d = D({"X": 1}, Y=2); d["A"] = 1; print(d["a"], len(d), dict(d), d.data, "x" in d)
""",
    "a list": """
class Stack(list):
    def push(self, x): self.append(x)
    def peek(self): return self[-1]
s = Stack([1]); s.push(5); print(s, s.peek(), len(s), [x for x in s], s[0:1], sum(s), 5 in s, sorted(s, reverse=True), max(s), list(s), tuple(s), s + [9], s == [1, 5], not s, isinstance(s, list), [*s], ",".join(str(x) for x in s)); s.sort(key=lambda x: -x); print(s, s.pop(), s.index(5)); a, = s; print(a); s[0] = 7; s.extend([1, 2]); print(s, list(enumerate(s)), list(zip(s, s)), list(map(str, s)))
""",
    "any attribute": """
class P:
    def __getattr__(self, n): return f"<{n}>"
    def real(self): return "r"
p = P(); p.a = 1; print(p.a, p.b, getattr(p, "c"), hasattr(p, "z"), p.real(), "a b".split(), 0)
""",
    "tools as attributes": """
class Tools:
    def __init__(self, prefix): self.prefix = prefix
    def __getattr__(self, name):
        return lambda **kw: (self.prefix + name, kw)
t = Tools("work."); print(t.list_issues(repo="a"), t.prefix)
import json, math; print(json.dumps([1]), math.floor(2.5))
""",
    "a chain of attributes": """
class Chain:
    def __init__(self, path=""): self._path = path
    def __getattr__(self, n): return Chain(f"{self._path}/{n}")
    def __call__(self, **k): return self._path, k
    def __str__(self): return self._path
print(Chain().repos.issues.list(state="open"), str(Chain().a.b))
""",
    "settings as attributes": """
class Cfg:
    def __init__(self, d): self._d = d
    def __getattr__(self, name):
        v = self._d.get(name)
        return Cfg(v) if isinstance(v, dict) else v
    @property
    def size(self): return len(self._d)
c = Cfg({"db": {"host": "h"}, "n": 1}); print(c.db.host, c.n, c.none, c.size)
""",
    "an OrderedDict": """
from collections import Counter, OrderedDict, defaultdict
class LRU(OrderedDict):
    def __init__(self, n): super().__init__(); self.n = n
    def put(self, k, v):
        self[k] = v
        self.move_to_end(k)
        if len(self) > self.n: self.popitem(last=False)
l = LRU(2); l.put(1, 1); l.put(2, 2); l.put(1, 3); l.put(3, 3); print(list(l.items()))
""",
    "an HTML parser": """
from html.parser import HTMLParser
import html
class P(HTMLParser):
    def __init__(self):
        super().__init__()
        self.out, self.depth = [], 0
    def handle_starttag(self, tag, attrs):
        self.depth += 1
        self.out.append((tag, dict(attrs)))
    def handle_endtag(self, tag): self.depth -= 1
    def handle_data(self, data):
        if data.strip(): self.out.append(data.strip())
p = P(); p.feed('<!DOCTYPE html><div class="a b"><p>One &lt; two &eacute; &hellip;</p><br/><a href="/x?a=1&amp;b=2">L</a><script>if (a<b) x()</script><!-- c --></div>tail'); p.close()
print(p.out, p.depth, html.unescape("&copy; &mdash; &euro; &notit; &amp;nbsp;"), html.escape("<'>"))
""",
    "an HTML parser by its module": """
import html.parser
class T(html.parser.HTMLParser):
    text = ""
    def handle_data(self, d): self.text += d
t = T(); t.feed("<table><tr><td>1</td><td>2</td></tr></table>"); print(t.text)
""",
    "formats": """
print(f"{70.35:.1f} {2.675:.2f} {1.005:.2f} {0.5:.0f} {1.5:.0f} {2.5:.0f} {0.125:.2f} {0.375:.2f} {1e21:.1f} {-0.04:.1f}", "%.2f" % 2.675, "{:.2f}".format(1.115), f"{1234.565:,.2f}", f"{0.285:.0%} {0.12345:.2%}")
""",
    "rounding": """
print(round(70.35, 1), round(2.675, 2), round(1.005, 2), round(-0.04, 1), round(1234.5, -2), round(5, 2), round(15, -1), round(25, -1), round(2.5), round(1e300, 2), round(0.1 + 0.2, 10))
""",
    "del": """
d = {"a": 1, ("x", "y"): 2, "b": [1, 2, 3, 4, 5]}
del d[("x", "y")]; del d["b"][1:3]; print(d)
x = [1, 2, 3]; del x[0], x[-1]; print(x); k = {"n": {"m": 1}}
for key in list(d):
    if key == "a": del d[key]
print(d); del k["n"]["m"]; print(k); y = 1; del y
def f(t): del t[len(t) - 1]; return t
print(f([1, 2])); z = list(range(10)); del z[::2]; print(z); del z[:]; print(z)
try: del d["none"]
except KeyError as e: print("KeyError", e)
""",
    "__dict__": """
from dataclasses import dataclass
@dataclass
class C:
    key: str
    n: int = 0
    @property
    def kind(self): return "k"
class P:
    shared = 1
    def __init__(self, a): self.a = a; self._b = [a]
    def later(self): self.c = 3
p = P(2); print(C("x").__dict__, vars(C("y", 2)), vars(p), p.__dict__); p.later(); print(vars(p), [o.__dict__ for o in [p]])
import json; print(json.dumps(C("x"), default=lambda o: o.__dict__), json.dumps([C("x").__dict__, vars(p)]))
""",
    "a namespace": """
from types import SimpleNamespace
s = SimpleNamespace(a=1, b=[2]); print(s); s.c = 3; print(vars(s))
""",
    "asyncio": """
import asyncio
async def one(n):
    found = await call_tool("echo", {"n": n})
    return found["n"]
async def main():
    async with asyncio.timeout(5):
        print(await one(1))
    done, pending = await asyncio.wait([asyncio.create_task(one(n)) for n in range(3)])
    print(sorted(task.result() for task in done), len(pending))
asyncio.run(main())
""",
    "streams and literals": r"""
import ast, sys
sys.stdout.write("w\n")
sys.stdout.flush()
print(ast.literal_eval("[1, {'a': None, 'b': (True, -2.5, \"x\")}]"), ast.literal_eval("'a' 'b'"), ast.literal_eval(" {1: b'x'} "))
for text in ("print(1)", "f'{1}'", "x", "[].append", "()()", "'a'.upper()"):
    try:
        print(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        print("no")
""",
    "addresses": """
from urllib.parse import urlparse, urlunparse, urlencode, parse_qs
url = urlparse("https://a.b/p?x=1")
query = parse_qs(url.query)
query["y"] = ["2"]
print(url._replace(query=urlencode(query, doseq=True)).geturl(), urlunparse(url._replace(fragment="f")), url[1], tuple(url)[:3])
""",
    "names of groups and functions": r"""
import functools, re
TOKEN = re.compile(r"(?P<number>\d+)|(?P<sign>[+*])|(?P<space>\s+)")
print([(found.lastgroup, found.group()) for found in TOKEN.finditer("1 + 22")])
def logged(function=None, *, prefix=""):
    if function is None:
        return functools.partial(logged, prefix=prefix)
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print(prefix + function.__name__, args)
        return function(*args, **kwargs)
    return wrapper
@logged(prefix="> ")
@logged
def add(a, b):
    return a + b
def named(function):
    def inner():
        return function()
    inner.__name__ = "other"
    return inner
@named
def three():
    return 3
print(add(1, 2), add.__name__, three(), three.__name__)
from datetime import date, datetime
print(datetime(2026, 3, 5, 7, 8, 9).timetuple()[:8], date(2026, 12, 31).timetuple().tm_yday)
print(sorted({"b": 1, "a": 2}, key={"b": 1, "a": 2}.get, reverse=True))
""",
    "max of instances that are iterated": """
class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y
    def __iter__(self):
        yield self.x
        yield self.y
    def __lt__(self, other):
        return tuple(self) < tuple(other)
    def __repr__(self):
        return f"Point({self.x}, {self.y})"
a, b = Point(1, 2), Point(3, 4)
print(max(a, b), min(a, b), max([a, b]), max(p.x for p in (a, b)), sorted([b, a]), [*a])
""",
    "aliases of types": """
from typing import Callable, Any, Optional, Union, Dict, List, Tuple, Literal, Iterable, TypeAlias
Validator = Callable[[Any], "str | None"]
Json = Dict[str, Any]; Rows = List[Json]; Pair = Tuple[int, ...]; Mode = Literal["a", "b"]; M = Optional[str]; U = Union[int, str] | None; A: TypeAlias = "dict"
def f(x: Optional[Json] = None) -> Rows: return [x or {}]
print(f({"a": 1}))
""",
    "kinds of collections": """
from collections.abc import Callable, Iterable, Mapping
H = Callable[[dict], str]; I = Iterable[int]; M = Mapping[str, int]
print(isinstance({}, Mapping))
""",
    "aliases by the module": """
from __future__ import annotations
import typing as t
X = t.Callable[..., t.Any]
def g(x: t.Optional[int] = None) -> t.Dict[str, int]: return {"x": x or 0}
print(g())
""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_prints_what_python_prints(sandbox: Sandbox, name: str) -> None:
    wanted = await asyncio.to_thread(by_python, PROGRAMS[name])
    assert (await sandbox.run(PROGRAMS[name], answer, LIMITS, "agent")).text.rstrip("\n") == wanted


async def test_programs_are_read_in_turn(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of several would keep the event loop from running, and so the calls of other agents."""
    read, lock, now, most = reading.read_program, threading.Lock(), 0, 0

    def counted(code: str) -> Any:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        try:
            return read(code)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(reading, "read_program", counted)
    code = "\n".join(f"class C{n}(Exception):\n    def f(self):\n        return super().args" for n in range(60))
    ended = await asyncio.gather(*(sandbox.run(code, answer, LIMITS, f"agent {n}") for n in range(4)))
    assert [outcome.failure for outcome in ended] == [None] * 4
    assert most == 1
