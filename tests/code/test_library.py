# ruff: noqa: E501 - programs
"""Programs that use the library as models do: each prints what Python prints."""

import asyncio
from typing import Final

import pytest

from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer, by_python

PROGRAMS: Final = {
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
