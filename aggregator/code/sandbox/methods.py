"""Methods of built-in types that the interpreter lacks: `x.isocalendar()` becomes a function of the prelude."""

import ast
import re
from typing import Final

from aggregator.code.sandbox.syntax import assign, call, key_of, last_name, name

_METHODS: Final = (
    *("isocalendar", "toordinal", "utcnow", "fromtimestamp", "utcfromtimestamp", "fromisocalendar", "fromordinal"),
    *("translate", "maketrans", "format_map", "is_integer", "to_bytes", "from_bytes", "bit_length"),
    *("move_to_end", "popitem", "strptime", "timetuple"),
)
# Methods of types themselves.
_OF_TYPES: Final = frozenset({"fromkeys", "maketrans", "fromhex", "from_bytes", "from_iterable", "__name__"})
_TYPES: Final = frozenset({"str", "list", "dict", "set", "bytes", "int", "float"})
# What a JSONDecodeError knows of its fault.
_ERROR_PARTS: Final = frozenset({"msg", "pos", "lineno", "colno"})
# Methods of a match that take the name of a group.
_PLACES: Final = frozenset({"span", "start", "end"})
# Methods of values that programs pass on: `found = names.append`.
_VALUES: Final = frozenset(
    {
        "append",
        "count",
        "extend",
        "get",
        "index",
        "appendleft",
        "popleft",
        "setdefault",
        "startswith",
        "endswith",
        "strip",
        "upper",
        "lower",
        "join",
    }
)
LACKING_METHODS: Final = (
    rf"\bbytes\(|\bobject\(\)|\.(?:{'|'.join(sorted(_ERROR_PARTS))})\b|"
    rf"\.(?:{'|'.join(sorted(_PLACES))})\([ \t]*[\w\"']|"
    rf"\.(?:{'|'.join(sorted(_VALUES))})\b(?!\s*\()|"
    rf"\.(?:{'|'.join(_METHODS)})\(|\.today\(|\bcallable\(|\btimedelta\(|\bround\(|\bdel\b|\bvars\(|\.__dict__\b|\.lastgroup\b|\bsys\.std(?:out|err)\.|\.subn?\(|\.__name__\b|\bsys\.exit\b|\bSystemExit\b"
    rf"|(?<![\w.])(?:{'|'.join(sorted(_TYPES))})\.(?!(?:{'|'.join(sorted(_OF_TYPES))})\b)[a-z]"
)

METHODS: Final = """
import datetime as _x_datetime
import re as _x_re
from collections import namedtuple as _x_named_tuple

_x_IsoCalendarDate = _x_named_tuple("IsoCalendarDate", ["year", "week", "weekday"])
_x_epoch = _x_datetime.date(1970, 1, 1)

def _x_day_of(one):
    return _x_datetime.date(one.year, one.month, one.day)

def _x_method_toordinal(one):
    if not isinstance(one, _x_datetime.date):
        return one.toordinal()
    return (_x_day_of(one) - _x_epoch).days + 719163

def _x_method_fromordinal(kind, number):
    if kind is not _x_datetime.date and kind is not _x_datetime.datetime:
        return kind.fromordinal(number)
    day = _x_epoch + _x_datetime.timedelta(days=number - 719163)
    return day if kind is _x_datetime.date else _x_datetime.datetime(day.year, day.month, day.day)

def _x_first_week(year):
    fourth = _x_datetime.date(year, 1, 4)
    return fourth - _x_datetime.timedelta(days=fourth.weekday())

def _x_method_isocalendar(one):
    if not isinstance(one, _x_datetime.date):
        return one.isocalendar()
    day = _x_day_of(one)
    thursday = day + _x_datetime.timedelta(days=3 - day.weekday())
    week = (day - _x_first_week(thursday.year)).days // 7 + 1
    return _x_IsoCalendarDate(thursday.year, week, day.weekday() + 1)

def _x_method_fromisocalendar(kind, year, week, day):
    if kind is not _x_datetime.date and kind is not _x_datetime.datetime:
        return kind.fromisocalendar(year, week, day)
    last = _x_method_isocalendar(_x_datetime.date(year, 12, 28))[1]
    if not 1 <= week <= last:
        raise ValueError(f"Invalid week: {week}")
    if not 1 <= day <= 7:
        raise ValueError(f"Invalid weekday: {day} (range is [1, 7])")
    found = _x_first_week(year) + _x_datetime.timedelta(days=7 * (week - 1) + day - 1)
    return found if kind is _x_datetime.date else _x_datetime.datetime(found.year, found.month, found.day)

def _x_method_today(kind):
    return _x_datetime.datetime.now() if kind is _x_datetime.datetime else kind.today()

def _x_method_utcnow(kind):
    if kind is not _x_datetime.datetime:
        return kind.utcnow()
    return kind.now(_x_datetime.timezone.utc).replace(tzinfo=None)

def _x_method_fromtimestamp(kind, seconds, tz=None):
    if kind is not _x_datetime.date and kind is not _x_datetime.datetime:
        return kind.fromtimestamp(seconds, tz)
    start = _x_datetime.datetime(1970, 1, 1, tzinfo=_x_datetime.timezone.utc)
    found = start + _x_datetime.timedelta(seconds=seconds)
    if kind is _x_datetime.date:
        return found.date()
    return found.replace(tzinfo=None) if tz is None else found.astimezone(tz)

def _x_method_utcfromtimestamp(kind, seconds):
    if kind is not _x_datetime.datetime:
        return kind.utcfromtimestamp(seconds)
    return _x_method_fromtimestamp(kind, seconds)

def _x_method_maketrans(kind, *given):
    if kind is not str:
        return kind.maketrans(*given)
    if len(given) == 1:
        return {ord(key) if isinstance(key, str) else key: value for key, value in given[0].items()}
    if len(given[0]) != len(given[1]):
        raise ValueError("the first two maketrans arguments must have equal length")
    table = {ord(one): ord(other) for one, other in zip(given[0], given[1])}
    return {**table, **{ord(one): None for one in (given[2] if len(given) == 3 else "")}}

def _x_method_translate(one, *given):
    if not isinstance(one, str):
        return one.translate(*given)
    made = []
    for sign in one:
        new = given[0].get(ord(sign), sign)
        made.append("" if new is None else chr(new) if isinstance(new, int) else new)
    return "".join(made)

def _x_method_move_to_end(one, key, last=True):
    if not isinstance(one, dict):
        return one.move_to_end(key, last=last)
    items = list(one.items())
    moved = (key, one[key])
    rest = [item for item in items if item[0] != key]
    one.clear()
    one.update(rest + [moved] if last else [moved] + rest)

def _x_method_popitem(one, *given, **more):
    if not isinstance(one, dict):
        return one.popitem(*given, **more)
    if more.get("last", given[0] if given else True) or not one:
        return one.popitem()
    key = list(one)[0]
    return key, one.pop(key)

def _x_method_format_map(one, values):
    if not isinstance(one, str):
        return one.format_map(values)
    names = _x_re.findall(r"\\{([^{}!:.\\[]+)", one.replace("{{", ""))
    return one.format(**{name: values[name] for name in names})

def _x_method_is_integer(one):
    if isinstance(one, float):
        return one == one and one not in (float("inf"), float("-inf")) and one == int(one)
    return True if isinstance(one, int) else one.is_integer()

def _x_method_bit_length(one):
    return (len(bin(abs(one))) - 2 if one else 0) if isinstance(one, int) else one.bit_length()

def _x_method_to_bytes(one, length=1, byteorder="big", signed=False):
    if not isinstance(one, int):
        return one.to_bytes(length, byteorder, signed=signed)
    if one < 0 and not signed:
        raise OverflowError("can't convert negative int to unsigned")
    least, most = (-(1 << 8 * length - 1), 1 << 8 * length - 1) if signed and length else (0, 1 << 8 * length)
    if not least <= one < most:
        raise OverflowError("int too big to convert")
    digits = "%0*x" % (2 * length, one % (1 << 8 * length)) if length else ""
    if byteorder == "little":
        digits = "".join([digits[at:at + 2] for at in range(len(digits) - 2, -1, -2)])
    return bytes.fromhex(digits)

def _x_method_from_bytes(kind, given, byteorder="big", signed=False):
    if kind is not int:
        return kind.from_bytes(given, byteorder, signed=signed)
    given = list(given)
    value = 0
    for byte in given if byteorder == "big" else reversed(given):
        value = value * 256 + byte
    return value - (1 << 8 * len(given)) if signed and given and value >= 1 << 8 * len(given) - 1 else value

def _x_name_of(one):
    for wrapper, function in _x_wrapped:
        if wrapper is one:
            return function if isinstance(function, str) else _x_name_of(function)
    said = repr(one)
    if said[:6] == "<class" and not hasattr(one, "__name__"):
        return said.replace("'", ".").split(".")[-2]
    if type(one).__name__ != "function":
        return one.__name__
    return said[said.index("'") + 1:said.rindex("'")] if "'" in said else "<lambda>"

def _x_dict_of(one, names):
    fields = list(getattr(one, "__dataclass_fields__", {}))
    said = {}
    for name in fields + list(names):
        if name not in said and hasattr(one, name):
            value = getattr(one, name)
            if name in fields or not hasattr(type(one), name) or getattr(type(one), name) is not value:
                said[name] = value
    return said

class _x_Object:
    pass

def _x_bytes(given):
    if isinstance(given, (int, bytes, str)):
        return bytes(given)
    values = list(given)
    if not all([0 <= one < 256 for one in values]):
        raise ValueError("bytes must be in range(0, 256)")
    return bytes.fromhex("".join(["%02x" % one for one in values]))

def _x_error_part(one, name):
    message, mark, place = str(one).rpartition(": line ")
    if not mark or type(one).__name__ != "JSONDecodeError":
        return getattr(one, name)
    line, column, at = place.replace("column ", "").replace("(char ", "").rstrip(")").split()
    return message if name == "msg" else int(line if name == "lineno" else column if name == "colno" else at)

def _x_place(found, said, group):
    if isinstance(group, str):
        names = list(found.groupdict())
        if group not in names or len(names) != len(found.groups()):
            raise IndexError(f"no such group, or others without a name: give the number of {group!r}")
        group = names.index(group) + 1
    span = found.span(group)
    return span if said == "span" else span[1 if said == "end" else 0]

def _x_del(one, key):
    if isinstance(one, (dict, list)) and not isinstance(key, slice):
        one.pop(key)
    elif isinstance(one, list):
        gone = set(range(len(one))[key])
        one[:] = [value for at, value in enumerate(one) if at not in gone]
    elif hasattr(one, "__delitem__"):
        one.__delitem__(key)
    else:
        one.pop(key)

def _x_round(number, digits=None):
    if isinstance(number, float) and isinstance(digits, int) and 0 <= digits < 20 and abs(number) < 1e15:
        return float(f"{number:.{digits}f}")
    return round(number) if digits is None else round(number, digits)

def _x_named(one, name):
    if type(one).__name__ == "function":
        _x_wrapped.insert(0, (one, name))
    else:
        one.__name__ = name

def _x_last_group(found):
    names = [name for name, value in found.groupdict().items() if value is not None]
    return names[-1] if names else None

_x_StructTime = _x_named_tuple("struct_time", ["tm_year", "tm_mon", "tm_mday", "tm_hour", "tm_min", "tm_sec", "tm_wday",
                                               "tm_yday", "tm_isdst"])

def _x_method_timetuple(one):
    if not isinstance(one, _x_datetime.date):
        return one.timetuple()
    clock = (one.hour, one.minute, one.second) if isinstance(one, _x_datetime.datetime) else (0, 0, 0)
    past = (_x_day_of(one) - _x_datetime.date(one.year, 1, 1)).days + 1
    return _x_StructTime(one.year, one.month, one.day, *clock, one.weekday(), past, -1)

def _x_bound(one, name, method):
    if hasattr(one, name):
        return getattr(one, name)
    return lambda *given, **more: method(one, *given, **more)

def _x_exit(code=None):
    raise SystemExit("0" if code is None else str(code))

def callable(one):
    return type(one).__name__ in (
        "function", "builtin_function_or_method", "type", "method", "builtin_method", "partial",
    ) or hasattr(one, "__call__")
"""
# A compiled pattern that replaces by the result of a function.
SUB: Final = """
def _x_method_sub(one, made, *given, **more):
    if isinstance(made, str) or not isinstance(one, _re.Pattern):
        return one.sub(made, *given, **more)
    return _re_sub(one, made, *given, **more)[0]

def _x_method_subn(one, made, *given, **more):
    if not isinstance(one, _re.Pattern):
        return one.subn(made, *given, **more)
    text = more.get("string", given[0] if given else "")
    count = more.get("count", given[1] if len(given) > 1 else 0)
    if not isinstance(made, str):
        return _re_sub(one, made, text, count)
    found = len(one.findall(text))
    return one.sub(made, text, count=count), min(found, count) if count else found
"""


class MethodForms(ast.NodeTransformer):
    """Rewrites the calls of such methods; `changed`, `subs` and `times` tell what of the prelude a program needs."""

    def __init__(self, own: frozenset[str], managers: bool, attributes: tuple[str, ...]) -> None:
        # The methods that the program defines itself.
        self._own = own
        # Whether it has asynchronous context managers other than semaphores.
        self._managers = managers
        # The names that attributes of instances may have.
        self._attributes = attributes
        self._count = 0
        # The attributes that are called where they stand.
        self._called: set[int] = set()
        self.changed = False
        self.subs = False
        self.times = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self._called.add(id(node.func))
        self.generic_visit(node)
        of = node.func
        if isinstance(of, ast.Attribute) and of.attr in ("write", "flush") and _is_stream(of.value):
            self.changed = True
            return ast.Call(name("print"), node.args, [ast.keyword("end", ast.Constant(""))])
        if isinstance(of, ast.Attribute) and of.attr == "exit" and last_name(of.value) == "sys":
            self.changed = True
            return ast.Call(name("_x_exit"), node.args, node.keywords)
        if last_name(of) == "timedelta" and _may_have_parts(node):
            self.changed = self.times = True
            return ast.Call(name("_x_span"), [of, *node.args], node.keywords)
        if isinstance(of, ast.Name) and of.id in ("round", "vars") and len(node.args) == 1 + (of.id == "round"):
            self.changed = True
            return call("_x_round", *node.args) if of.id == "round" else self._dict_of(node.args[0])
        if isinstance(of, ast.Name):
            self.changed |= of.id == "callable"
            if of.id == "object" and not node.args and "object" not in self._own:
                self.changed = True
                return call("_x_Object")
            if of.id == "bytes" and len(node.args) == 1 and not node.keywords and "bytes" not in self._own:
                self.changed = True
                return call("_x_bytes", *node.args)
        elif isinstance(of, ast.Attribute) and of.attr not in self._own:
            by_module = isinstance(of.value, ast.Name) and of.value.id in ("re", "time", "_re")
            if of.attr in ("sub", "subn") and not by_module and node.args and self._may_be_function(node.args[0]):
                self.changed = self.subs = True
                return ast.Call(name(f"_x_method_{of.attr}"), [of.value, *node.args], node.keywords)
            if of.attr in _PLACES and len(node.args) == 1 and _may_be_text(node.args[0]):
                self.changed = True
                return call("_x_place", of.value, ast.Constant(of.attr), *node.args)
            if of.attr in _METHODS or (of.attr == "today" and _is_datetime(of.value)):
                self.changed = True
                self.times |= of.attr == "strptime"
                return ast.Call(name(f"_x_method_{of.attr}"), [of.value, *node.args], node.keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        of = node.value
        if node.attr == "lastgroup":
            self.changed = True
            return call("_x_last_group", of)
        if node.attr == "__dict__":
            return self._dict_of(of)
        if node.attr in _ERROR_PARTS and "__getattr__" not in self._own and id(node) not in self._called:
            self.changed = True
            return call("_x_error_part", of, ast.Constant(node.attr))
        if node.attr == "__name__":
            self.changed = True
            return call("_x_name_of", of)
        if isinstance(of, ast.Name) and of.id in _TYPES and node.attr not in _OF_TYPES:
            self.changed = True
            return name(f"_x_method_{node.attr}") if node.attr in _METHODS else _method(node.attr)
        if node.attr in _VALUES and id(node) not in self._called:
            self.changed = True
            return call("_x_bound", of, ast.Constant(node.attr), _method(node.attr))
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        target = node.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "__name__":
            self.changed = True
            return ast.Expr(call("_x_named", target.value, node.value))
        return node

    def _dict_of(self, node: ast.expr) -> ast.Call:
        self.changed = True
        names: list[ast.expr] = [ast.Constant(one) for one in self._attributes]
        return call("_x_dict_of", node, ast.Tuple(names, ast.Load()))

    def visit_Delete(self, node: ast.Delete) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if any(isinstance(target, ast.Attribute) for target in node.targets):
            return node
        self.changed = True
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                made.append(ast.Expr(call("_x_del", target.value, key_of(target.slice))))
            else:
                made += [assign(one.id, ast.Constant(None)) for one in ast.walk(target) if isinstance(one, ast.Name)]
        return [ast.copy_location(one, node) for one in made]

    def visit_AsyncWith(self, node: ast.AsyncWith) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if self._limits_only(node):
            return node
        self.changed = True
        statements = node.body
        for item in reversed(node.items):
            self._count += 1
            manager, well, error = (f"_x_{said}{self._count}" for said in ("manager", "well", "error"))
            value = f"await {manager}.__aenter__()"
            entered = ast.parse(
                f"{well} = True\n_x_entered = {value}" if item.optional_vars else f"{well} = True\n{value}"
            )
            if item.optional_vars is not None and isinstance(entered.body[1], ast.Assign):
                entered.body[1].targets = [item.optional_vars]
            tried = ast.parse(
                f"try:\n    try:\n        pass\n    except BaseException as {error}:\n        {well} = False\n"
                f"        if not await {manager}.__aexit__(type({error}), {error}, None):\n            raise\n"
                f"finally:\n    if {well}:\n        await {manager}.__aexit__(None, None, None)"
            ).body[0]
            assert isinstance(tried, ast.Try)
            assert isinstance(tried.body[0], ast.Try)
            tried.body[0].body = statements
            statements = [assign(manager, item.context_expr), *entered.body, tried]
        return [ast.copy_location(one, node) for one in statements]

    def _limits_only(self, node: ast.AsyncWith) -> bool:
        """Return whether a block only limits how many calls run at once, which `rewriting` knows by its name."""
        return (
            all(isinstance(item.context_expr, ast.Name | ast.Attribute) for item in node.items) and not self._managers
        )

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        self.generic_visit(node)
        raised = node.exc
        if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name) and raised.func.id == "SystemExit":
            self.changed = True
            return ast.Expr(ast.Call(name("_x_exit"), raised.args, raised.keywords))
        return node

    def _may_be_function(self, node: ast.expr) -> bool:
        return not isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)


def _may_be_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _method(said: str) -> ast.Lambda:
    """Return a function that calls a method of its first argument."""
    given = ast.arguments([], [ast.arg("_v")], ast.arg("_given"), [], [], ast.arg("_more"), [])
    spread: list[ast.expr] = [ast.Starred(name("_given"), ast.Load())]
    of = ast.Attribute(name("_v"), said, ast.Load())
    return ast.Lambda(given, ast.Call(of, spread, [ast.keyword(None, name("_more"))]))


def attributes_of(tree: ast.Module) -> tuple[str, ...]:
    """Return the names that attributes of instances may have, as they stand first in a program."""
    made: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            made[node.attr] = None
        elif isinstance(node, ast.Call) and last_name(node) == "SimpleNamespace":
            made |= dict.fromkeys(option.arg for option in node.keywords if option.arg)
    return tuple(made)


def _is_stream(node: ast.expr) -> bool:
    """Return whether an expression is `sys.stdout` or `sys.stderr`."""
    return isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr") and last_name(node.value) == "sys"


def _may_have_parts(node: ast.Call) -> bool:
    """Return whether an argument of a `timedelta` may be a float, which the interpreter does not take."""
    return not all(
        isinstance(one, ast.Constant) and isinstance(one.value, int)
        for one in (*node.args, *(option.value for option in node.keywords))
    )


def _is_datetime(node: ast.expr) -> bool:
    return re.search(r"\bdatetime$", ast.unparse(node)) is not None
