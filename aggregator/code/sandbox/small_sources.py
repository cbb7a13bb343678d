"""Small modules for programs (`module_sources`): `heapq`, `logging`, `string`, `textwrap`, `urllib.parse`, and
`collections` with `OrderedDict`.
"""

from typing import Final

# The methods of a mapping that go over all that it has, for the body of a class with `_whole`.
MAPPING_VIEWS: Final = """\
    def __iter__(self):
        return iter(self._whole())

    def __len__(self):
        return len(self._whole())

    def keys(self):
        return self._whole().keys()

    def values(self):
        return self._whole().values()

    def items(self):
        return self._whole().items()
"""

COLLECTIONS: Final = (
    """
import collections as _collections

class _Collections:
    pass

class _ChainMap:
    def __init__(self, *maps):
        self.maps = list(maps) or [{}]

    def _whole(self):
        whole = {}
        for one in reversed(self.maps):
            whole.update(one)
        return whole

    def __getitem__(self, key):
        for one in self.maps:
            if key in one:
                return one[key]
        raise KeyError(str(key))

    def __setitem__(self, key, value):
        self.maps[0][key] = value

    def __contains__(self, key):
        return any([key in one for one in self.maps])

    def __eq__(self, other):
        return self._whole() == (other._whole() if type(other) is _ChainMap else other)

    def __repr__(self):
        return "ChainMap(" + ", ".join([repr(one) for one in self.maps]) + ")"

    def new_child(self, m=None, **more):
        return _ChainMap({**({} if m is None else m), **more}, *self.maps)

    def pop(self, key, *default):
        return self.maps[0].pop(key, *default)

    def get(self, key, default=None):
        return self[key] if key in self else default

"""
    + MAPPING_VIEWS
    + """
_x_mappings.append(_ChainMap)

class _CollectionsAbc:
    pass

class _Kind:
    def __getitem__(self, kinds):
        return self

for _kind in ("Awaitable", "AsyncIterator", "AsyncIterable", "Collection", "Container", "Coroutine", "Generator",
              "Hashable",
              "Iterator", "Reversible", "Sized", "Callable"):
    setattr(_CollectionsAbc, _kind, _Kind())
for _kind, _kinds in (("Mapping", dict), ("MutableMapping", dict), ("Set", set), ("MutableSet", set),
                      ("MutableSequence", list), ("Sequence", list), ("Iterable", list)):
    setattr(_CollectionsAbc, _kind, _kinds)

_added_collections = _Collections()
_added_collections.ChainMap = _ChainMap
_added_collections.abc = _CollectionsAbc()
_added_collections.Counter = _collections.Counter
_added_collections.defaultdict = _collections.defaultdict
_added_collections.deque = _collections.deque
_added_collections.namedtuple = _collections.namedtuple
_added_collections.OrderedDict = dict
# Bases of classes of the program (`classes`).
_added_collections.UserDict = _added_collections.UserList = None
"""
)

HEAPQ: Final = """
_heap_sorted = sorted

def _heap_less(one, other):
    if sorted is _heap_sorted:
        return one < other
    # Another `sorted` knows the order of a program's own instances.
    return one is not other and sorted([other, one])[0] is one

def _heap_up(heap, start, at):
    new = heap[at]
    while at > start:
        above = (at - 1) >> 1
        if not _heap_less(new, heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = new

def _heap_down(heap, at):
    start, end, new = at, len(heap), heap[at]
    below = 2 * at + 1
    while below < end:
        if below + 1 < end and not _heap_less(heap[below], heap[below + 1]):
            below += 1
        heap[at] = heap[below]
        at = below
        below = 2 * at + 1
    heap[at] = new
    _heap_up(heap, start, at)

class _Heapq:
    def heapify(self, heap):
        for at in range(len(heap) // 2 - 1, -1, -1):
            _heap_down(heap, at)

    def heappush(self, heap, one):
        heap.append(one)
        _heap_up(heap, 0, len(heap) - 1)

    def heappop(self, heap):
        if not heap:
            raise IndexError("index out of range")
        last = heap.pop()
        return self.heapreplace(heap, last) if heap else last

    def heappushpop(self, heap, one):
        return self.heapreplace(heap, one) if heap and _heap_less(heap[0], one) else one

    def heapreplace(self, heap, one):
        if not heap:
            raise IndexError("index out of range")
        first = heap[0]
        heap[0] = one
        _heap_down(heap, 0)
        return first

    def nlargest(self, count, values, key=None):
        return sorted(values, key=key, reverse=True)[:max(0, count)]

    def nsmallest(self, count, values, key=None):
        return sorted(values, key=key)[:max(0, count)]

    def merge(self, *lists, key=None, reverse=False):
        return iter(sorted([one for part in lists for one in part], key=key, reverse=reverse))

_added_heapq = _Heapq()
"""

# What Python writes to its error output is printed.
LOGGING: Final = """
_levels = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}

class _Logger:
    def __init__(self, name):
        self.name = name

    def _log(self, word, text, given):
        if _levels[word] >= _added_logging.least:
            print(f"{word}:{self.name}:{str(text) % given if given else text}")

    def debug(self, text, *given, **more):
        self._log("DEBUG", text, given)

    def info(self, text, *given, **more):
        self._log("INFO", text, given)

    def warning(self, text, *given, **more):
        self._log("WARNING", text, given)

    def error(self, text, *given, **more):
        self._log("ERROR", text, given)

    def exception(self, text, *given, **more):
        self._log("ERROR", text, given)

    def critical(self, text, *given, **more):
        self._log("CRITICAL", text, given)

    def setLevel(self, level):
        _added_logging.basicConfig(level=level)

class _Logging:
    def __init__(self):
        self.DEBUG, self.INFO, self.WARNING, self.ERROR, self.CRITICAL = 10, 20, 30, 40, 50
        self.least = 30
        root = _Logger("root")
        self.debug, self.info, self.warning = root.debug, root.info, root.warning
        self.error, self.exception, self.critical = root.error, root.exception, root.critical

    def getLogger(self, name="root"):
        return _Logger(name)

    def basicConfig(self, level=None, **more):
        if level is not None:
            self.least = _levels.get(level, 30) if isinstance(level, str) else level

_added_logging = _Logging()
"""

STRING: Final = """
class _Template:
    def __init__(self, template):
        self.template = template

    def _filled(self, values, safe):
        parts = self.template.split("$")
        done, at = parts[0], 1
        while at < len(parts):
            part = parts[at]
            if not part and at + 1 < len(parts):
                done += "$" + parts[at + 1]
                at += 2
                continue
            braced = part[:1] == "{" and "}" in part
            if braced:
                name, end = part[1:part.index("}")], part.index("}") + 1
            else:
                end = 0
                while end < len(part) and (part[end] == "_" or part[end].isascii() and part[end].isalnum()):
                    end += 1
                name = part[:end]
            if not name or name[0].isdigit():
                if not safe:
                    raise ValueError("Invalid placeholder in string")
                done += "$" + part
            elif name in values:
                done += str(values[name]) + part[end:]
            elif safe:
                done += "$" + part
            else:
                raise KeyError(name)
            at += 1
        return done

    def substitute(self, values=(), **more):
        return self._filled({**dict(values), **more}, False)

    def safe_substitute(self, values=(), **more):
        return self._filled({**dict(values), **more}, True)

class _String:
    def __init__(self):
        self.Template = _Template
        self.ascii_lowercase = "abcdefghijklmnopqrstuvwxyz"
        self.ascii_uppercase = self.ascii_lowercase.upper()
        self.ascii_letters = self.ascii_lowercase + self.ascii_uppercase
        self.digits = "0123456789"
        self.hexdigits = self.digits + "abcdefABCDEF"
        self.punctuation = "!\\"#$%&'()*+,-./:;<=>?@[\\\\]^_`{|}~"
        self.whitespace = " \\t\\n\\r\\x0b\\x0c"

    def capwords(self, text, sep=None):
        return (sep or " ").join([word.capitalize() for word in text.split(sep)])

_added_string = _String()
"""

TEXTWRAP: Final = """
class _TextWrap:
    def _pieces(self, text):
        found, space = [], ""
        text = "".join([" " if one in "\\n\\r\\v\\f" else one for one in text.expandtabs(8)])
        for place, word in enumerate(text.split(" ")):
            space += " " if place else ""
            if not word:
                continue
            start = 0
            for at in range(1, len(word) - 1):
                if word[at] == "-" and word[at - 1].isalpha() and word[at + 1].isalpha():
                    found.append((space, word[start:at + 1]))
                    start, space = at + 1, ""
            found.append((space, word[start:]))
            space = ""
        return found

    def wrap(self, text, width=70, initial_indent="", subsequent_indent="", break_long_words=True, **more):
        if width <= 0:
            raise ValueError(f"invalid width {width} (must be > 0)")
        lines, line, empty = [], initial_indent, True
        for space, piece in self._pieces(text):
            space = "" if empty and lines else space
            while piece and len(line) + len(space) + len(piece) > width:
                room = max(width - len(line) - len(space), 1 if empty else 0)
                whole = len(piece) <= width - len(subsequent_indent) or not break_long_words
                if whole and empty:
                    if not space:
                        break
                    space = ""
                    continue
                if not whole and room > 0:
                    line, piece = line + space + piece[:room], piece[room:]
                lines.append(line)
                line, empty, space = subsequent_indent, True, ""
            if piece:
                line, empty = line + space + piece, False
        return lines if empty else lines + [line]

    def fill(self, text, width=70, **more):
        return "\\n".join(self.wrap(text, width, **more))

    def shorten(self, text, width, placeholder=" [...]", **more):
        words = text.split()
        if len(" ".join(words)) <= width:
            return " ".join(words)
        while words and len(" ".join(words)) + len(placeholder) > width:
            words.pop()
        return (" ".join(words) + placeholder) if words else placeholder.strip()

    def indent(self, text, prefix, predicate=None):
        wanted = predicate or (lambda line: line.strip())
        return "".join([(prefix if wanted(line) else "") + line for line in text.splitlines(True)])

    def dedent(self, text):
        lines = [line if line.strip() else "" for line in text.split("\\n")]
        depths = [len(line) - len(line.lstrip(" \\t")) for line in lines if line]
        return "\\n".join([line[min(depths):] for line in lines]) if depths else "\\n".join(lines)

_added_textwrap = _TextWrap()
"""

URLLIB: Final = """
import base64 as _base64

class _Url:
    def __init__(self, scheme, netloc, path, query, fragment):
        self.scheme, self.netloc, self.path, self.query, self.fragment = scheme, netloc, path, query, fragment
        self.params = ""
        user, mark, place = netloc.rpartition("@")
        self.username, colon, password = user.partition(":") if mark else (None, "", None)
        self.password = password if colon else None
        name, _, port = place.partition(":")
        self.hostname = name.lower() or None
        self.port = int(port) if port.isdigit() else None

    def geturl(self):
        start = f"{self.scheme}:" if self.scheme else ""
        start += f"//{self.netloc}" if self.netloc else ""
        end = (f"?{self.query}" if self.query else "") + (f"#{self.fragment}" if self.fragment else "")
        return start + self.path + end

    def _parts(self):
        return (self.scheme, self.netloc, self.path, self.params, self.query, self.fragment)

    def _replace(self, **changes):
        said = {"scheme": self.scheme, "netloc": self.netloc, "path": self.path, "query": self.query,
                "fragment": self.fragment, **changes}
        said.pop("params", None)
        return _Url(**said)

    def __getitem__(self, at):
        return self._parts()[at]

    def __iter__(self):
        return iter(self._parts())

class _UrlParse:
    def quote(self, text, safe="/", **more):
        plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~" + safe
        return "".join([one if one in plain else self._escaped(one) for one in str(text)])

    def _escaped(self, one):
        code = _base64.b16encode(one.encode("utf-8")).decode()
        return "".join([f"%{code[at:at + 2]}" for at in range(0, len(code), 2)])

    def quote_plus(self, text, safe="", **more):
        return self.quote(text, safe + " ").replace(" ", "+")

    def unquote(self, text, **more):
        parts = text.split("%")
        done, code = parts[0], ""
        for part in parts[1:]:
            if len(part) >= 2 and all([sign in "0123456789abcdefABCDEF" for sign in part[:2]]):
                code += part[:2].upper()
                if len(part) > 2:
                    done, code = done + self._read(code) + part[2:], ""
            else:
                done, code = done + self._read(code) + "%" + part, ""
        return done + self._read(code)

    def _read(self, code):
        return _base64.b16decode(code).decode("utf-8") if code else ""

    def unquote_plus(self, text, **more):
        return self.unquote(text.replace("+", " "))

    def urlencode(self, query, doseq=False, **more):
        pairs = list(query.items()) if isinstance(query, dict) else list(query)
        if doseq:
            pairs = [(name, one) for name, value in pairs
                     for one in (value if isinstance(value, (list, tuple)) else [value])]
        return "&".join([f"{self.quote_plus(name)}={self.quote_plus(value)}" for name, value in pairs])

    def parse_qsl(self, text, keep_blank_values=False, **more):
        pairs = [part.partition("=") for part in text.split("&") if part]
        return [(self.unquote_plus(name), self.unquote_plus(value))
                for name, _, value in pairs if value or keep_blank_values]

    def parse_qs(self, text, keep_blank_values=False, **more):
        found = {}
        for name, value in self.parse_qsl(text, keep_blank_values):
            found.setdefault(name, []).append(value)
        return found

    def urlsplit(self, url, **more):
        rest, _, fragment = str(url).partition("#")
        rest, _, query = rest.partition("?")
        scheme, colon, after = rest.partition(":")
        if not colon or not scheme[:1].isalpha() or "/" in scheme:
            scheme, after = "", rest
        netloc = ""
        if after.startswith("//"):
            netloc, slash, path = after[2:].partition("/")
            after = slash + path
        return _Url(scheme.lower(), netloc, after, query, fragment)

    def urlparse(self, url, **more):
        return self.urlsplit(url)

    def urlunsplit(self, parts):
        return _Url(*parts).geturl()

    def urlunparse(self, parts):
        scheme, netloc, path, _, query, fragment = parts
        return _Url(scheme, netloc, path, query, fragment).geturl()

    def urljoin(self, base, url, **more):
        own, new = self.urlsplit(base), self.urlsplit(url)
        if new.scheme or not url:
            return url or base
        if new.netloc:
            return f"{own.scheme}:{url}"
        path, query = new.path, new.query
        if not path:
            path, query = own.path, query or own.query
        elif not path.startswith("/"):
            path = own.path.rpartition("/")[0] + "/" + path
        kept = []
        parts = path.split("/")
        for at, part in enumerate(parts):
            if part == ".." and len(kept) > 1:
                kept.pop()
            if part not in (".", ".."):
                kept.append(part)
            elif at == len(parts) - 1:
                kept.append("")
        return _Url(own.scheme, own.netloc, "/".join(kept), query, new.fragment).geturl()

class _Urllib:
    pass

_added_urllib = _Urllib()
_added_urllib.parse = _UrlParse()
"""
