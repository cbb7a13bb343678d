"""Programs that print in the sandbox what they print in Python itself."""

from typing import Final

import pytest

from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_first_tries import run

PROGRAMS: Final[dict[str, str]] = {
    "keyword_fields": r"""
from dataclasses import dataclass, field, asdict, replace, InitVar, KW_ONLY, fields
@dataclass(kw_only=True)
class A:
    x: int
    y: int = 2
    z: int
try:
    A(1, 2, 3)
    print("took")
except TypeError as e:
    print("TypeError")
print(A(x=1, z=3), A(x=1, z=3) == A(x=1, y=2, z=3), replace(A(x=1, z=3), y=9), [f.name for f in fields(A)])
@dataclass
class B:
    a: int
    b: int = field(default=3, kw_only=True)
    c: int
try:
    B(1, 2, 3)
    print("took")
except TypeError as e:
    print("TypeError")
print(B(1, 7, b=5), B(1, 2))
@dataclass(frozen=True, order=True)
class C:
    a: int
    _: KW_ONLY
    b: int = 0
    tags: list = field(default_factory=list, repr=False, compare=False)
print(C(1, b=2), sorted([C(2), C(1, b=3), C(1)]), hash(C(1)) == hash(C(1)))
""",
    "frozen_fields": r"""
from dataclasses import dataclass, field, asdict, InitVar
@dataclass(frozen=True)
class F:
    w: float
    h: float
    area: float = field(init=False)
    scale: InitVar[int] = 1
    def __post_init__(self, scale):
        object.__setattr__(self, "area", self.w * self.h * scale)
print(F(2, 3), asdict(F(2, 3)), F(1, 2, scale=4), F(2, 3) == F(2, 3))
try:
    F(1, 2).w = 3
except Exception as e:
    print(e)
@dataclass(frozen=True)
class G(F):
    name: str = "g"
print(G(1, 2, name="n"))
""",
    "keyword_heirs": r"""
from dataclasses import dataclass, field
@dataclass(kw_only=True)
class P:
    name: str
    tags: list[str] = field(default_factory=list)
    n: int = 4
@dataclass(kw_only=True)
class Q(P):
    size: int
print(Q(name="n", size=2), P(name="a").tags is P(name="b").tags)
try:
    Q("n")
except TypeError as e:
    print("TypeError")
@dataclass
class R(P):
    size: int
    def total(self): return self.size + self.n
print(R(3, name="x"), R(3, name="x").total())
try:
    R(name="x")
except TypeError:
    print("missing")
@dataclass(slots=True, kw_only=True, frozen=True)
class S:
    a: int
    b: str = "q"
print(S(a=1))
try:
    S(a=1).a = 4
except Exception as e:
    print(type(e).__name__)
""",
    "asserts": r"""
def check(n):
    assert n > 0, f"n is {n}"
    assert isinstance(n, int)
    return n
for v in (1, -1, 2.5):
    try:
        print(check(v))
    except AssertionError as e:
        print("AE", e, repr(e), e.args)
from contextlib import suppress
with suppress(AssertionError):
    assert 0, 5
try:
    assert [], {"a": 1}
except AssertionError as e:
    print(e, e.args)
""",
    "kinds_in_texts": r"""
try:
    int("a")
except Exception as e:
    print(f"{type(e) is ValueError} {type(e) == KeyError} type(e) is")
    print(f"{type(e) in (KeyError, ValueError)} {type(e).__name__}")
""",
    "returned": r"""
def g():
    yield 1
    return {"n": 2}
it = g()
next(it)
try:
    next(it)
except StopIteration as e:
    print("value", e.value)
try:
    next(it)
except StopIteration as e:
    print("value", e.value)
class E(Exception): pass
it = g(); it.__next__()
try:
    it.send(None)
except (ValueError, StopIteration):
    print("x")
try:
    next(iter([]))
except StopIteration as stop:
    print(stop.value)
""",
    "true_asserts": r"""
class B:
    def __init__(self, n): self.n = n
    def __bool__(self): return self.n > 0
try:
    assert B(1), "one"
    assert B(0), "none"
except AssertionError as e:
    print(e)
""",
    "groups": r"""
import re
m = re.match(r"(a)(b)?", "a")
print(m.groups(), m.groups(""), m.groups(default="-"), re.match(r"(?P<x>a)(?P<y>b)?", "a").groupdict(""))
print(m.groupdict())
maj, mi, pa = re.match(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", "v2.10").groups("0")
print(maj, mi, pa)
""",
    "operators": r"""
d = {"b": 1, "a": 2}
print(sorted("ab", key=d.__getitem__), max(d, key=d.__getitem__), list(map(d.__contains__, "ax")))
print(d.__getitem__("a"), [1, 2].__contains__(2), list(filter({1, 2}.__contains__, [0, 1, 2])))
""",
    "paths": r"""
import pathlib
from pathlib import PurePosixPath, PurePath
print(PurePosixPath("/a/b.c").name, isinstance(PurePosixPath("a"), PurePath), pathlib.PurePosixPath("x/y").parent)
def stem(path: PurePath): return path.stem
print(stem(PurePosixPath("q.txt")), PurePosixPath("/a/b").is_relative_to("/a"))
print(PurePosixPath("/a/b/c").relative_to("/a"))
try:
    PurePosixPath("/a").relative_to("/b")
except ValueError as error:
    print(str(error)[:28])
""",
    "namespaces": r"""
from types import SimpleNamespace
def shown():
    ns = SimpleNamespace(**{"a": 1, "b": [2]}); ns.c = 3; return (repr(ns), ns.a, vars(ns),
      ns == SimpleNamespace(a=1, b=[2], c=3), ns.__dict__)
print(shown())
""",
    "chains": r"""
from collections import ChainMap
c = ChainMap({"a": 1}, {"a": 2, "b": 3})
print(dict(c), c["b"], list(c), "b" in c, {**c}, {**c, "z": 1}, c.new_child({"q": 1})["q"], c.get("zz", 4))
print(sorted(c.items()))
print(len(c), c)
for k, v in c.items(): print(k, v)
c["n"] = 5
print(c.maps[0], c.pop("n"), bool(c))
def f(**k): return k
print(f(**c))
""",
    "words": r"""
import shlex
for t in [
    "kubectl get pods -n 'my ns' --all", 'a "b \\" c" d\\ e', "x''y", '""', "a'b'\"c\"", "  lead trail  ",
    "a 'x\\y'", 'a "x\\y \\\\ z"',
]:
    print(shlex.split(t))
print(shlex.split("a # b", comments=True), shlex.quote("a b"), shlex.quote("it's"), shlex.quote(""))
print(shlex.quote("ok-1.txt"), shlex.join(["a", "b c"]))
try:
    shlex.split("a 'b")
except ValueError as e:
    print(e)
""",
    "settings": r"""
import configparser
text = "[server]\nhost = localhost\nport = 8080\n\n[db]\nurl = pg://x\npool = 5\n"
c = configparser.ConfigParser()
c.read_string(text)
print(c.sections(), c["server"]["host"], c.getint("db", "pool"), c.get("db", "x", fallback="none"))
print(dict(c["db"]), len(c["db"]))
for s in c.sections():
    for k, v in c.items(s):
        print(s, k, v)
print(c.has_section("a"), c.has_option("db", "url"), "db" in c, c["server"].getint("port"))
print({s: dict(c[s]) for s in c.sections()}, {**c["db"]})
print({s: dict(c.items(s)) for s in c}, list(c["db"].items()), "url" in c["db"], c["db"].get("nope"))
print(c["db"].get("nope", "d"))
""",
    "more_settings": r"""
from configparser import ConfigParser, NoSectionError
import io
c = ConfigParser()
c.optionxform = str
c.read_string("[DEFAULT]\nbase = /srv\n; c\n[paths]\nRoot: %(base)s/app\n  more\nOn = yes\npct = 50%%\n\n[empty]\n")
print(c.items("paths"), c.getboolean("paths", "On"), c["paths"]["base"], c["paths"].getboolean("On"))
print(c.options("paths"), c.get("paths", "Root", raw=True))
try:
    c.get("zz", "a")
except NoSectionError as e:
    print("no section")
try:
    c["zz"]
except KeyError as e:
    print("key", e)
c["new"] = {"a": 1}
c.set("new", "b", "2")
out = io.StringIO(); c.write(out); print(out.getvalue())
print(c.getint("new", "zz", fallback=7), c.getboolean("new", "zz", fallback=None))
""",
    "fractions": r"""
from fractions import Fraction
print(Fraction(1, 3) + Fraction(1, 6), Fraction("0.25"), float(Fraction(3, 4)), Fraction(6, 4).numerator)
print(repr(Fraction(6, 4)))
print(sum([Fraction(1, 3)] * 3), Fraction(1, 3) < Fraction(1, 2), Fraction(0.5))
print(Fraction(3.14159).limit_denominator(100), Fraction("-3/6"), Fraction("1e-2"), Fraction(2, -4))
print(sorted([Fraction(1, 2), Fraction(1, 3), 0.4]), max(Fraction(1, 2), 0), Fraction(1, 2) == 0.5)
print(1 - Fraction(1, 3), 2 / Fraction(1, 3), Fraction(7, 2) // 1, Fraction(7, 2) % 1, Fraction(1, 2) ** 2)
print(-Fraction(1, 2), abs(Fraction(-1, 2)), round(Fraction(5, 2)), round(Fraction(1, 3), 2))
print(int(Fraction(-7, 2)), 1 <= Fraction(3, 2) <= 2, 3 * Fraction(1, 3), Fraction(1, 2) + 0.25)
print({Fraction(2, 1): "two"}[2], bool(Fraction(0)), Fraction(5), f"{Fraction(1, 3)}")
print(Fraction(1, 3).limit_denominator(), Fraction(22, 7).as_integer_ratio())
print(Fraction(311, 99).limit_denominator(10), isinstance(Fraction(1), Fraction))
try:
    Fraction(1, 0)
except ZeroDivisionError as e:
    print(e)
try:
    Fraction("a")
except ValueError as e:
    print(e)
for n in range(1, 60, 7):
    print(Fraction(n, 61).limit_denominator(n // 3 + 1), end=" ")
""",
    "dropped_generators": r"""
log = []
def gen(n=5):
    try:
        for i in range(n):
            yield i
    finally:
        log.append("closed")
try:
    for x in gen():
        if x == 2:
            raise ValueError("stop")
except ValueError as e:
    log.append(str(e))
print(log)
v = next(gen())
log.append(v)
print(log)
z = list(zip([1, 2], gen()))
log.append(len(z))
print(log)
from itertools import islice, takewhile, chain
import itertools
print(list(islice(gen(), 2)), log)
print(any(x > 1 for x in gen()), log)
first = next((x for x in gen() if x > 0), None)
print(first, log)
log.clear()
it = iter(gen())
print(next(it), next(it), log)
print(list(itertools.islice(enumerate(gen()), 1)), log)
print(all(map(lambda x: x < 2, gen())), log)
print(list(takewhile(lambda x: x < 1, gen())), log)
print(next(filter(lambda x: x > 2, gen())), log)
print(next(chain([9], gen())), next(chain(gen(), gen())), log)
for a, b in zip("abc", gen()):
    if b:
        break
print(log)
def f():
    for i, x in enumerate(gen()):
        if i == 1:
            return x
print(f(), log)
def outer():
    try:
        for x in islice(gen(), 4):
            yield x
    finally:
        log.append("outer")
log.clear()
for x in outer():
    if x:
        break
print(log)
def run():
    for x in gen():
        check(x)
def check(x):
    if x > 1:
        raise KeyError(str(x))
log.clear()
try:
    run()
except KeyError as e:
    print("caught", e, log)
n = 0
for x in gen(3):
    try:
        if x == 1:
            raise ValueError
    except ValueError:
        n += 1
        continue
print(n, log)
""",
}
WORKERS: Final = """
import asyncio
async def worker(queue, results):
    while True:
        name = await queue.get()
        try:
            results.append((await call_tool(name))["id"])
        except RuntimeError as error:
            results.append(str(error))
        finally:
            queue.task_done()
async def main():
    queue, results = asyncio.Queue(), []
    for name in ("c", "a", "bad", "b"):
        queue.put_nowait(name)
    workers = [asyncio.create_task(worker(queue, results)) for _ in range(2)]
    await queue.join()
    for one in workers:
        one.cancel()
    ended = await asyncio.gather(*workers, return_exceptions=True)
    print(len(ended), workers[0].cancelled())
    return sorted(results)
await main()
"""
STAGES: Final = """
import asyncio
async def first(names, found):
    while True:
        name = await names.get()
        await found.put((await call_tool(name))["id"])
        names.task_done()
async def second(found, kept):
    while True:
        try:
            kept.append(await found.get())
        except asyncio.CancelledError:
            break
        found.task_done()
async def main():
    names, found, kept = asyncio.Queue(), asyncio.Queue(maxsize=1), []
    tasks = [asyncio.create_task(first(names, found)), asyncio.create_task(second(found, kept))]
    for name in "abc":
        await names.put(name)
    await names.join()
    await found.join()
    for task in tasks:
        task.cancel()
    return sorted(kept)
asyncio.run(main())
"""
SENTINELS: Final = """
import asyncio
async def worker(queue, results):
    while (name := await queue.get()) is not None:
        results.append((await call_tool(name))["id"])
        queue.task_done()
    queue.task_done()
async def main():
    queue, results = asyncio.Queue(), []
    workers = [asyncio.create_task(worker(queue, results)) for _ in range(2)]
    for name in "abc":
        await queue.put(name)
    await queue.join()
    for _ in workers:
        await queue.put(None)
    await asyncio.gather(*workers)
    return sorted(results)
await main()
"""


@pytest.mark.parametrize("said", PROGRAMS)
async def test_a_program_prints_what_it_prints_in_python(
    sandbox: Sandbox, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(PROGRAMS[said], {"__name__": f"program_of_{said}"})  # noqa: S102 - the programs above
    assert await run(sandbox, PROGRAMS[said]) == capsys.readouterr().out.rstrip("\n")


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (WORKERS, '2 True\n["a", "b", "c", "it is locked"]'),
        (STAGES, '["a", "b", "c"]'),
        (SENTINELS, '["a", "b", "c"]'),
    ],
    ids=["workers", "stages", "sentinels"],
)
async def test_tasks_work_off_a_queue_that_a_program_joins(sandbox: Sandbox, program: str, text: str) -> None:
    assert await run(sandbox, program) == text


async def test_an_assert_that_nothing_catches_tells_its_condition(sandbox: Sandbox) -> None:
    said = await run(sandbox, "x = 1\nassert x == 2, 'want two'")
    assert "AssertionError: want two\nassert 1 == 2" in said
