# ruff: noqa: E501 - programs
"""Forms of classes, errors and generators that fresh programs used: each prints what Python prints."""

import ast
import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from aggregator.code.sandbox.forms import formed
from aggregator.code.sandbox.prelude import FunctionCall, masked
from aggregator.code.sandbox.sandbox import Sandbox
from aggregator.code.sandbox.yields import YieldForms
from tests.code.test_forms import LIMITS, answer, by_python

PROGRAMS: Final = {
    "kinds of errors in __exit__": """
class M:
    def __enter__(self): return self
    def __exit__(self, *exc):
        kind, error, trace = exc
        print(kind.__name__ if kind else None, error, kind is ValueError, issubclass(kind, Exception) if kind else "")
        return True
with M(): raise ValueError("x")
with M(): call_tool("fails")
with M(): {}["k"]
with M(): pass
print(ValueError.__name__, int.__name__, dict.__name__, M.__name__, type(M()).__name__)
""",
    "issubclass alone": """
print(issubclass(ValueError, Exception), issubclass(KeyError, (OSError, LookupError)), issubclass(bool, int), issubclass(dict, list))
""",
    "forms in f-strings": """
d = {"a": 1, "b": [3, 1]}
print(f"{round(2.675, 2)} {', '.join(map(str.upper, d))} {type(d).__name__} {round(70.35, 1):>8}")
""",
    "bytes of numbers": """
print(bytes([104, 105]), bytes(3), bytes("é", "utf-8"), bytes((1, 2)), bytes(range(3)), bytes(b"x"), bytes(n * 2 for n in [1, 2]), bytes())
try: bytes([256])
except ValueError as e: print(e)
""",
    "faults of JSON": """
import json
for text in ('{"a" 1}', '"x', "", '{"a": 1} x'):
    try: json.loads(text)
    except json.JSONDecodeError as e: print(e.msg, e.pos, e.lineno, e.colno, e)
class P:
    def __init__(self): self.msg, self.pos = "m", 3
    def colno(self): return 5
print(P().msg, P().pos, P().colno())
""",
    "an encoder": """
import json
from datetime import date, datetime
class E(json.JSONEncoder):
    def default(self, o):
        if isinstance(o, (datetime, date)): return o.isoformat()
        if isinstance(o, set): return sorted(o)
        return super().default(o)
print(json.dumps({"d": date(2025, 1, 1), "s": {2, 1}}, cls=E, indent=1), json.dumps([1], cls=None), E(indent=1).encode([{1}]))
try: json.dumps({"x": print}, cls=E)
except TypeError as e: print("not serializable" in str(e))
""",
    "places of named groups": """
import re
m = re.search(r"(?P<y>\\d{4})-(?P<m>\\d\\d)", "on 2025-03-01")
which = "m"
print(m.span("y"), m.start("m"), m.end(which), m.start(1), m.span(), m.end(), m.span(2))
class Span:
    start = 1
    def stop(self, x): return x * 2
print(Span.start, Span().stop("a"))
""",
    "classes with decorators": """
REG = {}
def register(name):
    def deco(cls):
        REG[name], cls.kind = cls, name
        return cls
    return deco
def shown(cls):
    cls.__repr__ = lambda self: f"<{cls.__name__}>"
    return cls
class Base:
    kind = "?"
    def describe(self): return f"{self.kind}:{type(self).__name__}"
@register("up")
class Up(Base): pass
@register("low")
@shown
class Low(Base):
    @classmethod
    def make(cls): return cls()
print([(k, c().describe()) for k, c in REG.items()], Low.make(), Base().kind, isinstance(Low(), Base))
from dataclasses import dataclass
@register("row")
@dataclass
class Row(Base):
    x: int = 1
print(Row(), REG["row"](5).describe())
""",
    "names of classes that change": """
class Base:
    count, seen = 0, ""
    def __init__(self):
        Base.count += 1
        self.id = self.count
    @classmethod
    def mark(cls, said): cls.seen = said
class Child(Base):
    pass
class Other(Base):
    seen = "own"
class Grand(Child): pass
a, b = Child(), Other(); print(a.id, b.id, Base.count, Child.count, b.count)
Base.mark("all"); print(Child.seen, Other.seen, Grand().seen); Child.mark("c"); print(Base.seen, Child().seen, Grand.seen)
Base.limit = 5; print(Child.limit, Grand().limit)
class Late(Base): pass
print(Late.seen, Late.limit, Late.count)
""",
    "changes in place": """
class Bag:
    def __init__(self): self.items, self.n = [], 1
    def __iadd__(self, x):
        self.items.append(x)
        return self
    def __isub__(self, x):
        self.items.remove(x)
        return self
    def __getitem__(self, at): return self.items[at]
    def __setitem__(self, at, x): self.items[at] = x
b = c = Bag(); b += 1; b += 2; b -= 1; print(b.items, b is c)
n = 5; n += 1; n -= 2; l = m = [1]; l += [2]; print(n, l, m is l); b[0] += 5; b.n += 1; print(b.items, b.n)
d = {"b": b}; d["b"] += 9; print(c.items)
""",
    "yield in expressions": """
def coro():
    total = 0
    while True:
        x = (yield total) or 0
        total += x
c = coro(); next(c); print(c.send(5), c.send(2))
def told(n):
    print("told", n)
    return n
def g():
    print("got", (yield 1))
    y = int((yield 2)) + 1
    print(told(1) + (yield y), told(2), f"{(yield 'f')}!")
    return {"k": (yield "k"), **{"z": told(3)}}
def whole():
    print((yield from g()))
    yield
it = whole(); print(next(it), it.send("a"), it.send("41"), it.send(10), it.send("q"), it.send(8))
def h():
    if (yield "q") > 3: yield "yes"
    elif (yield "r"): yield "more"
    else: yield "no"
i = h(); next(i); print(i.send(5)); i = h(); next(i); print(i.send(1), i.send(True))
def lines():
    buf = []
    while (line := (yield)) is not None:
        if not line: continue
        buf.append(line)
    for one in (yield len(buf)): yield one
    x = 1
    x += yield buf
    yield (yield x)
p = lines(); next(p); p.send("a"); p.send(""); p.send("b"); print(p.send(None), p.send("xy"), next(p), next(p), p.send(4), p.send("end"))
""",
    "a generator that is closed": """
def reading():
    print("open")
    try:
        for i in range(5): yield i
    except GeneratorExit:
        print("exit")
        raise
    finally:
        print("close")
g = reading(); print(next(g)); g.close(); print(list(g)); g.close()
reading().close()
def outer():
    inner = reading()
    try: yield next(inner)
    finally: inner.close()
print(list(outer()))
def stubborn():
    try: yield 1
    except GeneratorExit: yield 2
s = stubborn(); next(s)
try: s.close()
except RuntimeError as e: print(e)
""",
    "causes": """
class A(Exception): pass
try:
    try: call_tool("fails")
    except RuntimeError as e: raise A("wrapped") from e
except A as e: print(repr(e), repr(e.__cause__), e.args)
try:
    try: int("x")
    except ValueError as e: raise RuntimeError from e
except RuntimeError as e: print(type(e).__name__, type(e.__cause__).__name__, e.__cause__.__cause__)
import traceback
try: raise A("t")
except A as e: print(traceback.format_exception_only(type(e), e), e.__cause__)
""",
    "later groups of errors": """
import asyncio
async def get(n):
    if n > 1: raise ValueError(f"no {n}")
    return (await call_tool("one"))["name"]
async def main():
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(get(1)); group.create_task(get(2))
    except* ValueError as eg: print([str(e) for e in eg.exceptions], eg)
    except* KeyError: print("key")
    try:
        async with asyncio.TaskGroup() as group: group.create_task(get(3))
    except ExceptionGroup as eg:
        for e in eg.exceptions: print(type(e).__name__, e)
    done, pending = await asyncio.wait([asyncio.create_task(get(1))])
    print(pending, [one.result() for one in done])
asyncio.run(main())
""",
    "arguments of errors that are no texts": """
for make in (lambda: ValueError(5), lambda: RuntimeError({"a": 1}), lambda: Exception("a", 1), lambda: ValueError("x"), lambda: TypeError(), lambda: RuntimeError(ValueError("in")), lambda: Exception(f"a{1}"), lambda: Exception("a" + "b"), lambda: KeyError("k")):
    try: raise make()
    except Exception as e: print(type(e).__name__, str(e), e.args)
try: raise RuntimeError(call_tool("page", {"page": 1}))
except RuntimeError as err: print(err, err.args[0]["items"])
class P:
    def __init__(self, *args): self.args = args
p = P(1, 2); print(p.args)
""",
    "errors that the interpreter lacks": """
from __future__ import annotations
def retry(fn, n=3, on=(ConnectionError, TimeoutError, OSError)):
    for i in range(n):
        try: return fn()
        except on as e: print("retry", i, type(e).__name__, e)
    raise ConnectionError(f"gave up after {n}") from None
state = {"n": 0}
def bad():
    state["n"] += 1
    if state["n"] < 3: raise ConnectionResetError("reset")
    return "ok"
print(retry(bad))
def worse(): raise TimeoutError("slow")
try: retry(worse, 2)
except OSError as e: print(type(e).__name__, e, isinstance(e, ConnectionError), isinstance(e, OSError))
try: call_tool("fails")
except (ConnectionError, EOFError): print("no")
except (IOError, RuntimeError) as e: print("yes", e)
class ApiError(ConnectionError):
    def __init__(self, code): super().__init__(f"code {code}"); self.code = code
try: raise ApiError(5)
except ConnectionError as e: print(e, e.code)
try: {}["x"]
except (BrokenPipeError, UserWarning, KeyError) as e: print(repr(e))
""",
    "names that are imported and not used": """
from enum import Enum, Flag
from functools import wraps, singledispatch
from contextlib import (
    closing, redirect_stdout,
    AsyncExitStack,
)
from dataclasses import InitVar
class E(Enum):
    A = 1
class R:
    def close(self): print("closed")
with closing(R()) as r: print(E.A.name, len(E), type(r).__name__)
""",
    "sentinels and fields without init": """
from dataclasses import dataclass, field
MISSING = object()
def get(d, k, default=MISSING):
    v = d.get(k, MISSING)
    return v if v is not MISSING else "none" if default is MISSING else default
print(get({"a": None}, "a"), get({}, "b", 3), get({}, "z"), object() == object())
@dataclass
class Opt:
    name: str
    limit: int = field(default=10, metadata={"u": 1})
    total: int = field(init=False)
    hist: list = field(init=False, default_factory=list)
    def __post_init__(self): self.total = self.limit * 2
print(Opt("a", limit=3), Opt("b").total)
""",
    "fields that __init__ does not take": """
from dataclasses import dataclass, field, InitVar, asdict, replace
from typing import ClassVar
@dataclass(order=True)
class Ticket:
    sort_index: tuple = field(init=False, repr=False)
    number: int
    title: str = field(compare=False)
    labels: list[str] = field(default_factory=list, compare=False)
    def __post_init__(self): self.sort_index = (0 if "p0" in self.labels else 9, -self.number)
ts = sorted([Ticket(1, "a"), Ticket(2, "b", ["p0"]), Ticket(number=3, title="c")]); print(ts, ts[0] < ts[1], Ticket(4, "x").labels)
@dataclass
class Opt:
    KIND: ClassVar[str] = "opt"
    name: str
    limit: int = 10
    total: int = field(init=False, default=0)
    raw: InitVar[str] = "7"
    def __post_init__(self, raw): self.total = self.limit * int(raw)
print(Opt("a"), Opt("b", 2, "3").total, Opt.KIND, asdict(Opt("c", raw="1")), replace(Ticket(5, "y"), title="z").title)
@dataclass
class Sub(Opt):
    extra: str = "e"
print(Sub("s", 1, "2", "x"), Sub("s") == Sub("s"))
@dataclass(kw_only=True)
class K:
    a: int
    b: int = field(init=False, default=3)
print(K(a=1))
try: Opt()
except TypeError: print("TE")
""",
    "attributes of functions": """
import functools
def counted(fn):
    @functools.wraps(fn)
    def w(*a, **k):
        w.calls += 1
        return fn(*a, **k)
    w.calls = 0
    return w
@counted
def hi(n): return f"hi {n}"
@counted
def other(n): return n
hi("a"); hi("b"); print(hi.calls, other.calls, hi.__name__)
def memo(n):
    if not hasattr(memo, "cache"): memo.cache = {}
    if n not in memo.cache: memo.cache[n] = n * 2
    return memo.cache[n]
print(memo(2), memo(2), memo.cache, len(memo.cache), hasattr(hi, "nope"))
""",
    "classes within classes": """
class Api:
    class Error(Exception):
        def __init__(self, code): super().__init__(f"code {code}"); self.code = code
    class Page:
        size = 10
        def __init__(self, n): self.n = n
    def run(self): raise Api.Error(5)
    def page(self): return self.Page(3)
try: Api().run()
except Api.Error as e: print(e, e.code, Api.Page.size, Api().page().n, type(e).__name__)
class Sub(Api): pass
print(Sub.Page(1).n, isinstance(Sub().page(), Api.Page))
def local():
    class Inner: x = 1
    return Inner().x
print(local())
""",
    "later tasks": """
import asyncio, json
async def get(n):
    if n < 1: return (await call_tool("fails"))
    return (await call_tool("page", {"page": n}))["items"]
async def main():
    tasks = [asyncio.create_task(get(n), name=f"t{n}") for n in (1, 2)]
    print([t.done() for t in tasks])
    await asyncio.gather(*tasks)
    print([t.result() for t in tasks], tasks[0].done())
    t = asyncio.create_task(get(3)); t.add_done_callback(lambda t: print("told", t.result()))
    print(await t, await t, t.exception())
    bad = asyncio.create_task(get(0))
    try: await bad
    except RuntimeError as e: print("E", e, bad.done(), str(bad.exception()))
    r = await asyncio.gather(asyncio.create_task(get(0)), asyncio.ensure_future(get(3)), return_exceptions=True)
    print([str(x) for x in r])
    by = {asyncio.create_task(get(n)): n for n in (1, 3)}
    done, pending = await asyncio.wait(by.keys())
    print(sorted((by[t], t.result()) for t in done), len(pending))
    for c in asyncio.as_completed([asyncio.create_task(get(2))]): print(await c)
    async def two(): return await asyncio.create_task(get(1)), await asyncio.wait_for(asyncio.create_task(get(2)), 5)
    print(await two())
    shared = asyncio.create_task(get(2))
    async def also(): return await shared
    print(await asyncio.gather(also(), also(), shared))
    t = asyncio.create_task(asyncio.sleep(5)); print(t.cancel())
    try: await t
    except asyncio.CancelledError: print("cancelled", t.cancelled())
    async with asyncio.TaskGroup() as tg: a = tg.create_task(get(3))
    print(a.result())
    try: json.loads("{")
    except json.decoder.JSONDecodeError: print("jde")
    except asyncio.exceptions.TimeoutError: print("t")
    ev = asyncio.Event()
    async def waiter(): await ev.wait(); return "woken"
    async def setter(): ev.set()
    print(await asyncio.gather(waiter(), setter()), ev.is_set())
asyncio.run(main())
""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_prints_what_python_prints(sandbox: Sandbox, name: str) -> None:
    wanted = await asyncio.to_thread(by_python, PROGRAMS[name])
    assert (await sandbox.run(PROGRAMS[name], answer, LIMITS, "agent")).text.rstrip("\n") == wanted


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        # A result with keys that look like ours, or like Python's.
        (
            {"text": "own", "content": [1], "isError": 5, "__class__": "odd"},
            "r = call_tool('a')\nprint(r['text'], r['content'], r.get('content'), r['isError'], r['__class__'], len(r))",
            "own [1] [1] 5 odd 4",
        ),
    ],
)
async def test_a_result_may_have_any_keys(sandbox: Sandbox, result: Any, code: str, text: str) -> None:
    async def answered(call: FunctionCall) -> str:
        return json.dumps(result)

    assert (await sandbox.run(code, answered, LIMITS, "agent")).text == text


def test_a_plain_class_that_raises_texts_stays_as_it_is() -> None:
    """To rewrite it would double the time in which it begins."""
    code = "class P:\n    def f(self, x):\n        if x: raise ValueError(f'bad {x}')\n        raise KeyError('a')\nP().f(0)"
    assert formed(code, masked(code)).lines is None


def test_no_part_of_an_expression_is_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls within calls around a `yield` would else cost the square of their depth."""
    tree = ast.parse(f"def g():\n    x = {'f(' * 60}[{'1,' * 500}], (yield){')' * 60}")
    parts, looked, children = sum(1 for _ in ast.walk(tree)), 0, ast.iter_child_nodes

    def counted(node: ast.AST) -> Iterator[ast.AST]:
        nonlocal looked
        looked += 1
        return children(node)

    monkeypatch.setattr(ast, "iter_child_nodes", counted)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    made = YieldForms(iter(range(1_000)).__next__).block(function.body)
    assert looked <= parts
    assert len(made) > 1


async def test_results_that_may_be_asked_for_parts_do_not_fill_the_memory(sandbox: Sandbox) -> None:
    rows = json.dumps([{"id": at, "name": "x" * 20, "tags": ["a", "b"]} for at in range(10_000)])

    async def answered(call: FunctionCall) -> str:
        return rows

    code = "n = 0\nfor at in range(30):\n    r = call_tool('a')\n    n += len(r.content[0].text)\nprint(n, r.isError)"
    assert (await sandbox.run(code, answered, LIMITS, "agent")).text == f"{30 * len(rows)} False"
