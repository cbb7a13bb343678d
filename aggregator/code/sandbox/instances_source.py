"""The part of the prelude by which operators and functions use the methods of instances: order, length, truth, items.

It stands after `classes_source`.
"""

from typing import Final

# Comparisons of instances by `__lt__` and its like, and the functions that sort by them.
ORDER: Final = """
_x_sorted, _x_min, _x_max = sorted, min, max

class _x_Compared:
    def __init__(self, compare, value):
        self.compare, self.value = compare, value

    def __lt__(self, other):
        return self.compare(self.value, other.value) < 0

    def __eq__(self, other):
        return self.compare(self.value, other.value) == 0

for _x_kind in [_x_Compared, *_x_comparing]:
    _x_mros[_x_kind], _x_roots[_x_kind], _x_owns[_x_kind] = [_x_kind], None, {}

def _x_ordered(value):
    if _x_isinstance(value, (tuple, list)):
        return any([_x_ordered(one) for one in value])
    return type(value) in _x_mros

def _x_lt(a, b):
    if _x_isinstance(a, tuple) and _x_isinstance(b, tuple) or _x_isinstance(a, list) and _x_isinstance(b, list):
        for one, other in zip(a, b):
            if not one == other:
                return _x_lt(one, other)
        return len(a) < len(b)
    if type(a) in _x_mros and hasattr(a, "__lt__"):
        return a.__lt__(b)
    if type(b) in _x_mros and hasattr(b, "__gt__"):
        return b.__gt__(a)
    if type(b) in _x_mros and hasattr(b, "_x_mixed"):
        return a < b._x_mixed
    return a < b

def _x_compared(sign, a, b):
    if not (_x_ordered(a) or _x_ordered(b)):
        return a < b if sign == "<" else a > b if sign == ">" else a <= b if sign == "<=" else a >= b
    if sign == ">":
        if type(a) in _x_mros and hasattr(a, "__gt__"):
            return a.__gt__(b)
        return _x_lt(b, a)
    if sign == "<":
        return _x_lt(a, b)
    named = "__le__" if sign == "<=" else "__ge__"
    if type(a) in _x_mros and hasattr(a, named):
        return _x_getattr(a, named)(b)
    return a == b or (_x_lt(a, b) if sign == "<=" else _x_lt(b, a))

def _x_compare(first, *rest):
    for at in range(0, len(rest), 2):
        if not _x_compared(rest[at], first, rest[at + 1]):
            return False
        first = rest[at + 1]
    return True

def _x_merge(pairs, reverse):
    if len(pairs) < 2:
        return pairs
    half = len(pairs) // 2
    left, right = _x_merge(pairs[:half], reverse), _x_merge(pairs[half:], reverse)
    merged, at, to = [], 0, 0
    while at < len(left) and to < len(right):
        later = _x_lt(left[at][0], right[to][0]) if reverse else _x_lt(right[to][0], left[at][0])
        if later:
            merged.append(right[to])
            to += 1
        else:
            merged.append(left[at])
            at += 1
    return merged + left[at:] + right[to:]

def sorted(values, key=None, reverse=False):
    pairs = [(one if key is None else key(one), one) for one in values]
    if any([_x_ordered(pair[0]) for pair in pairs]):
        return [pair[1] for pair in _x_merge(pairs, reverse)]
    return [pair[1] for pair in _x_sorted(pairs, key=lambda pair: pair[0], reverse=reverse)]

def _x_sort(one, key=None, reverse=False):
    if _x_isinstance(one, list):
        one[:] = sorted(one, key=key, reverse=reverse)
    else:
        one.sort()

def _x_first(values, more, reverse):
    values = list(values[0]) if len(values) == 1 else list(values)
    if not values:
        if "default" in more:
            return more["default"]
        raise ValueError("the iterable argument is empty")
    key = more.get("key")
    best, least = values[0], values[0] if key is None else key(values[0])
    for one in values[1:]:
        mark = one if key is None else key(one)
        if _x_lt(least, mark) if reverse else _x_lt(mark, least):
            best, least = one, mark
    return best

def min(*values, **more):
    return _x_first(values, more, False)

def max(*values, **more):
    return _x_first(values, more, True)
"""

# Instances with `__len__`, `__bool__`, `__getitem__`, `__contains__`, `__format__` and `__reversed__`.
PROTOCOLS: Final = """
_x_bool, _x_reversed = bool, reversed

def reversed(one):
    if type(one) in _x_mros and hasattr(one, "__reversed__"):
        return one.__reversed__()
    if type(one) in _x_mros and hasattr(one, "keys"):
        return iter(list(one.keys())[::-1])
    if type(one) in _x_mros and hasattr(one, "__getitem__"):
        return iter([one.__getitem__(at) for at in range(len(one) - 1, -1, -1)])
    return _x_reversed(one)

def len(one):
    return one.__len__() if type(one) in _x_mros or type(one) is _x_Enumeration else _x_len(one)

def _x_truth(one):
    if type(one) in _x_mros:
        if hasattr(one, "__bool__"):
            return one.__bool__()
        return one.__len__() != 0 if hasattr(one, "__len__") else True
    return _x_bool(one)

def _x_item(one, key):
    return one.__getitem__(key) if type(one) in _x_mros else one[key]

def _x_in(key, one):
    return _x_truth(one.__contains__(key)) if type(one) in _x_mros and hasattr(one, "__contains__") else key in one

def _x_format(one, spec):
    return one.__format__(spec) if type(one) in _x_mros and hasattr(one, "__format__") else format(one, spec)
"""
