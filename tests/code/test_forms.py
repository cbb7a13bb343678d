# ruff: noqa: E501 - programs
"""Forms of Python that the interpreter lacks: every program here prints what Python prints."""

import asyncio
import contextlib
import io
import json
from typing import Any, Final

import pytest

from aggregator.code.sandbox.bounds import CallFailed, ProgramLimits
from aggregator.code.sandbox.prelude import FunctionCall
from aggregator.code.sandbox.sandbox import Sandbox

LIMITS: Final = ProgramLimits(calls=60, seconds=5.0, memory=64 * 2**20)
SHORT: Final = ProgramLimits(calls=60, seconds=1.0, memory=64 * 2**20)
PAGES: Final[dict[int, dict[str, Any]]] = {
    1: {"items": [1, 2], "more": True},
    2: {"items": [3], "more": True},
    3: {"items": [4, 5], "more": False},
}


def answered(name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return the result of a tool, which prints its call."""
    if name == "page":
        return PAGES[(arguments or {})["page"]]
    if name == "fails":
        raise RuntimeError("it is locked")
    return {"name": name, **(arguments or {})}


async def answer(call: FunctionCall) -> str:
    try:
        return json.dumps(answered(call.arguments["name"], call.arguments.get("arguments")))
    except RuntimeError as error:
        raise CallFailed(str(error)) from None


async def answered_later(name: str, arguments: dict[str, Any] | None = None) -> Any:
    return answered(name, arguments)


def by_python(code: str) -> str:
    """Return what Python prints for a program."""
    names = {"call_tool": answered_later if "await " in code else answered, "__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        exec(compile(code, "program", "exec"), names)  # noqa: S102 - our own
    return printed.getvalue().rstrip("\n")


GENERATORS: Final = {
    "pages": """
def pages():
    page = 1
    while True:
        print("asks", page)
        found = call_tool("page", {"page": page})
        yield from found["items"]
        if not found["more"]:
            return
        page += 1
for one in pages():
    print(one)
    if one == 3:
        break
print(list(pages()), sum(pages()), max(pages()), sorted(pages(), reverse=True), {p: 1 for p in pages()})
first, *rest = pages()
print(first, rest, ",".join(str(one) for one in pages()))
print(next(one for one in pages() if one > 1))
print(any(one == 2 for one in pages()), all(one < 2 for one in pages()), dict(zip("ab", pages())))
print([(at, one) for at, one in enumerate(pages(), 1)], *pages())
""",
    "endless": """
import itertools
def numbers(start=0, *, step=1):
    while True:
        yield start
        start += step
print(list(itertools.islice(numbers(5, step=2), 3)), list(itertools.takewhile(lambda n: n < 3, numbers())))
n = numbers()
print(next(n), next(n), next(n, None), next(iter([]), "none"))
for at, (a, b) in enumerate(zip(numbers(), numbers(10))):
    if at == 2:
        break
    print(at, a, b)
print(next(x for x in itertools.count(1) if x % 7 == 0), next((x for x in [] if x), "default"))
evens = (x for x in numbers() if x % 2 == 0)
print(next(evens), next(evens))
squares = map(lambda x: x * x, numbers())
print(next(squares), next(squares), next(filter(lambda x: x > 3, numbers())))
""",
    "try": """
def careful():
    try:
        yield 1
        raise ValueError("broken")
    except (KeyError, ValueError) as error:
        yield f"caught {error}"
    else:
        yield "else"
    finally:
        print("ends")
        yield "last"
    yield "after"
print(list(careful()))
def leaves(how):
    for at in range(3):
        try:
            yield at
            if how == "break" and at == 1:
                break
            if how == "return" and at == 1:
                return "value"
            if how == "continue":
                continue
            yield "end of try"
        finally:
            print("finally", at)
    else:
        yield "loop ended"
    yield "after loop"
for how in ("break", "return", "continue", "none"):
    print(how, list(leaves(how)))
def outer():
    result = yield from leaves("return")
    print("got", result)
    return (yield result)
print(list(outer()))
def again():
    try:
        yield 1
        call_tool("fails")
    except RuntimeError:
        yield "seen"
        raise
try:
    for one in again():
        print(one)
except RuntimeError as error:
    print("outside:", error)
def nested():
    try:
        try:
            yield 1
            raise KeyError("inner")
        finally:
            yield "inner finally"
    except KeyError as error:
        yield repr(error)
print(list(nested()))
""",
    "send": """
def averages():
    total, count, mean = 0, 0, None
    while True:
        value = yield mean
        if value is None:
            return
        total += value
        count += 1
        mean = total / count
a = averages()
next(a)
print(a.send(10), a.send(20))
try:
    a.send(None)
except StopIteration:
    print("stopped")
print(list(a), next(a, "over"))
def chunks(values, size):
    values = iter(values)
    while chunk := [value for _, value in zip(range(size), values)]:
        yield chunk
print(list(chunks([1, 2, 3, 4, 5], 5)))
def walk(tree, depth=0):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield depth, key
            yield from walk(value, depth + 1)
        else:
            match value:
                case [first, *_]:
                    yield depth, key, first
                case str() if value:
                    yield depth, key, value
                case _:
                    continue
print(list(walk({"a": {"b": [1, 2], "c": {"d": "x", "e": None}}, "f": "y"})))
""",
    "managers": """
from contextlib import contextmanager, suppress, ExitStack, nullcontext
@contextmanager
def section(name):
    print("open", name)
    try:
        yield name.upper()
    except ValueError as error:
        print("handled", error)
    finally:
        print("close", name)
with section("a") as a, section("b") as b:
    print(a, b)
with section("c"):
    raise ValueError("wrong")
try:
    with section("d"):
        raise KeyError("through")
except KeyError as error:
    print("out", error)
class Opened:
    def __enter__(self):
        print("enter")
        return 5
    def __exit__(self, kind, error, trace):
        print("exit", kind is None)
        return kind is not None
def inside():
    with Opened() as value:
        yield value
        raise ValueError("lost")
    yield "after"
print(list(inside()))
with suppress(KeyError, IndexError):
    {}["a"]
with ExitStack() as stack:
    print(stack.enter_context(section("e")))
    stack.callback(print, "called")
with nullcontext(3) as three:
    print(three)
""",
    "closures": """
total = 0
def counting(values):
    global total
    seen = set()
    def note(value):
        seen.add(value)
        return len(seen)
    for value in values:
        total += 1
        if value in seen:
            continue
        yield value, note(value)
    else:
        yield "done", total
print(list(counting("abca")), total)
class Tree:
    def __init__(self, value, *children):
        self.value, self.children = value, children
    def __iter__(self):
        yield self.value
        for child in self.children:
            yield from child
    @property
    def leaves(self):
        return (one for one in self if one > 1)
print(list(Tree(1, Tree(2), Tree(3, Tree(4)))), sum(Tree(1, Tree(2))), list(Tree(1, Tree(5)).leaves))
class Pages:
    def __init__(self):
        self.page, self.kept = 0, []
    def __iter__(self):
        return self
    def __next__(self):
        if not self.kept:
            if self.page == 3:
                raise StopIteration
            self.page += 1
            self.kept = list(call_tool("page", {"page": self.page})["items"])
        return self.kept.pop(0)
for one in Pages():
    if one == 2:
        continue
    print(one)
print(list(Pages()), [one * 2 for one in Pages()], sum(1 for _ in Pages()), 4 in list(Pages()))
def flat(lists):
    return (one for part in lists for one in part if one)
print(list(flat([[1, 0], [2]])), [x for xs in flat([[[1], [2]]]) for x in xs])
pairs = ((key, value) for key, value in {"a": 1, "b": 2}.items() if value > 1)
print(dict(pairs))
""",
}
CLASSES: Final = {
    "inheritance": """
from abc import ABC, abstractmethod
class Base(ABC):
    kind = "base"
    seen = []
    def __init__(self, name, *, size=1):
        self.name = name
        self.size = size
        Base.seen.append(name)
    @abstractmethod
    def area(self): ...
    def text(self):
        return f"{self.kind} {self.name}: {self.area()}"
    def __repr__(self):
        return f"<{type(self).__name__} {self.name}>"
class Square(Base):
    kind = "square"
    def area(self):
        return self.size ** 2
class Cube(Square):
    def __init__(self, name, **more):
        super().__init__(name, **more)
        self.faces = 6
    def area(self):
        return super().area() * self.faces
    def text(self):
        return super().text().upper()
shapes = [Square("s", size=3), Cube("c", size=2)]
print([shape.text() for shape in shapes], shapes, Base.seen, Cube.seen is Base.seen)
print(isinstance(shapes[1], Square), isinstance(shapes[0], Cube), isinstance(shapes[1], (int, Base)), issubclass(Cube, Base))
print(type(shapes[1]).__name__, isinstance(3, Base), isinstance("x", str), Square.text(shapes[0]))
class Loud:
    def say(self):
        return "loud"
class Left(Loud):
    def say(self):
        return "left " + super().say()
class Right(Loud):
    def say(self):
        return "right " + super().say()
class Both(Left, Right):
    def say(self):
        return "both " + super().say()
print(Both().say(), Left().say())
""",
    "values of classes": """
from dataclasses import dataclass
from enum import Enum
class Rate:
    @property
    def percent(self):
        return 7
rate = Rate()
def times(number):
    def wrap(function):
        def inner(*given):
            return number * function(*given)
        return inner
    return wrap
@times(rate.percent)
def one(): return 1
@dataclass
class Line:
    price: int = 100
    tax: int = rate.percent
class Kind(Enum):
    FULL = rate.percent
class Order:
    tax = rate.percent
    def total(self, price, tax=rate.percent, *, more=rate.percent):
        return price + tax + more
    @times(rate.percent)
    def count(self):
        return 1
print(one(), Line(), Line(tax=1).tax, Kind.FULL.value, Order.tax, Order().total(100), Order().count())
""",
    "decorators": """
from functools import cached_property, lru_cache, wraps
def shout(function):
    @wraps(function)
    def inner(*given, **more):
        return function(*given, **more).upper()
    return inner
class Order:
    count = 0
    def __init__(self, price, number):
        self._price, self.number, self.asked = price, number, 0
        Order.count += 1
    @property
    def price(self):
        return self._price
    @price.setter
    def price(self, value):
        if value < 0:
            raise ValueError("negative")
        self._price = value
    @property
    def total(self):
        return self.price * self.number
    @cached_property
    def details(self):
        self.asked += 1
        return call_tool("details", {"n": self.number})["name"]
    @classmethod
    def of(cls, text):
        price, number = text.split("x")
        return cls(float(price), int(number))
    @staticmethod
    def valid(text):
        return "x" in text
    @shout
    def said(self, end="."):
        return f"order of {self.total}{end}"
class Half(Order):
    @property
    def price(self):
        return super().price / 2
    @classmethod
    def of(cls, text):
        made = super().of(text)
        made.half = True
        return made
order = Order.of("2.5x4")
print(order.total, order.details, order.details, order.asked, Order.valid("a"), order.valid("1x1"), order.said(end="!"))
order.price = 3
order.price += 1
print(order.total, Order.count)
try:
    order.price = -1
except ValueError as error:
    print(error)
try:
    order.total = 5
except AttributeError:
    print("no setter")
half = Half.of("2x2")
print(half.total, half.half, type(half).__name__, getattr(half, "total"), max([order, half], key=lambda o: o.total).number)
""",
    "errors": """
class ApiError(Exception):
    def __init__(self, message, code=500):
        super().__init__(message)
        self.code = code
class NotFound(ApiError):
    def __init__(self, what):
        super().__init__(f"{what} not found", code=404)
        self.what = what
class Odd(ValueError):
    pass
class Plain(Exception):
    def __str__(self):
        return "plain text"
def find(what):
    if what == "a":
        raise NotFound(what)
    if what == "b":
        raise Odd("odd one", 3)
    if what == "c":
        raise Plain
    if what == "d":
        call_tool("fails")
    if what == "e":
        return {}["missing"]
    return what
for what in "abcdef":
    try:
        print(find(what))
    except NotFound as error:
        print("not found", error.what, error.code, error, error.args, repr(error))
    except (ApiError, Plain) as error:
        print("api", error, type(error).__name__, isinstance(error, Exception))
    except ValueError as error:
        print("value", error, error.args)
    except RuntimeError as error:
        print("tool", error)
    except Exception as error:
        print("other", type(error).__name__, error)
    else:
        print("fine")
    finally:
        print("next")
def retried(times):
    last = None
    for at in range(times):
        try:
            find("a")
        except ApiError as error:
            last = error
    raise ApiError("gave up", 503) from last
try:
    try:
        retried(2)
    except ApiError as error:
        print(error.code)
        raise
except Exception as error:
    print("again", error, error.code)
class Guard:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        print("guard", kind.__name__ if kind else None, error)
        return isinstance(error, NotFound)
with Guard():
    raise NotFound("x")
with Guard():
    pass
errors = [NotFound("q"), Odd("w")]
print([str(error) for error in errors], isinstance(errors[1], ValueError), issubclass(NotFound, ApiError))
""",
    "enum": """
from enum import Enum, IntEnum, auto
import json
class Level(Enum):
    LOW = 1
    HIGH = 2
    TOP = 2
    @classmethod
    def of(cls, number):
        return cls.HIGH if number > 5 else cls(1)
    @property
    def label(self):
        return self.name.title()
    def up(self):
        return Level.HIGH
class Color(str, Enum):
    RED = "red"
    BLUE = "blue"
class Rank(IntEnum):
    A = auto()
    B = auto()
print(Level.LOW, Level.HIGH.value, Level["LOW"].name, Level(2), [one.name for one in Level], Level.of(9).label)
print(Level.LOW == Level.LOW, Level.LOW is Level(1), Level.LOW != Level.HIGH, Level.TOP, len(list(Level)), repr(Level.LOW))
print({Level.LOW: "x"}[Level.LOW], isinstance(Level.LOW, Level), Level.LOW.up(), Level.LOW in (Level.HIGH, Level.LOW))
try:
    Level(9)
except ValueError as error:
    print(error)
print(Color.RED == "red", {"red": 1}[Color.RED], json.dumps({"color": Color.BLUE}), Color("blue").name, Color.RED.value)
print(-Rank.B, Rank.A < Rank.B, sorted([Rank.B, Rank.A]), max(Rank), Rank.B + 1, int(Rank.A), Rank.B >= 2)
match Level.HIGH:
    case Level.LOW:
        print("low")
    case Level.HIGH:
        print("high")
print(call_tool("set", {"color": Color.RED})["color"] if False else "sent")
""",
    "data": """
from dataclasses import dataclass, field, asdict
from typing import NamedTuple, TypedDict, Optional
@dataclass
class Item:
    name: str
    tags: list = field(default_factory=list)
    price: float = 0.0
    def text(self):
        return f"{self.name} {self.price:.2f}"
@dataclass
class Book(Item):
    pages: int = 1
    price: float = 5.0
    def text(self):
        return super().text() + f" ({self.pages})"
@dataclass(order=True)
class Ranked:
    score: float
    name: str = field(default="")
@dataclass(frozen=True)
class Key:
    a: int
    b: str = "x"
    @property
    def both(self):
        return f"{self.a}{self.b}"
class Point(NamedTuple):
    x: int
    y: int = 2
class Vector(NamedTuple):
    x: float
    y: float = 0
    def length(self):
        return (self.x ** 2 + self.y ** 2) ** 0.5
    @property
    def flipped(self):
        return Vector(self.y, self.x)
class Row(TypedDict, total=False):
    id: int
    note: Optional[str]
book = Book("b", ["t"], pages=3)
print(book, book.text(), asdict(book), book == Book("b", ["t"], pages=3), isinstance(book, Item), Book("c").tags)
print(sorted([Ranked(2, "b"), Ranked(1, "z"), Ranked(2, "a")]), max(Ranked(1), Ranked(3)), Ranked(1) < Ranked(2))
print(Key(1).both, {Key(1): 2}[Key(1)], Point(1), Point(3, 4)._replace(x=5), Point(1).y)
x, y = Vector(3, 4)
print(Vector(3, 4).length(), x, y, Vector(1)[0], Vector(1, 2).flipped, Vector(1, 2) == (1, 2), len(Vector(1)), Vector(1, 2)._asdict())
row: Row = {"id": 1}
print(row, Row(id=2), sorted([Vector(2), Vector(1)])[0])
import heapq
heap = []
for score in (3, 1, 2):
    heapq.heappush(heap, Ranked(score))
print([heapq.heappop(heap).score for _ in range(3)])
""",
    "protocols": """
from functools import cmp_to_key, total_ordering
@total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(int(part) for part in text.split("."))
    def __eq__(self, other):
        return self.parts == other.parts
    def __lt__(self, other):
        return self.parts < other.parts
    def __hash__(self):
        return hash(self.parts)
    def __str__(self):
        return ".".join(map(str, self.parts))
versions = [Version("1.10"), Version("1.9"), Version("0.5")]
print([str(v) for v in sorted(versions)], max(versions), Version("1.0") >= Version("1.0"), Version("2.0") <= Version("1.0"))
print(0 < 1 < 2, Version("1.0") < Version("1.1") < Version("1.2"), min(versions, key=lambda v: v.parts))
versions.sort(reverse=True)
print([str(v) for v in versions], sorted([(Version("2.0"), 1), (Version("1.0"), 2)])[0][1])
print(sorted(["bb", "a", "ccc"], key=cmp_to_key(lambda a, b: len(b) - len(a))), sorted([3, 1], reverse=True))
class Box:
    def __init__(self, *things):
        self.things = list(things)
    def __len__(self):
        return len(self.things)
    def __contains__(self, thing):
        return thing in self.things
    def __getitem__(self, at):
        return self.things[at]
    def __format__(self, spec):
        return f"box of {len(self)}" + spec
    def __iter__(self):
        return iter(self.things)
    def __add__(self, other):
        return Box(*self.things, *other.things)
class Flag:
    def __init__(self, on):
        self.on = on
    def __bool__(self):
        return self.on
box, empty = Box("a", "b"), Box()
print(len(box), "a" in box, "c" not in box, box[0], box[-1], box[0:2], f"{box:!}", f"{box}", list(box), len(box + box))
print("full" if box else "empty", "full" if empty else "empty", not empty, bool(empty), [1 for f in (Flag(True), Flag(False)) if f])
if Flag(False) or not Flag(True) or box and empty:
    print("wrong")
while box:
    box.things.pop()
print("emptied", len(box))
class Lookup:
    def __init__(self):
        self.kept = {}
    def __getitem__(self, key):
        if key not in self.kept:
            self.kept[key] = call_tool(key)["name"]
        return self.kept[key]
    def __setitem__(self, key, value):
        self.kept[key] = value
lookup = Lookup()
lookup["x"] = 5
print(lookup["a"], lookup["x"], lookup["a"])
class Shape: pass
class Circle(Shape):
    def __init__(self, r):
        self.r = r
match Circle(2):
    case Shape(r=radius):
        print("circle", radius)
""",
}
METHODS: Final = {
    "dates": """
from datetime import date, datetime, timedelta, timezone, UTC
for day in (date(2020, 12, 31), date(2021, 1, 3), date(2026, 11, 30), datetime(2026, 1, 1, 5)):
    year, week, weekday = day.isocalendar()
    print(year, week, weekday, day.isocalendar()[1], day.toordinal())
print(date.fromisocalendar(2026, 1, 1), date.fromordinal(739000), datetime.fromtimestamp(1_700_000_000, tz=timezone.utc))
print(datetime.fromtimestamp(0, UTC).isoformat(), datetime.now(UTC).tzinfo is not None, datetime(2026, 1, 1, tzinfo=UTC))
print(date.today() <= datetime.today().date() + timedelta(days=1))
""",
    "text": """
import re
print(re.sub(r"\\d+", lambda m: str(int(m.group()) * 2), "a1 b22"), re.sub("a", "b", "banana", count=2))
pattern = re.compile(r"(\\w)(\\w*)", re.IGNORECASE)
def title(found):
    return found.group(1).upper() + found.group(2)
print(pattern.sub(title, "to be or"), pattern.sub(r"\\1", "to be"), pattern.sub(title, "to be", count=1), re.subn("a", "b", "aa"))
print("hello".translate(str.maketrans("el", "ip")), "a-b".translate(str.maketrans("", "", "-")), "{a}".format_map({"a": 1}))
print((5.0).is_integer(), (5.5).is_integer(), (1023).bit_length(), (258).to_bytes(2, "big"), int.from_bytes(b"\\x01\\x02", "little"))
print(callable(print), callable(title), callable(3), callable(str))
""",
    "bound": """
class Own:
    def __init__(self):
        self.kept, self.append, self.strip = [], "data", "more"
    def join(self, one):
        self.kept.append(one)
        return self
found, keys = [], set()
note = found.append
note(1)
for take in (found.append, found.extend):
    take([2])
upper = "abc".upper
own = Own()
join = own.join
print(found, upper(), own.append, own.strip, join(3).kept, list(map(", ".join, [["a", "b"]])), found.append is None)
def emit(write=found.append):
    write(4)
emit()
print(found)
""",
    "names": """
import calendar, sys
from functools import partial
from typing import TypeVar, Generic
T = TypeVar("T", bound=int)
class Kept(Generic[T]):
    def get(self): return 1
def named(): pass
print(named.__name__, (lambda: 1).__name__, Kept.__name__, Kept().get.__name__ if False else "get", type(3).__name__)
print(list(map(str.upper, "ab")), sorted(["b", "A"], key=str.casefold), str.format("{}-{}", 1, 2), partial(str.replace, "aa")("a", "b"))
print([f(x) for f, x in ((str.strip, " a "), (str.split, "a b"))], dict.fromkeys("ab"), dict.get({"a": 1}, "b", 5), list.count([1, 1], 1))
print(list(map(bytes.decode, [b"a"])), set.union({1}, {2}), float.is_integer(2.0), list(map(int.bit_length, [5, 0])))
print(int.to_bytes(5, 2, "little"), str.translate("ab", {97: "x"}), str.format_map("{a}", {"a": 1}))
print(calendar.month_name[3], list(calendar.day_abbr)[0], sum(calendar.monthrange(2024, 2)), calendar.isleap(1900), calendar.monthcalendar(2026, 11)[0])
def main():
    print("ends here")
    return 0
if __name__ == "__main__":
    try:
        main()
    except Exception:
        print("no exception")
    sys.exit(main())
print("never")
""",
    "fields": """
from dataclasses import dataclass, field
from typing import Any
@dataclass(order=True)
class Job:
    priority: int
    name: str = field(compare=False)
    raw: Any = field(default=None, compare=False, repr=False)
@dataclass(order=True)
class Timed(Job):
    at: int = 0
@dataclass(frozen=True)
class Key:
    a: int
    b: list = field(default_factory=list, hash=False, compare=False)
print(sorted([Job(2, "a", {}), Job(1, "z", [])]), Job(1, "a") == Job(1, "b"), Job(1, "a") != Job(2, "a"), Job(1, "a", 5))
print(Timed(1, "x", at=3), Timed(1, "x", at=3) == Timed(1, "y", at=3), Timed(1, "x", at=1) < Timed(1, "a", at=2))
print(len({Key(1, [1]), Key(1, [2])}), Key(1) == Key(1, [3]))
""",
    "modules": """
import uuid, html, fnmatch, types
from collections import ChainMap, OrderedDict
from collections.abc import Iterable, Mapping
from string import Template
from typing import Any, Callable, Iterator, cast, Awaitable
from functools import partial, reduce
print(uuid.uuid5(uuid.NAMESPACE_DNS, "python.org"), uuid.uuid3(uuid.NAMESPACE_URL, "x"), uuid.UUID("{12345678123456781234567812345678}"))
print(uuid.uuid4().version, len(str(uuid.uuid4())), uuid.uuid4() != uuid.uuid4(), uuid.UUID(int=5).hex, uuid.UUID(bytes=b"\\0" * 16).int if False else 0)
try:
    uuid.UUID("nonsense")
except ValueError as error:
    print(error)
print(html.escape("<a href='x'>&</a>"), html.unescape("&lt;b&gt; &#233; &amp;amp; &quot;"))
print(fnmatch.filter(["a.py", "b.txt", "c.py"], "*.py"), fnmatch.fnmatch("abc", "a[!x]?"))
print(ChainMap({"a": 1}, {"a": 2, "b": 3})["b"], dict(ChainMap({"a": 1}, {"a": 2}).items()), types.SimpleNamespace(a=1).a)
print(Template("$a ${b}c $$5 $d").safe_substitute(a=1, b=2), Template("$a").substitute({"a": "x"}))
print(cast(int, "x"), isinstance({}, Mapping), isinstance([], Iterable), reduce(lambda a, b: a + b, [1, 2]), partial(max, 3)(2))
""",
}
LATER: Final = {
    "managers": """
import asyncio
class Client:
    def __init__(self, name):
        self.name = name
    async def __aenter__(self):
        print("opens", self.name)
        return self
    async def __aexit__(self, kind, error, trace):
        print("closes", self.name, error)
        return isinstance(error, ValueError)
    async def get(self, n):
        return (await call_tool("get", {"n": n}))["n"]
async def main():
    async with Client("a") as a, Client("b"):
        print(await a.get(1))
    async with Client("c"):
        raise ValueError("kept in")
    try:
        async with Client("d"):
            raise KeyError("let out")
    except KeyError as error:
        print(error)
    async def early():
        async with Client("e") as e:
            return await e.get(5)
    print(await early())
asyncio.run(main())
""",
    "heirs of heirs": """
import json
from enum import Enum
from typing import TypedDict
class Text(str, Enum):
    pass
class Color(Text):
    RED = "red"
    BLUE = "blue"
class Movie(TypedDict):
    title: str
class Long(Movie):
    hours: int
print(Color.RED == "red", Color.RED.value, Color("blue").name, [one.value for one in Color])
print(json.dumps({"color": Color.RED}), "red" == Color.RED, Color.RED < Color.BLUE, sorted(Color))
print(Long(title="a", hours=3), Long(title="b", hours=4)["hours"] + 1)
""",
    "tasks": """
import asyncio
total = 0
lock = asyncio.Lock()
async def add(n):
    global total
    async with lock:
        now = total
        await asyncio.sleep(0.001)
        total = now + (await call_tool("add", {"n": n}))["n"]
    return n * 10
async def main():
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add(n)) for n in (1, 2, 3)]
    print([task.result() for task in tasks], total, lock.locked())
    limit = asyncio.Semaphore(2)
    async def limited(n):
        async with limit:
            return await add(n)
    print(await asyncio.gather(*(limited(n) for n in (4, 5))))
asyncio.run(main())
""",
    "generators": """
import asyncio
from contextlib import asynccontextmanager
async def pages():
    page = 1
    try:
        while True:
            print("asks", page)
            found = await call_tool("page", {"page": page})
            yield found["items"]
            if not found["more"]:
                return
            page += 1
    finally:
        print("ends")
async def ones(least=0):
    async for page in pages():
        for one in page:
            if one < least:
                continue
            yield one
class Countdown:
    def __init__(self, n):
        self.n = n
    def __aiter__(self):
        return self
    async def __anext__(self):
        if self.n == 0:
            raise StopAsyncIteration
        self.n -= 1
        return (await call_tool("n", {"n": self.n}))["n"]
@asynccontextmanager
async def section(name):
    print("open", name)
    try:
        yield name.upper()
    except ValueError as error:
        print("handled", error)
    finally:
        print("close", name)
async def main():
    print([one * 2 async for one in ones(2)], {one async for one in ones()})
    async for one in Countdown(2):
        print(one)
    else:
        print("all")
    print([n async for n in Countdown(3) if n])
    async with section("a") as a, section("b"):
        print(a)
    async with section("c"):
        raise ValueError("wrong")
    try:
        async with section("d"):
            raise KeyError("through")
    except KeyError as error:
        print("out", error)
asyncio.run(main())
""",
    "queue": """
import asyncio
async def produce(queue):
    for n in range(4):
        await queue.put((await call_tool("make", {"n": n}))["n"])
    await queue.put(None)
async def consume(queue, found):
    while (one := await queue.get()) is not None:
        found.append(one)
        queue.task_done()
async def main():
    queue, found = asyncio.Queue(maxsize=2), []
    await asyncio.gather(produce(queue), consume(queue, found))
    print(found, queue.empty(), queue.qsize())
asyncio.run(main())
""",
}
ALL: Final = {**GENERATORS, **CLASSES, **METHODS, **{f"later {name}": code for name, code in LATER.items()}}


@pytest.mark.parametrize("name", ALL)
async def test_a_program_prints_what_python_prints(sandbox: Sandbox, name: str) -> None:
    wanted = await asyncio.to_thread(by_python, ALL[name])
    assert (await sandbox.run(ALL[name], answer, LIMITS, "agent")).text == wanted


# Each class has the fields of two others, and each pattern stands for those of all heirs.
_FIELDS = "".join(f"    f{n}:int=0\n" for n in range(900))
_WIDE = "import dataclasses\n" + "".join(f"@dataclasses.dataclass\nclass D{n}(D{n - 1}): pass\n" for n in range(1, 9))
_WIDE = _WIDE.replace("class D1(D0): pass\n", f"class D1(object):\n{_FIELDS}")
_DEEP = "class A0:\n    pass\n" + "".join(f"class A{n}(A0): pass\n" for n in range(1, 40))
_DEEP += "match call_tool('a'):\n    case " + "A0(n=" * 12 + "1" + ")" * 12 + ": pass\n"


@pytest.mark.parametrize(
    ("code", "line", "said"),
    [
        ("x = 1\nclass Deck(set):\n    pass", 2, "a class `Deck` that inherits from `set`: keep a set in an attribute"),
        ("class A(json.JSONDecoder):\n    pass", 1, "inherits from `JSONDecoder`"),
        ("class A(make()):\n    pass", 1, "inherits from `make`"),
        ("class A(metaclass=Meta):\n    pass", 1, "a class with `metaclass`"),
        ("class A:\n    def __setattr__(self, name, value):\n        pass", 2, "`__setattr__` of a class: write a method"),
        ("C = 1\nclass B(Exception):\n    class C: pass", 3, "a class within a class"),
        ("class A(Exception):\n    if call_tool:\n        a = 1", 2, "such a statement in a class: write it beside the class"),
        ("class A:\n  @property\n  def a(self): pass\n  @a.deleter\n  def a(self): pass", 5, "a deleter of a property"),
        ("class A:\n    @staticmethod\n    def f(x):\n        super().f()", 4, "`super()` in a static method: name"),
        ("def f():\n    with (yield 1):\n        pass", 2, "`yield` at such a place"),
        ("def f():\n    print(x and (yield 1))", 2, "`yield` within an expression: write `value = yield x`"),
        ("def f():\n    print(1 if x else (yield 1))", 2, "`yield` within an expression: write `value = yield x`"),
        ("def f():\n    print(1 < x < (yield 1))", 2, "`yield` within an expression: write `value = yield x`"),
        ("raise ExceptionGroup('a', [ValueError()])", 1, "`ExceptionGroup` other than after `except`: raise and catch"),
        ("def f():\n    while (yield 1):\n        pass\n    else:\n        pass", 2, "`yield` at such a place"),
        ("f = lambda: (yield 1)", 1, "`yield` in a lambda: write a function"),
        # Work that would grow faster than the program.
        ("def f():\n" + "    yield 1\n" * 1_200, 1, "so many `yield`, or values nested so deeply: write fewer"),
        ("\n".join(f"class C{n}(C{n - 1}): pass" for n in range(101)), 1, "more than 100 classes: write fewer"),
        ("\n".join(f"def g{n}(): yield {n}" for n in range(500)), 1, "so many classes and generators: write fewer"),
        (_WIDE, 915, "so many inherited fields and patterns: write fewer"),
        (_DEEP, 43, "so many inherited fields and patterns: write fewer"),
    ],
)  # fmt: skip
async def test_a_form_that_cannot_be_is_refused_before_any_call(
    sandbox: Sandbox, code: str, line: int, said: str
) -> None:
    ended = await sandbox.run(f"{code}\ncall_tool('one')", answer, LIMITS, "agent")
    assert ended.calls == 0
    assert ended.failure is not None
    assert ended.failure.startswith(f"line {line}\n")
    assert said in ended.failure
    assert "No call was made." in ended.failure


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        # The line is the author's, also of a program that was rewritten.
        (
            "class A(Exception):\n    pass\n\n\n# a comment\nx = 1\nraise A('here')",
            ("line 7", "raise A('here')", "A: here"),
        ),
        ("def f():\n    yield 1\n\n\n    1 / 0\n\nlist(f())", ("line 7", "list(f())", "line 5", "1 / 0", "ZeroDiv")),
        ("class K(KeyError):\n    pass\nraise K('k')", ("K: k",)),
        # A line is what Python counts as one.
        ("class A(Exception): pass\nx = 'a\u2028b\x0cc'\nraise A('here')", ("line 3", "raise A('here')")),
        ("x = 'a\u2028b'\nclass A(set): pass", ("line 2\n    class A(set): pass",)),
        ("def f(:\n    yield 1", ("SyntaxError",)),
    ],
)
async def test_an_error_has_the_authors_line(sandbox: Sandbox, code: str, wanted: tuple[str, ...]) -> None:
    text = (await sandbox.run(code, answer, LIMITS, "agent")).text
    for part in wanted:
        assert part in text, text
    assert "_x_" not in text
    assert "\u2063" not in text


@pytest.mark.parametrize(
    "code",
    [
        # Names of a prelude, and of Python, that a program has for something else.
        "_json = 5\n_called = 6\ndef _named(x): return x\nprint(call_tool('a')['name'], _json, _called, _named(7))",
        "import io, statistics\nclass _StringIO: pass\n_math = 3\nprint(io.StringIO('a').read(), statistics.mean([1, 3]), _math)",
        "list = call_tool('a', {'n': 1})\nlen = 3\nprint(list['n'], len, call_tool('b')['name'])",
        "type = 'bug'\nid = 5\nclass A(Exception): pass\ntry:\n    raise A('x')\nexcept A as e:\n    print(type, id, e)",
        "max, min = 1, 2\ndef sum(x): return 'mine'\ndef f():\n    yield 1\nprint(max, min, sum(f()), [x for x in f()])",
        "for type in ['a']:\n    print(call_tool(type)['name'])\ninput = 3\nprint(input)",
        "größe = 5\nclass Käse(Exception):\n    pass\ndef zähle(n):\n    yield größe + n\ntry:\n    raise Käse('ü')\n"
        "except Käse as ß:\n    print(ß, list(zähle(1)))",
        "def _x(): yield 1\n_y = [*_x()]\nprint(_y)",
    ],
)
async def test_a_program_may_have_any_name(sandbox: Sandbox, code: str) -> None:
    assert (await sandbox.run(code, answer, LIMITS, "agent")).text == by_python(code)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f():\n    while True:\n        yield 1\nlist(f())", "TimeoutError"),
        ("def f():\n    while True:\n        pass\n    yield 1\nnext(f())", "TimeoutError"),
        ("def f(n):\n    yield from f(n + 1)\nlist(f(0))", "RecursionError"),
        ("class A(Exception):\n    def __str__(self):\n        return str(self)\nraise A()", "RecursionError"),
        ("def f():\n    while True:\n        yield call_tool('a')\nlist(f())", "a program may make 60 calls"),
        ("class A:\n    def __init__(self): pass\nclass B(A):\n    def f(self): return super().__globals__\nB().f()",
         "has no attribute '__globals__'"),
        ("class A(B): pass\nclass B(A): pass", "NameError"),
        ("class A(Exception): pass\nprint(A.__subclasses__())", "AttributeError"),
    ],
)  # fmt: skip
async def test_bounds_hold_for_what_was_rewritten(sandbox: Sandbox, code: str, said: str) -> None:
    ended = await sandbox.run(code, answer, SHORT, "agent")
    assert ended.failure is not None
    assert said in ended.failure


@pytest.mark.parametrize(
    "code",
    [
        f"def f(): yield 1\nx = {'-' * 15_000}1",
        f"def f(): yield 1\nx = {'(' * 15_000}1",
        f"def f(): yield 1\nx = {'1+' * 7_500}1",
        f"def f(): yield 1\nx = a{'.b' * 7_500}",
        f"def f(): yield 1\nx = {'not ' * 3_700}1",
        f"def f(): yield 1\nx = {'lambda: ' * 1_800}1",
        "def f(): yield 1\n" + "".join(f"{' ' * depth}if 1:\n" for depth in range(300)),
        "def f(): yield 1\nx = '\0'",
        # A text without a place where a name could end.
        "a" * 250_000,
    ],
)
async def test_a_program_that_is_hard_to_read_ends_in_an_error(sandbox: Sandbox, code: str) -> None:
    assert (await sandbox.run(code, answer, SHORT, "agent")).failure is not None
