"""The modules for programs that the interpreter lacks or has in part, written in the interpreter's own Python.

Law: a source defines the object `_added_NAME`, which stands for the module NAME, and else only names with `_`.
"""

from typing import Final

_IO: Final = """
class _StringIO:
    def __init__(self, initial_value="", newline="\\n"):
        self._text = str(initial_value)
        self._at = 0
        self.closed = False

    def _to(self, end):
        start = self._at
        self._at = max(start, end)
        return self._text[start:self._at]

    def read(self, size=-1):
        every = len(self._text)
        return self._to(every if size is None or size < 0 else min(every, self._at + size))

    def readline(self, size=-1):
        end = self._text.find("\\n", self._at) + 1
        end = end if end > 0 else len(self._text)
        return self._to(end if size is None or size < 0 else min(end, self._at + size))

    def readlines(self, hint=-1):
        return self.read().splitlines(True)

    def write(self, text):
        text = str(text)
        end = self._at + len(text)
        self._text = self._text[:self._at] + text + self._text[end:]
        self._at = end
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def getvalue(self):
        return self._text

    def seek(self, offset, whence=0):
        self._at = max(0, offset if whence == 0 else (self._at if whence == 1 else len(self._text)) + offset)
        return self._at

    def tell(self):
        return self._at

    def truncate(self, size=None):
        self._text = self._text[:self._at if size is None else size]
        return len(self._text)

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

_STATISTICS: Final = """
import math as _math

class _Statistics:
    def __init__(self):
        self.StatisticsError = ValueError

    def _data(self, data, least, what):
        data = list(data)
        if len(data) < least:
            raise ValueError(f"{what} requires at least {least} data point{'s' if least > 1 else ''}")
        return data

    def _sum(self, data):
        return _math.fsum(data) if any(isinstance(one, float) for one in data) else sum(data)

    def _over(self, total, count):
        return total // count if isinstance(total, int) and total % count == 0 else total / count

    def mean(self, data):
        data = self._data(data, 1, "mean")
        return self._over(self._sum(data), len(data))

    def fmean(self, data, weights=None):
        data = self._data(data, 1, "fmean")
        if weights is None:
            return _math.fsum(data) / len(data)
        weights = list(weights)
        if len(weights) != len(data):
            raise ValueError("data and weights must be the same length")
        total = _math.fsum(weights)
        if not total:
            raise ValueError("sum of weights must be non-zero")
        return _math.fsum([one * weight for one, weight in zip(data, weights)]) / total

    def geometric_mean(self, data):
        data = self._data(data, 1, "geometric_mean")
        if any(one < 0 for one in data):
            raise ValueError("geometric mean requires non-negative numbers")
        return 0.0 if 0 in data else _math.exp(_math.fsum([_math.log(one) for one in data]) / len(data))

    def harmonic_mean(self, data):
        data = self._data(data, 1, "harmonic_mean")
        if any(one < 0 for one in data):
            raise ValueError("harmonic mean does not support negative values")
        return 0 if 0 in data else len(data) / _math.fsum([1 / one for one in data])

    def median(self, data):
        data = sorted(self._data(data, 1, "median"))
        middle = len(data) // 2
        return data[middle] if len(data) % 2 else (data[middle - 1] + data[middle]) / 2

    def median_low(self, data):
        data = sorted(self._data(data, 1, "median_low"))
        return data[(len(data) - 1) // 2]

    def median_high(self, data):
        data = sorted(self._data(data, 1, "median_high"))
        return data[len(data) // 2]

    def multimode(self, data):
        counts = {}
        for one in data:
            counts[one] = counts.get(one, 0) + 1
        most = max(counts.values()) if counts else 0
        return [one for one in counts if counts[one] == most]

    def mode(self, data):
        return self.multimode(self._data(data, 1, "mode"))[0]

    def pvariance(self, data, mu=None):
        data = self._data(data, 1, "pvariance")
        middle = self.mean(data) if mu is None else mu
        return self._over(self._sum([(one - middle) ** 2 for one in data]), len(data))

    def variance(self, data, xbar=None):
        data = self._data(data, 2, "variance")
        middle = self.mean(data) if xbar is None else xbar
        return self._over(self._sum([(one - middle) ** 2 for one in data]), len(data) - 1)

    def pstdev(self, data, mu=None):
        return _math.sqrt(self.pvariance(data, mu))

    def stdev(self, data, xbar=None):
        return _math.sqrt(self.variance(data, xbar))

    def quantiles(self, data, n=4, method="exclusive"):
        if n < 1:
            raise ValueError("n must be at least 1")
        data = sorted(self._data(data, 2, "quantiles"))
        if method not in ("exclusive", "inclusive"):
            raise ValueError(f"Unknown method: {method!r}")
        found = []
        whole = len(data) - 1 if method == "inclusive" else len(data) + 1
        for part in range(1, n):
            at = part * whole // n
            if method == "inclusive":
                left = at
            else:
                at = 1 if at < 1 else len(data) - 1 if at > len(data) - 1 else at
                left = at - 1
            rest = part * whole - at * n
            found.append((data[left] * (n - rest) + data[left + 1] * rest) / n)
        return found

    def covariance(self, x, y):
        x, y = self._pairs(x, y, "covariance")
        mean_x, mean_y = self.fmean(x), self.fmean(y)
        return _math.fsum([(a - mean_x) * (b - mean_y) for a, b in zip(x, y)]) / (len(x) - 1)

    def correlation(self, x, y):
        x, y = self._pairs(x, y, "correlation")
        spread = self.covariance(x, x) * self.covariance(y, y)
        if not spread:
            raise ValueError("at least one of the inputs is constant")
        return self.covariance(x, y) / _math.sqrt(spread)

    def _pairs(self, x, y, what):
        x, y = list(x), list(y)
        if len(x) != len(y):
            raise ValueError(f"{what} requires that both inputs have same number of data points")
        return self._data(x, 2, what), y

_added_statistics = _Statistics()
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

class _Json:
    JSONDecodeError = _json.JSONDecodeError

    def loads(self, text, **more):
        return text if isinstance(text, (dict, list)) else _json.loads(text, **more)

    def load(self, file, **more):
        return self.loads(file.read(), **more)

    def dumps(self, value, default=None, **more):
        return _json.dumps(value if default is None else _json_plain(value, default), **more)

    def dump(self, value, file, **more):
        file.write(self.dumps(value, **more))

_added_json = _Json()
"""

# Calls run at the same time within `gather`; what `create_task` is given runs when it is awaited.
_ASYNCIO: Final = """
import asyncio as _asyncio

async def _settled(one):
    return await one if type(one).__name__ == "coroutine" else one

async def _caught(one):
    try:
        return await _settled(one)
    except Exception as error:
        return error

class _Semaphore:
    def __init__(self, value=1):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        pass

class _Asyncio:
    TimeoutError = TimeoutError
    Semaphore = _Semaphore
    BoundedSemaphore = _Semaphore

    def run(self, main, **more):
        return _asyncio.run(_settled(main))

    async def gather(self, *ones, return_exceptions=False):
        settled = _caught if return_exceptions else _settled
        return await _asyncio.gather(*[settled(one) for one in ones])

    async def sleep(self, delay, result=None):
        await _asyncio.sleep(delay)
        return result

    def create_task(self, one, **more):
        return one

    def ensure_future(self, one, **more):
        return one

    def as_completed(self, ones, **more):
        return list(ones)

    async def wait_for(self, one, timeout=None):
        return await _settled(one)

    async def to_thread(self, function, *given, **more):
        return await _settled(function(*given, **more))

_added_asyncio = _Asyncio()
"""

_OPERATOR: Final = """
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

_PPRINT: Final = """
import json as _json

class _Pprint:
    def pformat(self, value, indent=1, **more):
        return value if isinstance(value, str) else _json.dumps(value, indent=max(1, indent), ensure_ascii=False)

    def pprint(self, value, **more):
        print(self.pformat(value))

    def pp(self, value, **more):
        print(self.pformat(value))

_added_pprint = _Pprint()
"""

_XML: Final = """
import re as _re

_XML_PIECE = _re.compile(
    r"<!--.*?-->|<\\?.*?\\?>|<!\\[CDATA\\[(.*?)\\]\\]>|<!DOCTYPE[^>\\[]*(?:\\[.*?\\])?\\s*>"
    r"|<(/?)([^\\s<>/=]+)((?:\\s+[^\\s<>/=]+\\s*=\\s*(?:\\x22[^\\x22]*\\x22|'[^']*'))*)\\s*(/?)>|([^<]+)",
    _re.DOTALL,
)
_XML_ATTRIBUTE = _re.compile(r"([^\\s<>/=]+)\\s*=\\s*(?:\\x22([^\\x22]*)\\x22|'([^']*)')")
_XML_ENTITY = _re.compile(r"&(#x[0-9a-fA-F]+|#[0-9]+|[a-z]+);")
_XML_STEP = _re.compile(r"(//?|^)((?:\\{[^}]*\\})?[^/\\[\\]{}]*)((?:\\[[^\\]]*\\])*)")
_XML_TEST = _re.compile(r"\\[\\s*(@?)([^\\]=\\s]+)\\s*(?:=\\s*(?:\\x22([^\\x22]*)\\x22|'([^']*)'))?\\s*\\]")
_XML_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

def _xml_text(text):
    if "&" not in text:
        return text
    parts = []
    past = 0
    for found in _XML_ENTITY.finditer(text):
        name = found.group(1)
        if name.startswith("#x"):
            char = chr(int(name[2:], 16))
        elif name.startswith("#"):
            char = chr(int(name[1:]))
        else:
            char = _XML_NAMED.get(name, found.group(0))
        parts += [text[past:found.start()], char]
        past = found.end()
    return "".join(parts) + text[past:]

class _Element:
    def __init__(self, tag, attrib=None, **more):
        self.tag = tag
        self.attrib = {**(attrib or {}), **more}
        self.text = None
        self.tail = None
        self._children = []

    def __iter__(self):
        return iter(self._children)

    def __getitem__(self, at):
        return self._children[at]

    def __repr__(self):
        return f"<Element {self.tag!r}>"

    def get(self, key, default=None):
        return self.attrib.get(key, default)

    def keys(self):
        return self.attrib.keys()

    def items(self):
        return self.attrib.items()

    def append(self, child):
        self._children.append(child)

    def iter(self, tag=None):
        found = []
        left = [self]
        while left:
            one = left.pop()
            if tag is None or tag == "*" or one.tag == tag:
                found.append(one)
            left += one._children[::-1]
        return found

    def itertext(self):
        parts = [self.text] if self.text else []
        for child in self._children:
            parts += child.itertext()
            if child.tail:
                parts.append(child.tail)
        return parts

    def findall(self, path, namespaces=None):
        if path.startswith("/"):
            raise ValueError("cannot use absolute path on element")
        found = [self]
        for step in _XML_STEP.finditer(path):
            tag = step.group(2)
            if tag in ("", "."):
                continue
            prefix, colon, name = tag.partition(":")
            if colon and not tag.startswith("{"):
                if prefix not in (namespaces or {}):
                    raise ValueError(f"prefix {prefix!r} not found in prefix map")
                tag = "{" + namespaces[prefix] + "}" + name
            among = []
            for one in found:
                inner = one.iter()[1:] if step.group(1) == "//" else one._children
                inner = [child for child in inner if tag == "*" or child.tag == tag]
                for test in _XML_TEST.finditer(step.group(3)):
                    inner = self._tested(inner, test)
                among += inner
            found = among
        return found

    def _tested(self, among, test):
        attribute, name = test.group(1), test.group(2)
        value = test.group(3) if test.group(3) is not None else test.group(4)
        if name == "last()":
            return among[-1:]
        if not attribute and name.isdigit():
            return among[int(name) - 1:int(name)]
        if attribute:
            return [one for one in among if name in one.attrib and value in (None, one.attrib[name])]
        if name == ".":
            return [one for one in among if "".join(one.itertext()) == value]
        return [
            one
            for one in among
            if [child for child in one.findall(name) if value is None or "".join(child.itertext()) == value]
        ]

    def iterfind(self, path, namespaces=None):
        return self.findall(path, namespaces)

    def find(self, path, namespaces=None):
        found = self.findall(path, namespaces)
        return found[0] if found else None

    def findtext(self, path, default=None, namespaces=None):
        found = self.find(path, namespaces)
        return default if found is None else found.text or ""

class _Tree:
    def __init__(self, root):
        self._root = root

    def getroot(self):
        return self._root

    def iter(self, tag=None):
        return self._root.iter(tag)

    def find(self, path, namespaces=None):
        return self._root.find(path, namespaces)

    def findall(self, path, namespaces=None):
        return self._root.findall(path, namespaces)

def _xml_name(name, spaces, fallback):
    prefix, colon, own = name.partition(":")
    space = spaces.get(prefix) if colon else fallback
    return ("{" + space + "}" + own if colon else "{" + space + "}" + name) if space else name

def _xml_read(text):
    if not isinstance(text, str):
        text = bytes(text).decode()
    root = None
    opened = []
    past = 0
    for piece in _XML_PIECE.finditer(text.strip()):
        if piece.start() != past:
            break
        past = piece.end()
        data, closing, name, attributes, empty, plain = piece.groups()
        if name is None:
            said = data if data is not None else _xml_text(plain) if plain is not None else ""
            if said and opened:
                _xml_said(opened[-1][0], said)
            elif said.strip():
                raise ValueError("syntax error: text outside of the document element")
            continue
        if closing:
            if not opened or opened.pop()[2] != name:
                raise ValueError(f"mismatched tag: </{name}>")
            continue
        if root is not None and not opened:
            raise ValueError("junk after document element")
        given = {}
        for found in _XML_ATTRIBUTE.finditer(attributes or ""):
            given[found.group(1)] = _xml_text(found.group(2) if found.group(2) is not None else found.group(3))
        spaces = opened[-1][1] if opened else {"": "", "xml": "http://www.w3.org/XML/1998/namespace"}
        new = {key.partition(":")[2]: value for key, value in given.items() if key.split(":")[0] == "xmlns"}
        if new:
            spaces = {**spaces, **new}
        attrib = {_xml_name(k, spaces, ""): v for k, v in given.items() if k.split(":")[0] != "xmlns"}
        element = _Element(_xml_name(name, spaces, spaces[""]), attrib)
        if opened:
            opened[-1][0].append(element)
        else:
            root = element
        if not empty:
            opened.append((element, spaces, name))
    if root is None or opened or past != len(text.strip()):
        raise ValueError(f"not well-formed XML, at character {past}")
    return root

def _xml_said(element, text):
    if element._children:
        last = element._children[-1]
        last.tail = (last.tail or "") + text
    else:
        element.text = (element.text or "") + text

class _ElementTree:
    Element = _Element
    ParseError = ValueError

    def fromstring(self, text):
        return _xml_read(text)

    def XML(self, text):
        return _xml_read(text)

    def parse(self, file):
        return _Tree(_xml_read(file.read()))

    def iselement(self, one):
        return isinstance(one, _Element)

class _Part:
    pass

_added_xml = _Part()
_added_xml.etree = _Part()
_added_xml.etree.ElementTree = _ElementTree()
"""

# By the first part of the name; then the names that can be imported.
SOURCES: Final = {
    "asyncio": _ASYNCIO,
    "concurrent": _CONCURRENT,
    "io": _IO,
    "json": _JSON,
    "operator": _OPERATOR,
    "pprint": _PPRINT,
    "statistics": _STATISTICS,
    "xml": _XML,
}
MODULES_ADDED: Final = (*SOURCES, "concurrent.futures", "xml.etree", "xml.etree.ElementTree")
