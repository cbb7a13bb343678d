# ruff: noqa: E501 - programs
"""Programs that use the library as models do: each prints what Python prints."""

import asyncio
from typing import Final

import pytest

from aggregator.code.sandbox.prelude import FunctionCall
from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer, by_python

PROGRAMS: Final = {
    "lines of text": r"""
import textwrap
body = "  Steps:\n\n1. run `make 2`\n2. see  error\tE100\n\n\nSee well-known pages.  Two spaces  "
for width in (10, 14, 20, 40): print(textwrap.fill(body, width), textwrap.wrap(body, width, initial_indent="- ", subsequent_indent="  "), sep="\n")
print(textwrap.wrap("   averyveryverylongword x", 8), textwrap.wrap("  abcdefgh i", 8), textwrap.wrap(""), textwrap.wrap("  \n "))
""",
    "kinds of errors": r"""
import json
from collections import Counter
seen = Counter()
hints = {KeyError: "key", ValueError: "value", RuntimeError: "tool"}
for f in (lambda: {}["k"], lambda: int("x"), lambda: call_tool("fails"), lambda: 1 / 0, lambda: json.loads("{"), lambda: [][1], lambda: None.x):
    try:
        f()
    except Exception as e:
        seen[type(e)] += 1
        kind = type(e)
        print(type(e) is ZeroDivisionError, type(e) in (KeyError, IndexError), hints.get(type(e), "none"), kind.__name__, type(e) == json.JSONDecodeError, type(e).__name__, kind is AttributeError)
print(seen[KeyError], seen[ZeroDivisionError], type(1), type([]) is list, type(seen) is Counter, type(None))
""",
    "kinds of own errors": r"""
class Failed(Exception): pass
class Other(Failed): pass
for one in (Failed("a"), Other("b"), ValueError("c"), KeyError("d")):
    try: raise one
    except (Failed, ValueError, KeyError) as e: print(type(e) is Failed, type(e) in (Other, KeyError), type(e) == ValueError, type(e).__name__, isinstance(e, Failed))
x = Failed("q"); print(type(x) is Failed, type(5) is int, {"a": 1}, type("x") == str)
""",
    "loops that are left with await": r"""
def gen(n):
    try:
        for i in range(n): yield i
    finally: print("cleanup", n)
import asyncio
async def later():
    for v in gen(3):
        found = await call_tool("one", {"n": v})
        if found["n"] == 1: return found["n"]
print(asyncio.run(later()))
""",
    "loops that are left": r"""
from contextlib import contextmanager
def gen(n=5):
    try:
        for i in range(n):
            yield i
    finally:
        print("cleanup", n)
for v in gen():
    if v == 1: break
print("post")
def find(x):
    for i, v in enumerate(gen(4), start=10):
        if v == x:
            return i
    else:
        print("else")
print(find(2), find(9))
def outer():
    for v in gen(3):
        yield v * 2
def outer2():
    yield from gen(2)
for v in outer():
    print(v)
    break
for v in outer2():
    break
print("x")
for v in gen(1):
    for w in gen(2):
        break
    continue
else:
    print("else2")
class Pager:
    def __init__(self): self.open = 0
    @contextmanager
    def session(self):
        self.open += 1
        try: yield self
        finally:
            self.open -= 1
            print("closed session")
    def pages(self):
        with self.session():
            n = 1
            while True:
                items = call_tool("page", {"page": n})["items"]
                for i in items: yield i
                n += 1
p = Pager()
for issue in p.pages():
    print(issue, p.open)
    if issue >= 3: break
print(p.open)
def retrying():
    for n in (12, 13, 14):
        try:
            yield call_tool("fails" if n == 13 else "one", {"n": n})
        except RuntimeError as e:
            print("skip", e)
for i in retrying(): print(i["n"])
g = gen(7)
for v in g: break
print("kept", next(g))
g.close()
def closed_twice():
    with Pager().session() as one:
        yield from gen(one.open + 1)
for v in closed_twice(): break
def waits():
    try: yield 1
    except GeneratorExit:
        print("leaves")
        raise
for v in waits():
    if v: break
def bare():
    for v in gen(1): return
print(bare())
""",
    "heaps": r"""
import heapq
h = [5, 3, 8, 1, 9, 2]
heapq.heapify(h); print(h)
heapq.heappush(h, 0); print(h, heapq.heapreplace(h, 7), heapq.heappushpop(h, 4), h)
class T:
    def __init__(self, p, n): self.p, self.n = p, n
    def __lt__(self, o): return self.p < o.p
    def __repr__(self): return self.n
q = []
for i, n in enumerate("abcdefghij"):
    heapq.heappush(q, T(i % 3, n))
print(q, [heapq.heappop(q) for _ in range(len(q))])
print(list(heapq.merge([1, 3], [2], key=lambda v: v)), heapq.nlargest(2, [3, 1, 2]), heapq.nsmallest(1, {"b": 1, "a": 2}))
try: heapq.heappop([])
except IndexError as e: print(e)
graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2, "d": 5}, "c": {"d": 1}, "d": {}}
dist, pq = {"a": 0}, [(0, "a")]
while pq:
    d, u = heapq.heappop(pq)
    if d > dist.get(u, float("inf")): continue
    for v, w in graph[u].items():
        if d + w < dist.get(v, float("inf")):
            dist[v] = d + w
            heapq.heappush(pq, (d + w, v))
print(dist)
from heapq import heappush, heappop
z = []; heappush(z, (1, "x")); print(heappop(z))
try:
    heappush(z, (1, {})); heappush(z, (1, {}))
except TypeError as e: print("TE")
""",
    "pprint": r"""
import pprint, io
from pprint import pprint as pp, pformat
from datetime import date
from collections import OrderedDict, defaultdict, Counter
pp({"b": list(range(30)), "a": {"nested": ["x" * 30, "y" * 30, "z" * 30]}, "c": (1,)})
pp({"number": 2, "user": {"login": "linus", "id": 856}, "labels": [{"name": "bug"}, {"name": "P1"}], "body": "Steps:\n1. run `make 2`\n\nSee #1 and https://example.com/i/2?a=1&b=x%20y\n| a | b |\n", "locked": False, "assignee": None}, width=100, depth=2)
pp([1, "a", None, True, {"k": {1, 2}}], compact=True); print(pformat({"x": 1}))
pp({"items": [{"status": "Running", "name": f"pods-{i}", "created": "2026-11-20T00:30:00Z", "cpu": "1m"} for i in range(3)]}, sort_dicts=False)
pp({"results": [{"url": f"https://www.site{i}.com/p/{i}?utm_source=x&q=a+b", "content": "lorem ipsum " * (3 * i + 1)} for i in range(3)], "time": 1.23}, indent=2, width=60)
pp("short"); pp("long text with many words " * 8); pp(["long text with many words " * 5]); pp(("a",)); pp(()); pp({}); pp([]); pp(set()); pp(None); pp(1.5)
pp({"k": ("x" * 40, "y" * 50)}); pp([("x" * 40, "y" * 50)]); pp({"s": {"b" * 40, "a" * 45}}); pp({2: "a", 1: "b", "z": 1}); pp({"d": date(2026, 1, 1), "é": "日本"})
pprint.pp({"b": 1, "a": 2}); print(pprint.pformat(list(range(50)), compact=True)); print(pprint.pformat({"a": {"b": {"c": {"d": 1}}}}, depth=2))
pp([[1] * 20, [2] * 30]); pp({"a": "line1\nline2\nline3 " + "z" * 70}); pp([{"id": i, "name": "n" * 30, "tags": ["t"] * 5} for i in range(3)])
printer = pprint.PrettyPrinter(indent=4, width=40); printer.pprint({"a": [1, 2, 3], "bbbbbbbbbbbbbbbbbbbbb": {"c": "ddddddddddddddddddd"}})
print(printer.pformat([1]))
from collections import Counter, defaultdict
counted = Counter({"word" * 5 + str(n): n for n in range(6)}); pp(counted); kept = defaultdict(list, {"k" * 30: ["v" * 30], "m" * 30: []}); pp(kept); pp(Counter("aab")); pp(frozenset(["x" * 50, "y" * 50]))
out = io.StringIO(); pp({"a": 1}, out); pp({"a": 1}, stream=out, indent=4); print(repr(out.getvalue()))
own = [1]; own.append(own); print(pformat(own).partition(" with ")[0]); pp({(1, 2): {"a": ()}, (0, 1): b"x"})
""",
    "printing into texts": r"""
import io, sys, contextlib
buf = io.StringIO()
with contextlib.redirect_stdout(buf):
    print("a", 1, sep="-")
    sys.stdout.write("w\n")
print(repr(buf.getvalue()))
def table(rows, out=None):
    out = out or io.StringIO()
    for r in rows:
        print(*r, sep="\t", file=out)
    return out.getvalue()
print(table([(1, 2), ("a", None)]), end="")
b = io.StringIO("abc\ndef\n")
print(b.readline(), b.tell(), b.read(), b.write("X"), b.getvalue(), b.seek(1), b.write("ZZ"), b.getvalue(), b.truncate(2), repr(b.getvalue()))
b = io.StringIO(); b.write("x"); b.write("y"); b.seek(0); print(b.read(1), b.read(), b.read() == "", [l for l in io.StringIO("1\n2")])
import contextlib as c
def chatty():
    print("inside")
    return 5
with c.redirect_stdout(io.StringIO()) as first:
    x = chatty()
    with c.redirect_stdout(io.StringIO()) as second:
        print("deeper")
    try:
        with c.redirect_stdout(io.StringIO()): raise ValueError("v")
    except ValueError as e: print("caught", e)
print(x, repr(first.getvalue()), repr(second.getvalue()))
class Tee:
    def __init__(self): self.parts = []
    def write(self, text): self.parts.append(text)
t = Tee(); print("a", 1, file=t, end=""); print("b", file=t); print("".join(t.parts))
""",
    "sets": r"""
parts = [{1, 2, 3}, {2, 3}, {3, 2, 9}]
print(sorted(set.intersection(*parts)), sorted(set.union(*parts)), sorted(parts[0].difference(*parts[1:])), sorted(set().union(*parts)))
seen = set(); seen.update(*parts); seen.update([5], (6,)); seen.difference_update([9], {1}); print(sorted(seen))
seen.intersection_update({2, 3, 5}); seen.symmetric_difference_update([2, 7]); print(sorted(seen), frozenset([1]).union([2], [3]) == frozenset([1, 2, 3]))
options = {}; options.update({"a": 1, "b": 2}, c=3); print(options)
""",
    "more of sets": r"""
a = {1, 2, 3}
a.update([7], {8}, (9,)); print(sorted(a), sorted(a.union([4], [5])), sorted(a.intersection([1, 7], {7})), sorted(a.difference([1], [2])), sorted(set().union(*[{1}, {2}])), sorted(set.union({1}, {2})), sorted(set.intersection(*[{1, 2}, {2, 3}])), a.symmetric_difference([1]) is None)
a.difference_update([7, 8]); a.intersection_update({1, 9, 2}); print(sorted(a)); a.symmetric_difference_update({1, 5}); print(sorted(a))
a |= {3}; a &= {3, 5}; a -= {5}; a ^= {4}; print(sorted(a), frozenset({1}).union({2}, {3}) == {1, 2, 3})
d = {}; d.update({"a": 1}); d.update([("b", 2)], c=3); print(d)
from collections import Counter
c = Counter(); c.update("ab"); c.update(a=2); print(c)
def evens():
    yield 2
    yield 4
print(sorted({1}.union(evens())), sorted({1}.union(*[evens(), [9]])), {1}.union() == {1}, sorted(set().union(*({n} for n in range(3)))))
""",
    "format_map": r"""
class Default(dict):
    def __missing__(self, key): return "{" + key + "}"
print("{a} {b}".format_map(Default(a=1)), "{a[x]} {b!r} {a[y]:>5}!".format_map({"a": {"x": 1, "y": 2}, "b": 3}))
from collections import defaultdict
print("{x} {y}".format_map(defaultdict(lambda: "-", x=1)))
try: "{q}".format_map({})
except KeyError as e: print(e)
tpl = "Dear {name}, {{literal}} {total:,.2f}"
print(tpl.format(**{"name": "A", "total": 1234.5}), tpl.format_map({"name": "B", "total": 2}))
""",
    "queues": r"""
import asyncio
async def worker(q, out):
    while True:
        try:
            n = q.get_nowait()
        except asyncio.QueueEmpty:
            break
        try:
            out.append((await call_tool("fails" if n == 13 else "one", {"n": n}))["n"])
        except Exception as e:
            out.append(str(e))
        finally:
            q.task_done()
async def main():
    q, out = asyncio.Queue(maxsize=3), []
    for n in (1, 13, 2): q.put_nowait(n)
    try: q.put_nowait(0)
    except asyncio.QueueFull: print("full", q.qsize())
    await asyncio.gather(*[worker(q, out) for _ in range(2)])
    print(sorted(map(str, out)), q.empty())
asyncio.run(main())
""",
    "parts of addresses and a line": r"""
from urllib.parse import urlsplit, urlparse
u = urlsplit("https://user:p%40ss@Host:8080/p?q#f"); print(u.username, u.password, u.hostname, u.port, urlparse("http://a.b").username, urlparse("http://me@a.b").password, urlparse("http://me@a.b").username)
import statistics
line = statistics.linear_regression([1, 2, 3], [2, 4, 7]); print(line, round(line.slope, 6), statistics.linear_regression([1, 2], [2, 4], proportional=True)[0])
slope, intercept = statistics.linear_regression([0, 1, 2], [1, 3, 5]); print(slope, intercept)
""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_prints_what_python_prints(sandbox: Sandbox, name: str) -> None:
    wanted = await asyncio.to_thread(by_python, PROGRAMS[name])
    assert (await sandbox.run(PROGRAMS[name], answer, LIMITS, "agent")).text.rstrip("\n") == wanted


async def test_an_error_in_a_loop_over_a_generator_has_its_line(sandbox: Sandbox) -> None:
    code = "def g():\n    try: yield 1\n    finally: pass\nfor n in g():\n    if not n: break\n    raise KeyError('k')"
    assert (await sandbox.run(code, answer, LIMITS, "agent")).failure == (
        "Traceback (most recent call last):\n  line 6\n    raise KeyError('k')\nKeyError: k"
    )


async def test_a_result_that_is_too_deep_is_named(sandbox: Sandbox) -> None:
    async def deep(call: FunctionCall) -> str:
        return "[" * 300 + "]" * 300

    failure = (await sandbox.run("call_tool('t')", deep, LIMITS, "agent")).failure
    assert failure is not None
    assert failure.endswith("JSON with more than 200 levels: call the tool without a program.")


async def test_a_long_text_is_printed_in_good_time(sandbox: Sandbox) -> None:
    """The text grows by what is printed, and is not written anew each time."""
    code = "import io\nout = io.StringIO()\nfor n in range(3000): print('x' * 5000, file=out)\nout.tell()"
    assert (await sandbox.run(code, answer, LIMITS, "agent")).text == "15003000"
