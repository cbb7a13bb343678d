"""`pprint` for programs (`module_sources`), which breaks lines where Python's does."""

from typing import Final

PPRINT: Final = """
import re as _pprint_re

_pprint_pairs = {"list": "[]", "tuple": "()", "set": "{}", "frozenset": ("frozenset({", "})")}

def _pprint_sorted(values, key=lambda one: one):
    try:
        return sorted(values, key=key)
    except TypeError:
        # Values of several types: those of one type stand together.
        kinds = {}
        for one in values:
            kinds.setdefault(str(type(key(one))), []).append(one)
        made = []
        for kind in sorted(kinds):
            try:
                made.extend(sorted(kinds[kind], key=key))
            except TypeError:
                made.extend(kinds[kind])
        return made

class _PrettyPrinter:
    def __init__(self, indent=1, width=80, depth=None, stream=None, compact=False, sort_dicts=True,
                 underscore_numbers=False):
        self._indent, self._width, self._depth, self._stream = indent, width, depth, stream
        self._compact, self._sorts, self._within = compact, sort_dicts, []

    def pformat(self, value):
        self._out = []
        self._format(value, 0, 0, 0)
        return "".join(self._out)

    def pprint(self, value):
        text = self.pformat(value)
        if self._stream is not None and hasattr(self._stream, "write"):
            self._stream.write(text + "\\n")
        else:
            print(text)

    def _items(self, value):
        items = list(value.items())
        return _pprint_sorted(items, key=lambda item: item[0]) if self._sorts else items

    def _line(self, value, level):
        kind = type(value)
        if kind not in (dict, list, tuple):
            return repr(value)
        if not value:
            return repr(value)
        left, right = ("{", "}") if kind is dict else _pprint_pairs[kind.__name__]
        if self._depth and level >= self._depth:
            return f"{left}...{right}"
        if any([one is value for one in self._within]):
            return f"<Recursion on {kind.__name__} with id={id(value)}>"
        self._within.append(value)
        if kind is dict:
            parts = [f"{self._line(key, level + 1)}: {self._line(one, level + 1)}" for key, one in self._items(value)]
        else:
            parts = [self._line(one, level + 1) for one in value]
        self._within.pop()
        return left + ", ".join(parts) + ("," if kind is tuple and len(parts) == 1 else "") + right

    def _fits(self, value, room, level):
        # The order of the keys does not change the length.
        return len(repr(value) if self._depth is None else self._line(value, level)) <= room

    def _format(self, value, indent, allowance, level):
        if any([one is value for one in self._within]) and isinstance(value, (dict, list, tuple)):
            self._out.append(f"<Recursion on {type(value).__name__} with id={id(value)}>")
            return
        kind = type(value).__name__
        lines = kind in ("dict", "defaultdict", "Counter", "list", "tuple", "set", "frozenset", "str")
        if not lines or self._fits(value, self._width - indent - allowance, level):
            self._out.append(self._line(value, level))
            return
        if kind == "str":
            self._text(value, indent, allowance, level + 1)
            return
        self._within.append(value)
        if kind == "dict":
            self._dict(value, indent, allowance, level + 1)
        elif kind == "defaultdict":
            indent += len(kind) + 1
            self._out.append(f"defaultdict({value.default_factory!r},\\n{' ' * indent}")
            self._dict(value, indent, allowance + 1, level + 1)
            self._out.append(")")
        elif kind == "Counter":
            self._out.append("Counter({" + " " * (self._indent - 1))
            self._pairs(value.most_common(), indent + len(kind) + 1, allowance + 2, level + 1)
            self._out.append("})")
        else:
            left, right = _pprint_pairs[kind]
            if kind == "tuple" and len(value) == 1:
                right = ",)"
            if kind in ("set", "frozenset"):
                value = _pprint_sorted(list(value))
                indent += len(left) - 1
            self._out.append(left)
            self._list(value, indent, allowance + len(right), level + 1)
            self._out.append(right)
        self._within.pop()

    def _dict(self, value, indent, allowance, level):
        self._out.append("{" + " " * (self._indent - 1))
        self._pairs(self._items(value), indent, allowance + 1, level)
        self._out.append("}")

    def _pairs(self, items, indent, allowance, level):
        indent += self._indent
        for at, (key, value) in enumerate(items):
            last = at == len(items) - 1
            said = self._line(key, level)
            self._out.append(f"{said}: ")
            self._format(value, indent + len(said) + 2, allowance if last else 1, level)
            if not last:
                self._out.append(",\\n" + " " * indent)

    def _list(self, values, indent, allowance, level):
        indent += self._indent
        self._out.append(" " * (self._indent - 1))
        between, mark = ",\\n" + " " * indent, ""
        room = most = self._width - indent + 1
        for at, value in enumerate(values):
            last = at == len(values) - 1
            if last:
                room, most = room - allowance, most - allowance
            if self._compact:
                said = self._line(value, level)
                wanted = len(said) + 2
                if room < wanted:
                    room = most
                    if mark:
                        mark = between
                if room >= wanted:
                    room -= wanted
                    self._out.append(mark + said)
                    mark = ", "
                    continue
            self._out.append(mark)
            mark = between
            self._format(value, indent, allowance if last else 1, level)

    def _text(self, value, indent, allowance, level):
        if level == 1:
            indent, allowance = indent + 1, allowance + 1
        most = self._width - indent
        lines, made = value.splitlines(True), []
        for at, line in enumerate(lines):
            last = at == len(lines) - 1
            if len(repr(line)) <= (most - allowance if last else most):
                made.append(repr(line))
                continue
            parts, now = _pprint_re.findall(r"\\S*\\s*", line), ""
            parts = [part for part in parts if part]
            for place, part in enumerate(parts):
                room = most - allowance if last and place == len(parts) - 1 else most
                if len(repr(now + part)) > room:
                    if now:
                        made.append(repr(now))
                    now = part
                else:
                    now += part
            if now:
                made.append(repr(now))
        said = ("\\n" + " " * indent).join(made)
        self._out.append(f"({said})" if level == 1 and len(made) > 1 else said)

class _Pprint:
    PrettyPrinter = _PrettyPrinter

    def pformat(self, value, *given, **more):
        return _PrettyPrinter(*given, **more).pformat(value)

    def pprint(self, value, stream=None, indent=1, width=80, depth=None, **more):
        _PrettyPrinter(indent=indent, width=width, depth=depth, stream=stream, **more).pprint(value)

    def pp(self, value, *given, sort_dicts=False, **more):
        self.pprint(value, *given, sort_dicts=sort_dicts, **more)

    def saferepr(self, value):
        return _PrettyPrinter()._line(value, 0)

_added_pprint = _Pprint()
"""
