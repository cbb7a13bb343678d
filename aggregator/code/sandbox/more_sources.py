"""Modules of the standard library for programs (`module_sources`): `abc`, `contextlib`, `functools`, `re`, `typing`,
`uuid` and a few small ones.
"""

from typing import Final

ABC: Final = """
class _Abc:
    ABC = None
    ABCMeta = None

    def abstractmethod(self, function):
        return function

_added_abc = _Abc()
"""

# A context manager by a generator needs the functions of `generators_source`, which `yield` brings.
CONTEXTLIB: Final = """
class _Suppress:
    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        return None

    def __exit__(self, kind, error, trace):
        return error is not None and isinstance(error, self.kinds)

class _Given:
    def __init__(self, value=None):
        self.value = value

    def __enter__(self):
        return self.value

    def __exit__(self, *failure):
        return None

class _Stack:
    def __init__(self):
        self.ends = []

    def __enter__(self):
        return self

    def enter_context(self, manager):
        value = manager.__enter__()
        self.ends.append(manager.__exit__)
        return value

    def callback(self, function, *given, **more):
        self.ends.append(lambda *failure: function(*given, **more) and None)
        return function

    def close(self):
        self.__exit__(None, None, None)

    def __exit__(self, *failure):
        done = False
        while self.ends:
            if self.ends.pop()(*failure):
                done, failure = True, (None, None, None)
        return done

class _Closing:
    def __init__(self, one):
        self._one = one

    def __enter__(self):
        return self._one

    def __exit__(self, *failure):
        self._one.close()

class _ContextLib:
    closing = _Closing
    suppress = _Suppress
    nullcontext = _Given
    ExitStack = _Stack

    # The class is there if a program has this name (`rewriting`).
    def redirect_stdout(self, stream):
        return _x_Redirected(stream)

    def asynccontextmanager(self, function):
        return lambda *given, **more: _x_AsyncManager(function(*given, **more))

    def contextmanager(self, function):
        return lambda *given, **more: _x_Manager(function(*given, **more))

_added_contextlib = _ContextLib()
"""

FUNCTOOLS: Final = """
import functools as _functools

class _Functools:
    def __init__(self):
        self.reduce, self.partial = _functools.reduce, _functools.partial
        self.lru_cache, self.cache = _functools.lru_cache, _functools.cache

    def wraps(self, function, **more):
        def named(wrapper):
            _x_wrapped.append((wrapper, function))
            return wrapper
        return named

    def total_ordering(self, cls):
        return cls

    def cached_property(self, function):
        return function

    def cmp_to_key(self, compare):
        return lambda value: _x_Compared(compare, value)

_added_functools = _Functools()
"""

# A match is replaced by the result of a function, which the interpreter cannot call.
RE: Final = """
import re as _re

def _re_sub(pattern, made, text, count=0):
    parts, past, done = [], 0, 0
    for found in pattern.finditer(text):
        if count and done == count:
            break
        parts.append(text[past:found.start()])
        parts.append(str(made(found)))
        past = found.end()
        done += 1
    return "".join(parts) + text[past:], done

# The flag that the interpreter knows only inside a pattern.
_re_VERBOSE = 64

def _re_plain(pattern, flags):
    if not flags:
        return pattern, flags
    if isinstance(pattern, str) and flags & _re_VERBOSE:
        pattern = "(?x)" + pattern
    return pattern, flags & ~_re_VERBOSE

class _Re:
    def __init__(self):
        self.escape = _re.escape
        self.I = self.IGNORECASE = _re.IGNORECASE
        self.M = self.MULTILINE = _re.MULTILINE
        self.S = self.DOTALL = _re.DOTALL
        self.A = self.ASCII = _re.ASCII
        self.X = self.VERBOSE = _re_VERBOSE
        self.U = self.UNICODE = self.NOFLAG = 0
        self.error, self.PatternError, self.Pattern, self.Match = _re.error, _re.error, _re.Pattern, _re.Match

    def compile(self, pattern, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.compile(pattern, flags)

    def search(self, pattern, text, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.search(pattern, text, flags)

    def match(self, pattern, text, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.match(pattern, text, flags)

    def fullmatch(self, pattern, text, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.fullmatch(pattern, text, flags)

    def findall(self, pattern, text, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.findall(pattern, text, flags)

    def finditer(self, pattern, text, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.finditer(pattern, text, flags)

    def split(self, pattern, text, maxsplit=0, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        return _re.split(pattern, text, maxsplit=maxsplit, flags=flags)

    def sub(self, pattern, made, text, count=0, flags=0):
        pattern, flags = _re_plain(pattern, flags)
        if isinstance(made, str):
            return _re.sub(pattern, made, text, count=count, flags=flags)
        return _re_sub(_re.compile(pattern, flags) if isinstance(pattern, str) else pattern, made, text, count)[0]

    def subn(self, pattern, made, text, count=0, flags=0):
        pattern = self.compile(pattern, flags) if isinstance(pattern, str) else pattern
        if not isinstance(made, str):
            return _re_sub(pattern, made, text, count)
        found = len(pattern.findall(text))
        return pattern.sub(made, text, count=count), min(found, count) if count else found

_added_re = _Re()
"""

TYPING: Final = """
from collections import namedtuple as _namedtuple

class _Typing:
    TypedDict = None
    TYPE_CHECKING = False

    def cast(self, kind, value):
        return value

    def NewType(self, name, kind):
        return lambda value: value

    def TypeVar(self, name, *kinds, **more):
        return _Generic()

    def ParamSpec(self, name, **more):
        return _Generic()

    def overload(self, function):
        return function

    def final(self, function):
        return function

    def override(self, function):
        return function

    def runtime_checkable(self, cls):
        return cls

    def no_type_check(self, function):
        return function

    def NamedTuple(self, name, fields):
        return _namedtuple(name, [field for field, kind in fields])

    def assert_never(self, value):
        raise AssertionError(f"Expected code to be unreachable, but got: {value!r}")

# One class replaces every class of `typing`, also in an alias: `Handler = Callable[[dict], str] | None`.
class _Generic:
    def __getitem__(self, kinds):
        return self

    def __or__(self, other):
        return self

    def __ror__(self, other):
        return self

for _typing_name in ("Any", "Optional", "Union", "List", "Dict", "Set", "FrozenSet", "Tuple", "Callable", "Iterable",
                     "Iterator", "Generator", "Protocol", "Generic", "Literal", "Final", "ClassVar", "Annotated",
                     "Sequence", "Mapping", "Self", "Type", "NoReturn", "Awaitable", "Coroutine", "AsyncIterator",
                     "AsyncIterable", "AsyncGenerator", "Hashable", "Sized", "Collection", "Reversible", "Deque",
                     "Counter", "OrderedDict", "Required", "NotRequired", "Unpack", "Concatenate", "TypeVarTuple",
                     "MutableMapping", "MutableSequence", "MutableSet", "DefaultDict", "Container", "AbstractSet",
                     "Pattern", "Match", "IO", "ContextManager", "AsyncContextManager", "Never", "LiteralString",
                     "TypeAlias", "TypeGuard", "Text", "AnyStr"):
    setattr(_Typing, _typing_name, _Generic())
_added_typing = _Typing()
"""

UUID: Final = """
import hashlib as _hashlib
import random as _random
import time as _time

class _UUID:
    def __init__(self, hex=None, bytes=None, int=None, version=None):
        if hex is not None:
            digits = hex.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "").lower()
        elif bytes is not None:
            if len(bytes) != 16:
                raise ValueError("bytes is not a 16-char string")
            digits = bytes.hex()
        elif int is not None:
            if not 0 <= int < 2 ** 128:
                raise ValueError("int is out of range (need a 128-bit value)")
            digits = "%032x" % int
        else:
            raise TypeError("one of the hex, bytes, bytes_le, fields, or int arguments must be given")
        if len(digits) != 32 or any([sign not in "0123456789abcdef" for sign in digits]):
            raise ValueError("badly formed hexadecimal UUID string")
        if version is not None:
            variant = "89ab"["0123456789abcdef".index(digits[16]) % 4]
            digits = digits[:12] + "%x" % version + digits[13:16] + variant + digits[17:]
        self.hex = digits
        self.urn = "urn:uuid:" + str(self)
        self.version = _uuid_number(digits[12], 16) if digits[16] in "89ab" else None

    def __str__(self):
        return "-".join([self.hex[:8], self.hex[8:12], self.hex[12:16], self.hex[16:20], self.hex[20:]])

    def __repr__(self):
        return f"UUID('{self}')"

    def __eq__(self, other):
        return type(other) is _UUID and self.hex == other.hex

    def __hash__(self):
        return hash(self.hex)

    def __int__(self):
        return _uuid_number(self.hex, 16)

_uuid_number, _uuid_bytes = int, bytes

class _Uuid:
    UUID = _UUID

    def __init__(self):
        start = "6ba7b81{}-9dad-11d1-80b4-00c04fd430c8"
        self.NAMESPACE_DNS, self.NAMESPACE_URL = _UUID(start.format(0)), _UUID(start.format(1))
        self.NAMESPACE_OID, self.NAMESPACE_X500 = _UUID(start.format(2)), _UUID(start.format(4))

    def uuid4(self):
        return _UUID(int=_random.getrandbits(128), version=4)

    def uuid1(self, node=None, clock_seq=None):
        now = int(_time.time() * 10_000_000) + 0x01B21DD213814000
        start = "%08x%04x%04x" % (now & 0xFFFFFFFF, (now >> 32) & 0xFFFF, (now >> 48) & 0x0FFF)
        return _UUID(hex=start + "%016x" % _random.getrandbits(64), version=1)

    def uuid3(self, namespace, name):
        return _UUID(hex=_hashlib.md5(_uuid_bytes.fromhex(namespace.hex) + name.encode()).hexdigest(), version=3)

    def uuid5(self, namespace, name):
        return _UUID(hex=_hashlib.sha1(_uuid_bytes.fromhex(namespace.hex) + name.encode()).hexdigest()[:32], version=5)

_added_uuid = _Uuid()
"""

SECRETS: Final = """
import base64 as _base64
import random as _random

class _Secrets:
    def _bytes(self, count):
        return bytes.fromhex("%0*x" % (2 * count, _random.getrandbits(8 * count))) if count else b""

    def token_hex(self, nbytes=32):
        return self._bytes(nbytes).hex()

    def token_bytes(self, nbytes=32):
        return self._bytes(nbytes)

    def token_urlsafe(self, nbytes=32):
        return _base64.urlsafe_b64encode(self._bytes(nbytes)).decode().rstrip("=")

    def choice(self, values):
        return _random.choice(values)

    def randbelow(self, most):
        return _random.randint(0, most - 1)

_added_secrets = _Secrets()
"""

FNMATCH: Final = """
import re as _fnmatch_re

class _Fnmatch:
    def translate(self, pattern):
        made, at = "", 0
        while at < len(pattern):
            sign = pattern[at]
            end = pattern.find("]", at + 2) if sign == "[" else -1
            if sign == "*":
                made += ".*"
            elif sign == "?":
                made += "."
            elif end > 0:
                inside = pattern[at + 1:end]
                made += "[" + ("^" + inside[1:] if inside[0] == "!" else inside) + "]"
                at = end
            else:
                made += _fnmatch_re.escape(sign)
            at += 1
        return made

    def fnmatch(self, name, pattern):
        return _fnmatch_re.compile(self.translate(pattern), _fnmatch_re.DOTALL).fullmatch(name) is not None

    def fnmatchcase(self, name, pattern):
        return self.fnmatch(name, pattern)

    def filter(self, names, pattern):
        return [name for name in names if self.fnmatch(name, pattern)]

_added_fnmatch = _Fnmatch()
"""

CALENDAR: Final = """
import datetime as _calendar_dates

class _Calendar:
    MONDAY = 0
    SUNDAY = 6

    def __init__(self):
        self.month_name = ["", "January", "February", "March", "April", "May", "June", "July", "August", "September",
                           "October", "November", "December"]
        self.day_name = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
        self.month_abbr = [name[:3] for name in self.month_name]
        self.day_abbr = [name[:3] for name in self.day_name]

    def isleap(self, year):
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)

    def leapdays(self, first, last):
        return sum([self.isleap(year) for year in range(first, last)])

    def weekday(self, year, month, day):
        return _calendar_dates.date(year, month, day).weekday()

    def monthrange(self, year, month):
        if not 1 <= month <= 12:
            raise ValueError(f"bad month number {month}; must be 1-12")
        days = 28 + self.isleap(year) if month == 2 else 30 if month in (4, 6, 9, 11) else 31
        return self.weekday(year, month, 1), days

    def monthcalendar(self, year, month):
        first, days = self.monthrange(year, month)
        cells = [0] * first + list(range(1, days + 1))
        cells += [0] * (-len(cells) % 7)
        return [cells[at:at + 7] for at in range(0, len(cells), 7)]

    def timegm(self, parts):
        since = _calendar_dates.date(parts[0], parts[1], 1) - _calendar_dates.date(1970, 1, 1)
        return ((since.days + parts[2] - 1) * 24 + parts[3]) * 3600 + parts[4] * 60 + parts[5]

_added_calendar = _Calendar()
"""

TRACEBACK: Final = """
class _Traceback:
    def format_exc(self, **more):
        return "(a traceback is shown if the program does not catch the error: print the error itself)"

    def print_exc(self, **more):
        print(self.format_exc())

    def format_exception(self, error, *more, **options):
        error = more[0] if more and more[0] is not None else error
        return [f"{type(error).__name__}: {error}\\n"]

    def format_exception_only(self, error, *more):
        error = more[0] if more and more[0] is not None else error
        return [f"{type(error).__name__}: {error}\\n"]

_added_traceback = _Traceback()
"""

TYPES: Final = """
# The names that a program gives to attributes (`forms`).
_x_attribute_names = ()

class _Namespace:
    def __init__(self, **values):
        self._said = list(values)
        for name, value in values.items():
            setattr(self, name, value)

    def __repr__(self):
        return "namespace(" + ", ".join([f"{name}={value!r}" for name, value in self._values().items()]) + ")"

    def __eq__(self, other):
        return type(other) is _Namespace and self._values() == other._values()

    def _values(self):
        names = [*self._said, *_x_attribute_names]
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

class _Types:
    SimpleNamespace = _Namespace

    def MappingProxyType(self, values):
        return values

_added_types = _Types()
"""
