"""The modules for programs that the interpreter lacks or has in part, written in the interpreter's own Python.

Law: a source defines the object `_added_NAME`, which stands for the module NAME, and else only names with `_`.
"""

from typing import Final

from aggregator.code.sandbox.asyncio_source import ASYNCIO
from aggregator.code.sandbox.bytes_sources import HMAC, ZLIB
from aggregator.code.sandbox.classes_source import ENUM
from aggregator.code.sandbox.dataclasses_source import DATACLASSES
from aggregator.code.sandbox.difflib_source import DIFFLIB
from aggregator.code.sandbox.fractions_source import FRACTIONS
from aggregator.code.sandbox.html_source import HTML
from aggregator.code.sandbox.more_sources import (
    ABC,
    CALENDAR,
    CONTEXTLIB,
    FNMATCH,
    FUNCTOOLS,
    RE,
    SECRETS,
    TRACEBACK,
    TYPES,
    TYPING,
    UUID,
)
from aggregator.code.sandbox.network_sources import IPADDRESS
from aggregator.code.sandbox.pprint_source import PPRINT
from aggregator.code.sandbox.small_sources import COLLECTIONS, HEAPQ, LOGGING, STRING, TEXTWRAP, URLLIB
from aggregator.code.sandbox.statistics_source import STATISTICS
from aggregator.code.sandbox.text_sources import CONFIGPARSER, SHLEX
from aggregator.code.sandbox.xml_source import XML
from aggregator.code.sandbox.zones_source import ZONEINFO

_IO: Final = """
class _StringIO:
    def __init__(self, initial_value="", newline="\\n"):
        self._text = str(initial_value)
        # Texts that were written behind it.
        self._more = []
        self._at = 0
        self._length = len(self._text)
        self.closed = False

    def _to(self, end):
        start = self._at
        self._at = max(start, end)
        return self.getvalue()[start:self._at]

    def read(self, size=-1):
        return self._to(self._length if size is None or size < 0 else min(self._length, self._at + size))

    def readline(self, size=-1):
        end = self.getvalue().find("\\n", self._at) + 1
        end = end if end > 0 else self._length
        return self._to(end if size is None or size < 0 else min(end, self._at + size))

    def readlines(self, hint=-1):
        return self.read().splitlines(True)

    def write(self, text):
        text = str(text)
        start, self._at = self._at, self._at + len(text)
        if start == self._length:
            self._more.append(text)
        else:
            whole = self.getvalue()
            self._text = whole[:start] + "\\0" * (start - len(whole)) + text + whole[self._at:]
        self._length = max(self._length, self._at)
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def getvalue(self):
        if self._more:
            self._text = "".join([self._text, *self._more])
            self._more = []
        return self._text

    def seek(self, offset, whence=0):
        self._at = max(0, offset if whence == 0 else (self._at if whence == 1 else self._length) + offset)
        return self._at

    def tell(self):
        return self._at

    def truncate(self, size=None):
        size = self._at if size is None else size
        self._text = self.getvalue()[:size]
        self._length = len(self._text)
        return size

    def flush(self):
        pass

    def close(self):
        self.closed = True

    def __iter__(self):
        return iter(self.readlines())

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

class _Io:
    pass

_added_io = _Io()
_added_io.StringIO = _StringIO
"""

# Takes a value that is read already, as the result of a tool is.
_JSON: Final = """
import json as _json

def _json_plain(value, default):
    if isinstance(value, dict):
        return {key: _json_plain(one, default) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_plain(one, default) for one in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return _json_plain(default(value), default)

def _json_hooked(value, hook):
    if isinstance(value, list):
        return [_json_hooked(one, hook) for one in value]
    return hook({key: _json_hooked(one, hook) for key, one in value.items()}) if isinstance(value, dict) else value

class _Json:
    JSONDecodeError = _json.JSONDecodeError
    # A class inherits from it while the program is read (`classes`).
    JSONEncoder = None

    def loads(self, text, object_hook=None, object_pairs_hook=None, **more):
        value = text if isinstance(text, (dict, list)) else _json.loads(text, **more)
        if object_pairs_hook not in (None, dict):
            raise NotImplementedError("loads here takes object_hook, not object_pairs_hook")
        return value if object_hook is None else _json_hooked(value, object_hook)

    def load(self, file, **more):
        return self.loads(file.read(), **more)

    def dumps(self, value, default=None, **more):
        return _json.dumps(value if default is None else _json_plain(value, default), **more)

    def dump(self, value, file, **more):
        file.write(self.dumps(value, **more))

_added_json = _Json()
_added_json.decoder = _added_json
"""

# The methods of built-in types are no values in the interpreter.
_OPERATOR: Final = """
_METHODS = {
    "upper": lambda value, *given: value.upper(*given),
    "lower": lambda value, *given: value.lower(*given),
    "strip": lambda value, *given: value.strip(*given),
    "lstrip": lambda value, *given: value.lstrip(*given),
    "rstrip": lambda value, *given: value.rstrip(*given),
    "split": lambda value, *given: value.split(*given),
    "rsplit": lambda value, *given: value.rsplit(*given),
    "splitlines": lambda value, *given: value.splitlines(*given),
    "title": lambda value, *given: value.title(*given),
    "capitalize": lambda value, *given: value.capitalize(*given),
    "casefold": lambda value, *given: value.casefold(*given),
    "replace": lambda value, *given: value.replace(*given),
    "startswith": lambda value, *given: value.startswith(*given),
    "endswith": lambda value, *given: value.endswith(*given),
    "join": lambda value, *given: value.join(*given),
    "partition": lambda value, *given: value.partition(*given),
    "find": lambda value, *given: value.find(*given),
    "rfind": lambda value, *given: value.rfind(*given),
    "count": lambda value, *given: value.count(*given),
    "index": lambda value, *given: value.index(*given),
    "zfill": lambda value, *given: value.zfill(*given),
    "isdigit": lambda value, *given: value.isdigit(*given),
    "isalpha": lambda value, *given: value.isalpha(*given),
    "isalnum": lambda value, *given: value.isalnum(*given),
    "removeprefix": lambda value, *given: value.removeprefix(*given),
    "removesuffix": lambda value, *given: value.removesuffix(*given),
    "encode": lambda value, *given: value.encode(*given),
    "decode": lambda value, *given: value.decode(*given),
    "get": lambda value, *given: value.get(*given),
    "keys": lambda value, *given: value.keys(*given),
    "values": lambda value, *given: value.values(*given),
    "items": lambda value, *given: value.items(*given),
    "pop": lambda value, *given: value.pop(*given),
    "append": lambda value, *given: value.append(*given),
    "copy": lambda value, *given: value.copy(*given),
    "isoformat": lambda value, *given: value.isoformat(*given),
    "strftime": lambda value, *given: value.strftime(*given),
    "total_seconds": lambda value, *given: value.total_seconds(*given),
    "date": lambda value, *given: value.date(*given),
}

class _Operator:
    def itemgetter(self, *keys):
        if len(keys) == 1:
            return lambda value: value[keys[0]]
        return lambda value: tuple([value[key] for key in keys])

    def attrgetter(self, *names):
        def found(value, name):
            for part in name.split("."):
                value = getattr(value, part)
            return value
        if len(names) == 1:
            return lambda value: found(value, names[0])
        return lambda value: tuple([found(value, name) for name in names])

    def methodcaller(self, name, *given, **more):
        if name in _METHODS and not more:
            return lambda value: _METHODS[name](value, *given)
        return lambda value: getattr(value, name)(*given, **more)

    def add(self, a, b):
        return a + b

    def concat(self, a, b):
        return a + b

    def sub(self, a, b):
        return a - b

    def mul(self, a, b):
        return a * b

    def truediv(self, a, b):
        return a / b

    def floordiv(self, a, b):
        return a // b

    def mod(self, a, b):
        return a % b

    def pow(self, a, b):
        return a ** b

    def neg(self, a):
        return -a

    def eq(self, a, b):
        return a == b

    def ne(self, a, b):
        return a != b

    def lt(self, a, b):
        return a < b

    def le(self, a, b):
        return a <= b

    def gt(self, a, b):
        return a > b

    def ge(self, a, b):
        return a >= b

    def and_(self, a, b):
        return a & b

    def or_(self, a, b):
        return a | b

    def xor(self, a, b):
        return a ^ b

    def not_(self, a):
        return not a

    def truth(self, a):
        return bool(a)

    def contains(self, a, b):
        return b in a

    def getitem(self, a, b):
        return a[b]

_added_operator = _Operator()
"""

# The interpreter has no threads: `submit` runs the function before it returns.
_CONCURRENT: Final = """
class _Future:
    def __init__(self, value, error):
        self._value = value
        self._error = error

    def result(self, timeout=None):
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self, timeout=None):
        return self._error

    def done(self):
        return True

class _Executor:
    def __init__(self, max_workers=None, **more):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        pass

    def submit(self, function, *given, **more):
        try:
            return _Future(function(*given, **more), None)
        except Exception as error:
            return _Future(None, error)

    def map(self, function, *lists, timeout=None, chunksize=1):
        return [function(*given) for given in zip(*lists)]

    def shutdown(self, wait=True, **more):
        pass

class _Futures:
    ThreadPoolExecutor = _Executor
    ProcessPoolExecutor = _Executor
    Future = _Future

    def as_completed(self, futures, timeout=None):
        return list(futures)

class _Concurrent:
    pass

_added_concurrent = _Concurrent()
_added_concurrent.futures = _Futures()
"""

# `eval` reads the text only if it has nothing but literals, so that no name in it means anything.
_AST: Final = r"""
import re as _ast_re

_ast_literals = _ast_re.compile(
    r"(?:\s|[\[\](){},:+-]|(?:None|True|False)(?!\w)|[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?j?(?!\w)"
    r"|[bBrRuU]?(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))*")

class _Ast:
    def literal_eval(self, text):
        if _ast_literals.fullmatch(text) is None or _ast_re.search(r"[\])'\"]\s*\(", text):
            raise ValueError("malformed node or string")
        return eval(text.strip())

_added_ast = _Ast()
"""

_DATETIME: Final = """
import datetime as _datetime

class _Datetime:
    MINYEAR = 1
    MAXYEAR = 9999

    def __init__(self):
        self.date, self.datetime, self.time = _datetime.date, _datetime.datetime, _datetime.time
        self.timedelta, self.timezone, self.tzinfo = _datetime.timedelta, _datetime.timezone, _datetime.timezone
        self.UTC = _datetime.timezone.utc

_added_datetime = _Datetime()
"""

# The interpreter has one class for all paths.
_PATHLIB: Final = """
import pathlib as _pathlib

class _Pathlib:
    pass

_added_pathlib = _Pathlib()
_added_pathlib.Path = _added_pathlib.PosixPath = _pathlib.Path
_added_pathlib.PurePath = _added_pathlib.PurePosixPath = _pathlib.Path
"""

# By the first part of the name; then the names that can be imported.
SOURCES: Final = {
    "abc": ABC,
    "ast": _AST,
    "asyncio": ASYNCIO,
    "calendar": CALENDAR,
    "collections": COLLECTIONS,
    "concurrent": _CONCURRENT,
    "configparser": CONFIGPARSER,
    "contextlib": CONTEXTLIB,
    "dataclasses": DATACLASSES,
    "datetime": _DATETIME,
    "difflib": DIFFLIB,
    "enum": ENUM,
    "fnmatch": FNMATCH,
    "fractions": FRACTIONS,
    "functools": FUNCTOOLS,
    "heapq": HEAPQ,
    "hmac": HMAC,
    "html": HTML,
    "io": _IO,
    "ipaddress": IPADDRESS,
    "json": _JSON,
    "logging": LOGGING,
    "operator": _OPERATOR,
    "pathlib": _PATHLIB,
    "pprint": PPRINT,
    "pytz": ZONEINFO,
    "re": RE,
    "secrets": SECRETS,
    "shlex": SHLEX,
    "statistics": STATISTICS,
    "string": STRING,
    "textwrap": TEXTWRAP,
    "traceback": TRACEBACK,
    "types": TYPES,
    "typing": TYPING,
    "urllib": URLLIB,
    "uuid": UUID,
    "xml": XML,
    "zlib": ZLIB,
    "zoneinfo": ZONEINFO,
}
MODULES_ADDED: Final = (
    *(*SOURCES, "collections.abc", "concurrent.futures", "html.parser", "urllib.parse"),
    *("xml.etree", "xml.etree.ElementTree", "xml.dom", "xml.dom.minidom"),
)
