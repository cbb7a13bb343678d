"""The part of the prelude for heirs of `dict`, `list` and `JSONEncoder`, and for `__getattr__` (`classes`)."""

from typing import Final

# The dict or list of an instance is its `_x_mixed`, as the value of a member of an enumeration is.
CONTAINERS: Final = """
def _x_inside(one):
    return one._x_mixed if type(one) in _x_mros and hasattr(one, "_x_mixed") else one

class _x_Dict:
    def __init__(self, *given, **more):
        self._x_mixed = {}
        self.update(*given, **more)

    def _x_own(self):
        if not hasattr(self, "_x_mixed"):
            self._x_mixed = {}
        return self._x_mixed

    def __getitem__(self, key):
        own = self._x_own()
        if key not in own and hasattr(self, "__missing__"):
            return self.__missing__(key)
        return own[key]

    def __setitem__(self, key, value):
        self._x_own()[key] = value

    def __delitem__(self, key):
        self._x_own().pop(key)

    def __contains__(self, key):
        return key in self._x_own()

    def __len__(self):
        return _x_len(self._x_own())

    def __iter__(self):
        return iter(self._x_own())

    def __eq__(self, other):
        return self._x_own() == _x_inside(other)

    def __or__(self, other):
        return {**self._x_own(), **_x_inside(other)}

    def __repr__(self):
        return repr(self._x_own())

    def keys(self):
        return self._x_own().keys()

    def values(self):
        return self._x_own().values()

    def items(self):
        return self._x_own().items()

    def get(self, key, default=None):
        return self._x_own().get(key, default)

    def pop(self, key, *default):
        return self._x_own().pop(key, *default)

    def popitem(self):
        return self._x_own().popitem()

    def setdefault(self, key, default=None):
        return self._x_own().setdefault(key, default)

    def update(self, *given, **more):
        self._x_own().update(*[_x_inside(one) for one in given], **more)

    def clear(self):
        self._x_own().clear()

    def copy(self):
        return self._x_own().copy()

# Fills itself by its own `__setitem__`, which a program may define.
class _x_UserDict:
    def __init__(self, *given, **more):
        self._x_mixed = self.data = {}
        self.update(*given, **more)

    def update(self, *given, **more):
        new = {}
        new.update(*[_x_inside(one) for one in given], **more)
        for key, value in new.items():
            self[key] = value

class _x_List:
    def __init__(self, values=()):
        self._x_mixed = list(values)

    def _x_own(self):
        if not hasattr(self, "_x_mixed"):
            self._x_mixed = []
        return self._x_mixed

    def __getitem__(self, at):
        return self._x_own()[at]

    def __setitem__(self, at, value):
        self._x_own()[at] = value

    def __contains__(self, one):
        return one in self._x_own()

    def __len__(self):
        return _x_len(self._x_own())

    def __iter__(self):
        return iter(self._x_own())

    def __eq__(self, other):
        return self._x_own() == _x_inside(other)

    def __add__(self, other):
        return self._x_own() + _x_inside(other)

    def __repr__(self):
        return repr(self._x_own())

    def append(self, one):
        self._x_own().append(one)

    def extend(self, values):
        self._x_own().extend(list(values))

    def insert(self, at, one):
        self._x_own().insert(at, one)

    def pop(self, *at):
        return self._x_own().pop(*at)

    def remove(self, one):
        self._x_own().remove(one)

    def index(self, one):
        return self._x_own().index(one)

    def count(self, one):
        return self._x_own().count(one)

    def reverse(self):
        self._x_own().reverse()

    def sort(self, **more):
        self._x_own()[:] = sorted(self._x_own(), **more)

    def clear(self):
        self._x_own().clear()

    def copy(self):
        return self._x_own().copy()

_x_container = ("_x_own", "__getitem__", "__setitem__", "__contains__", "__len__", "__iter__", "__eq__", "__repr__",
                "pop", "clear", "copy")
for _x_kind, _x_more in (
    (_x_Dict, ("__init__", "__delitem__", "__or__", "keys", "values", "items", "get", "popitem", "setdefault",
               "update")),
    (_x_List, ("__init__", "__add__", "append", "extend", "insert", "remove", "index", "count", "reverse", "sort")),
):
    _x_mros[_x_kind], _x_roots[_x_kind] = [_x_kind], None
    _x_owns[_x_kind] = {name: "plain" for name in _x_container + _x_more}
_x_class(_x_UserDict, (_x_Dict,), {"__init__": "plain", "update": "plain"})
"""

ATTRIBUTES: Final = """
def _x_attr(one, name):
    if type(one) in _x_mros and not hasattr(one, name) and hasattr(one, "__getattr__"):
        return one.__getattr__(name)
    return getattr(one, name)

def _x_attr_or(one, name, *default):
    try:
        return _x_attr(one, name)
    except AttributeError:
        if default:
            return default[0]
        raise

def _x_has(one, name):
    try:
        _x_attr(one, name)
        return True
    except AttributeError:
        return False
"""

# The module `json` comes before it.
ENCODER: Final = """
class _x_Encoder:
    def __init__(self, **options):
        self._x_options = options

    def default(self, one):
        raise TypeError(f"Object of type {type(one).__name__} is not JSON serializable")

    def encode(self, value):
        return _added_json.dumps(value, default=lambda one: self.default(one), **self._x_options)

_x_mros[_x_Encoder], _x_roots[_x_Encoder] = [_x_Encoder], None
_x_owns[_x_Encoder] = {name: "plain" for name in ("__init__", "default", "encode")}

def _x_default_of(cls):
    if cls is None:
        return None
    encoder = cls()
    return lambda one: encoder.default(one)
"""

# Mappings of the modules, such as a `ChainMap`, as instances of classes of the program.
MAPPINGS: Final = """
for _x_kind in _x_mappings:
    _x_mros[_x_kind], _x_roots[_x_kind], _x_owns[_x_kind] = [_x_kind], None, {}
_x_inside_instance = _x_inside

def _x_inside(one):
    return one._whole() if type(one) in _x_mappings else _x_inside_instance(one)
"""
