"""The part of the prelude for rewritten classes: inheritance, `super`, properties, enumerations, exceptions."""

from typing import Final

CLASSES: Final = """
_x_isinstance, _x_getattr, _x_type = isinstance, getattr, type
# Of each class of the program: the classes in the order of method resolution, and the kinds of its own names.
_x_mros, _x_owns = {}, {}
_x_properties, _x_roots = {}, {}

class _x_Static:
    def __init__(self, function):
        self.function = function

    def __call__(self, *given, **more):
        return self.function(*given, **more)

class _x_Of:
    def __init__(self, function, cls):
        self.function = function
        self.cls = cls

    def __call__(self, *given, **more):
        return self.function(self.cls, *given, **more)

def _x_plain(function):
    return lambda *given, **more: function(*given, **more)

def _x_merged(lists):
    merged = []
    while True:
        lists = [one for one in lists if one]
        if not lists:
            return merged
        heads = [one[0] for one in lists
                 if not any([one[0] is kind for other in lists for kind in other[1:]])]
        if not heads:
            raise TypeError("Cannot create a consistent method resolution order (MRO)")
        merged.append(heads[0])
        lists = [[kind for kind in one if kind is not heads[0]] for one in lists]

def _x_class(cls, bases, own, root=None):
    bases = [_x_getattr(base, "_x_cls", base) for base in bases]
    if root is not None:
        bases.append(_x_Error)
    mro = [cls] + _x_merged([list(_x_mros[base]) for base in bases] + [bases])
    _x_mros[cls], _x_owns[cls] = mro, own
    roots = [_x_roots[kind] for kind in mro[1:] if _x_roots.get(kind) is not None]
    # The nearest built-in exception: `except` with its name must catch an instance.
    _x_roots[cls] = root if root is not None else roots[0] if roots else None
    for name, kind in own.items():
        if kind == "static":
            setattr(cls, name, _x_Static(_x_getattr(cls, name)))
        elif kind == "class":
            setattr(cls, name, _x_Of(_x_getattr(cls, name), cls))
    taken = dict(own)
    for base in mro[1:]:
        for name, kind in _x_owns[base].items():
            if name not in taken:
                taken[name] = kind
                value = _x_getattr(base, name)
                setattr(cls, name, _x_Of(value.function, cls) if kind == "class" else value)
    _x_properties[cls] = {name: kind for name, kind in taken.items() if kind in ("property", "cached")}

def _x_fields(cls, hidden, apart):
    for base in _x_mros[cls][1:]:
        hidden += _x_getattr(base, "_x_hidden", ())
        apart += _x_getattr(base, "_x_apart", ())
    cls._x_hidden, cls._x_apart = hidden, apart
    names = list(cls.__dataclass_fields__)
    shown, compared = [one for one in names if one not in hidden], [one for one in names if one not in apart]
    if hidden and "__repr__" not in _x_owns[cls]:
        cls.__repr__ = lambda self: f"{_x_type(self).__name__}(" + ", ".join(
            [f"{name}={_x_getattr(self, name)!r}" for name in shown]) + ")"
    if apart and "__eq__" not in _x_owns[cls]:
        values = lambda one: tuple([_x_getattr(one, name) for name in compared])
        cls.__eq__ = lambda self, other: _x_type(other) is cls and values(self) == values(other)
        cls.__hash__ = lambda self: hash(values(self))

def _x_super(cls, one, of, name):
    mro = _x_mros[_x_getattr(of, "_x_cls", of)]
    cls = _x_getattr(cls, "_x_cls", cls)
    at = [place for place, kind in enumerate(mro) if kind is cls]
    for base in mro[at[0] + 1:]:
        if name in _x_owns[base]:
            kind, value = _x_owns[base][name], _x_getattr(base, name)
            if kind == "static":
                return value
            if kind == "class":
                return lambda *given, **more: value.function(of, *given, **more)
            if kind == "value":
                return value
            if kind in ("property", "cached"):
                return value(one)
            return lambda *given, **more: value(one, *given, **more)
    if name in ("__init__", "__post_init__"):
        return lambda *given, **more: None
    raise AttributeError(f"'super' object has no attribute '{name}'")

def _x_get(one, name):
    kind = _x_properties.get(type(one), {}).get(name)
    if kind is None:
        return _x_getattr(one, name)
    if kind == "property":
        return _x_getattr(one, name)()
    kept = "_x_kept_" + name
    if not hasattr(one, kept):
        setattr(one, kept, _x_getattr(one, name)())
    return _x_getattr(one, kept)

def _x_set(one, name, value):
    if name in _x_properties.get(type(one), {}):
        if not hasattr(one, "_x_set_" + name):
            raise AttributeError(f"property '{name}' of '{type(one).__name__}' object has no setter")
        _x_getattr(one, "_x_set_" + name)(value)
    else:
        setattr(one, name, value)

# A class has copies of the names that it inherits.
def _x_class_set(cls, name, value):
    cls = _x_getattr(cls, "_x_cls", cls)
    setattr(cls, name, value)
    if cls not in _x_mros:
        return
    _x_owns[cls].setdefault(name, "value")
    for heir, mro in _x_mros.items():
        owners = [kind for kind in mro if name in _x_owns[kind]]
        if heir is not cls and owners and owners[0] is cls:
            setattr(heir, name, value)

def _x_in_place(one, name, other):
    if type(one) in _x_mros and hasattr(one, name):
        return _x_getattr(one, name)(other)
    if name == "__iadd__":
        one += other
    elif name == "__isub__":
        one -= other
    elif name == "__imul__":
        one *= other
    elif name == "__itruediv__":
        one /= other
    elif name == "__ior__":
        one |= other
    else:
        one &= other
    return one

def getattr(one, name, *default):
    if name in _x_properties.get(type(one), {}):
        return _x_get(one, name)
    return _x_getattr(one, name, *default)

def isinstance(one, kinds):
    if _x_isinstance(kinds, tuple):
        return any([isinstance(one, kind) for kind in kinds])
    kinds = _x_getattr(kinds, "_x_cls", kinds)
    mro = _x_mros.get(type(one))
    if mro is None:
        return False if kinds in _x_mros else _x_isinstance(one, kinds)
    if kinds in _x_mros:
        return any([kind is kinds for kind in mro])
    root = _x_roots[type(one)]
    if root is not None:
        return _x_isinstance(root(""), kinds)
    if hasattr(one, "_x_mixed"):
        return _x_isinstance(one._x_mixed, kinds)
    return _x_isinstance(one, kinds)

def issubclass(cls, kinds):
    if _x_isinstance(kinds, tuple):
        return any([issubclass(cls, kind) for kind in kinds])
    cls, kinds = _x_getattr(cls, "_x_cls", cls), _x_getattr(kinds, "_x_cls", kinds)
    if cls is kinds:
        return True
    if cls in _x_mros:
        if kinds in _x_mros or _x_roots[cls] is None:
            return any([kind is kinds for kind in _x_mros[cls]])
        return _x_isinstance(_x_roots[cls](""), kinds)
    try:
        return _x_isinstance(cls(), kinds)
    except TypeError:
        return False

# An exception of the program travels in one of the interpreter, which carries its number.
_x_thrown = []

class _x_Error:
    def __init__(self, *given):
        self.args = given

    def __str__(self):
        given = _x_getattr(self, "args", ())
        return "" if not given else str(given[0]) if len(given) == 1 else str(given)

    def __repr__(self):
        given = _x_getattr(self, "args", ())
        return type(self).__name__ + (f"({given[0]!r})" if len(given) == 1 else str(given))

    def with_traceback(self, trace):
        return self

    def add_note(self, note):
        pass

_x_mros[_x_Error] = [_x_Error]
_x_owns[_x_Error] = {name: "plain" for name in ("__init__", "__str__", "__repr__", "with_traceback", "add_note")}
_x_roots[_x_Error] = None

def _x_raised(one):
    if one in _x_roots if type(one) is type(_x_Error) else False:
        one = one()
    if _x_roots.get(type(one)) is None:
        return one
    _x_thrown.append(one)
    said = str(one)
    name = type(one).__name__
    return _x_roots[type(one)](f"\\u2063{len(_x_thrown) - 1}\\u2063{name}" + (f": {said}" if said else ""))

def _x_own(error):
    said = error.args[0] if error.args else None
    if not _x_isinstance(said, str) or said[:1] != "\\u2063":
        return error
    number = said[1:].partition("\\u2063")[0]
    return _x_thrown[int(number)] if number.isdigit() and int(number) < len(_x_thrown) else error

_x_len = len

class _x_Enumeration:
    def __init__(self, cls, pairs, mixed):
        self._x_cls, self.__name__, self._x_members = cls, cls.__name__, []
        self.__members__ = {}
        last = 0
        for name, value in pairs:
            if type(value).__name__ == "_x_Auto":
                value = name.lower() if mixed is str else last + 1
            last = value if _x_isinstance(value, int) else last
            same = [one for one in self._x_members if one.value == value]
            if same:
                member = same[0]
            else:
                member = cls()
                member.name, member.value = name, value
                member._name_, member._value_ = name, value
                if mixed is not None:
                    member._x_mixed = value
                if hasattr(cls, "_x_init"):
                    member._x_init(*(value if _x_isinstance(value, tuple) else (value,)))
                self._x_members.append(member)
            self.__members__[name] = member
            setattr(self, name, member)
            setattr(cls, name, member)
        for kind in reversed(_x_mros[cls]):
            for name, said in _x_owns[kind].items():
                if said in ("static", "class", "value"):
                    value = _x_getattr(cls, name)
                    setattr(self, name, _x_Of(value.function, self) if said == "class" else value)
                elif not name.startswith("__"):
                    setattr(self, name, _x_Static(_x_getattr(cls, name)))

    def __call__(self, value):
        for member in self._x_members:
            if member.value == value or member is value:
                return member
        if hasattr(self, "_missing_"):
            member = self._missing_(value)
            if member is not None:
                return member
        raise ValueError(f"{value!r} is not a valid {self.__name__}")

    def __getitem__(self, name):
        return self.__members__[name]

    def __contains__(self, value):
        return any([member is value or member.value == value for member in self._x_members])

    def __iter__(self):
        return iter(self._x_members)

    def __len__(self):
        return len(self._x_members)

    def __repr__(self):
        return f"<enum '{self.__name__}'>"

class _x_Member:
    def __str__(self):
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

class _x_Mixed:
    def __str__(self):
        return f"{type(self).__name__}.{self.name}"

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

    def __eq__(self, other):
        return self is other or self.value == _x_getattr(other, "_x_mixed", other)

    def __hash__(self):
        return hash(self.value)

    def __lt__(self, other):
        return self.value < _x_getattr(other, "_x_mixed", other)

    def __int__(self):
        return int(self.value)

    def __index__(self):
        return int(self.value)

    def __add__(self, other):
        return self.value + _x_getattr(other, "_x_mixed", other)

    def __radd__(self, other):
        return other + self.value

    def __sub__(self, other):
        return self.value - _x_getattr(other, "_x_mixed", other)

    def __rsub__(self, other):
        return other - self.value

    def __mul__(self, other):
        return self.value * _x_getattr(other, "_x_mixed", other)

    def __rmul__(self, other):
        return other * self.value

    def __neg__(self):
        return -self.value

    def upper(self):
        return self.value.upper()

    def lower(self):
        return self.value.lower()

    def title(self):
        return self.value.title()

    def startswith(self, *given):
        return self.value.startswith(*given)

class _x_Shown:
    def __str__(self):
        return str(self.value)

for _x_kind in (_x_Member, _x_Mixed, _x_Shown):
    _x_mros[_x_kind], _x_roots[_x_kind] = [_x_kind], None
_x_owns[_x_Member] = {"__str__": "plain", "__repr__": "plain"}
_x_owns[_x_Mixed] = {name: "plain" for name in (
    "__str__", "__repr__", "__eq__", "__hash__", "__lt__", "__int__", "__index__", "__add__", "__radd__", "__sub__",
    "__rsub__", "__mul__", "__rmul__", "__neg__", "upper", "lower", "title", "startswith")}
_x_owns[_x_Shown] = {"__str__": "plain"}

_x_json = _json

def _x_bare(value):
    if type(value) in _x_mros:
        return _x_bare(value._x_mixed) if hasattr(value, "_x_mixed") else value
    if _x_isinstance(value, dict):
        return {_x_bare(key): _x_bare(part) for key, part in value.items()}
    if _x_isinstance(value, (list, tuple)):
        return [_x_bare(part) for part in value]
    return value

class _x_Json:
    def __init__(self):
        self.JSONDecodeError, self.loads = _x_json.JSONDecodeError, _x_json.loads

    def dumps(self, value, **more):
        return _x_json.dumps(_x_bare(value), **more)

_json = _x_Json()

from collections import namedtuple as _x_namedtuple

class _x_Tuple:
    def _x_values(self):
        return tuple([_x_getattr(self, name) for name in self._fields])

    def __iter__(self):
        return iter(self._x_values())

    def __getitem__(self, at):
        return self._x_values()[at]

    def __len__(self):
        return _x_len(self._fields)

    def __eq__(self, other):
        return self._x_values() == (other._x_values() if hasattr(other, "_x_values") else other)

    def __lt__(self, other):
        return _x_lt(self._x_values(), other._x_values() if hasattr(other, "_x_values") else other)

    def __hash__(self):
        return hash(self._x_values())

    def __repr__(self):
        said = ", ".join([f"{name}={_x_getattr(self, name)!r}" for name in self._fields])
        return f"{type(self).__name__}({said})"

    def _asdict(self):
        return {name: _x_getattr(self, name) for name in self._fields}

    def _replace(self, **changes):
        return type(self)(**{**self._asdict(), **changes})

_x_mros[_x_Tuple], _x_roots[_x_Tuple] = [_x_Tuple], None
_x_owns[_x_Tuple] = {name: "plain" for name in (
    "_x_values", "__iter__", "__getitem__", "__len__", "__eq__", "__lt__", "__hash__", "__repr__", "_asdict",
    "_replace")}
"""

# The module `enum`, whose classes `classes` rewrites.
ENUM: Final = """
class _x_Auto:
    pass

class _Enum:
    Enum = None
    IntEnum = None
    StrEnum = None
    EnumMeta = None
    EnumType = None
    auto = _x_Auto

    def unique(self, cls):
        return cls

    def member(self, value):
        return value

_added_enum = _Enum()
"""
