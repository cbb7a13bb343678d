"""The part of the prelude for methods of built-in types that the interpreter lacks (`methods`)."""

from typing import Final

METHODS: Final = """
import datetime as _x_datetime
import re as _x_re
from collections import deque as _x_deque, namedtuple as _x_named_tuple
from pathlib import Path as _x_Path

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
    fields = list(getattr(one, "__dataclass_fields__", {}) or getattr(one, "_said", ()))
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

def _x_method_groups(found, default=None):
    if not isinstance(found, _x_re.Match):
        return found.groups(default)
    return tuple([default if one is None else one for one in found.groups()])

def _x_method_groupdict(found, default=None):
    if not isinstance(found, _x_re.Match):
        return found.groupdict(default)
    return {name: default if one is None else one for name, one in found.groupdict().items()}

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

def _x_method_is_relative_to(one, other):
    if not hasattr(one, "parts"):
        return one.is_relative_to(other)
    start = type(one)(other).parts
    return one.parts[:len(start)] == start

def _x_method_relative_to(one, other):
    if not hasattr(one, "parts"):
        return one.relative_to(other)
    if not _x_method_is_relative_to(one, other):
        raise ValueError(f"{str(one)!r} is not in the subpath of {str(other)!r}")
    return type(one)(*one.parts[len(type(one)(other).parts):])

def _x_parents(one):
    if not isinstance(one, _x_Path):
        return one.parents
    found = [one.parent]
    while found[-1] != found[-1].parent:
        found.append(found[-1].parent)
    return tuple([] if found[0] == one else found)

# The methods that values have in Python, so that `result.title` of a dict is an error.
_x_methods_of = (
    (str, "count index endswith format isdigit join lower replace rstrip split startswith strip title upper"),
    (bytes, "count endswith index join lower replace rstrip split startswith strip title upper"),
    (dict, "get pop setdefault update"),
    (list, "append count extend index pop"),
    (tuple, "count index"),
    (set, "add pop update"),
    (_x_deque, "append appendleft count extend index pop popleft"),
    (_x_re.Pattern, "findall fullmatch match search"),
)

def _x_bound(one, name, method):
    if hasattr(one, name):
        return getattr(one, name)
    found = name[:2] == "__" or repr(one)[:6] == "<class"
    for kind, names in _x_methods_of:
        found = found or isinstance(one, kind) and name in names.split()
    if not found:
        return one.__getattr__(name) if hasattr(one, "__getattr__") else getattr(one, name)
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
