"""What the interpreter's `datetime` lacks: `strptime` with every directive and error, and parts of a `timedelta`."""

from typing import Final

# As `_strptime` and `_datetimemodule.c` of CPython compute them.
TIMES: Final = r"""
import re as _x_times_re

_x_months = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
             "november", "december")
_x_weekdays = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_x_directives = {
    "a": "|".join([one[:3] for one in _x_weekdays]), "A": "|".join(_x_weekdays),
    "b": "|".join([one[:3] for one in _x_months]), "B": "|".join(_x_months),
    "d": "3[0-1]|[1-2][0-9]|0[1-9]|[1-9]| [1-9]", "f": "[0-9]{1,6}", "H": "2[0-3]|[0-1][0-9]|[0-9]",
    "I": "1[0-2]|0[1-9]|[1-9]", "G": "[0-9]{4}",
    "j": "36[0-6]|3[0-5][0-9]|[1-2][0-9][0-9]|0[1-9][0-9]|00[1-9]|[1-9][0-9]|0[1-9]|[1-9]",
    "m": "1[0-2]|0[1-9]|[1-9]", "M": "[0-5][0-9]|[0-9]", "p": "am|pm", "S": "6[0-1]|[0-5][0-9]|[0-9]",
    "U": "5[0-3]|[0-4][0-9]|[0-9]", "W": "5[0-3]|[0-4][0-9]|[0-9]", "w": "[0-6]", "u": "[1-7]",
    "V": "5[0-3]|0[1-9]|[1-4][0-9]|[0-9]", "y": "[0-9]{2}", "Y": "[0-9]{4}",
    "z": "[+-][0-9]{2}:?[0-5][0-9](?::?[0-5][0-9](?:\\.[0-9]{1,6})?)?|Z", "Z": "utc|gmt",
}
_x_formats = {}

def _x_format_of(form):
    if form not in _x_formats:
        made, at = "", 0
        whole = form.replace("%c", "%a %b %d %H:%M:%S %Y").replace("%x", "%m/%d/%y").replace("%X", "%H:%M:%S")
        while at < len(whole):
            sign = whole[at]
            if sign == "%":
                at += 1
                kind = whole[at:at + 1]
                if kind == "%":
                    made += "%"
                elif kind in _x_directives:
                    made += f"(?P<{kind}>{_x_directives[kind]})"
                elif kind:
                    raise ValueError(f"'{kind}' is a bad directive in format '{form}'")
                else:
                    raise ValueError(f"stray % in format '{form}'")
            elif not sign.isspace():
                made += _x_times_re.escape(sign)
            elif not made.endswith("\\s+"):
                made += "\\s+"
            at += 1
        _x_formats[form] = _x_times_re.compile("(?:" + made + ")", _x_times_re.IGNORECASE)
    return _x_formats[form]

def _x_offset(said):
    if said in ("Z", "z"):
        return _x_datetime.timezone.utc
    digits = said[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6] or 0)
    parts = int((digits[7:] + "000000")[:6])
    far = _x_datetime.timedelta(seconds=seconds, microseconds=parts)
    return _x_datetime.timezone(-far if said[0] == "-" else far)

def _x_day_in_week(year, week, weekday, sunday):
    first = _x_datetime.date(year, 1, 1).weekday()
    if sunday:
        first, weekday = (first + 1) % 7, (weekday + 1) % 7
    ahead = (7 - first) % 7
    days = weekday - first if week == 0 else ahead + 7 * (week - 1) + weekday
    return _x_datetime.date(year, 1, 1) + _x_datetime.timedelta(days=days)

def _x_day_said(got):
    year = int(got["Y"]) if "Y" in got else None
    if "y" in got:
        year = int(got["y"]) + (2000 if int(got["y"]) <= 68 else 1900)
    month, day, weekday = 1, int(got.get("d", 1)), None
    if "m" in got:
        month = int(got["m"])
    elif "B" in got:
        month = _x_months.index(got["B"].lower()) + 1
    elif "b" in got:
        month = [one[:3] for one in _x_months].index(got["b"].lower()) + 1
    if "a" in got:
        weekday = [one[:3] for one in _x_weekdays].index(got["a"].lower())
    if "A" in got:
        weekday = _x_weekdays.index(got["A"].lower())
    if "w" in got:
        weekday = (int(got["w"]) + 6) % 7
    if "u" in got:
        weekday = int(got["u"]) - 1
    if "G" in got:
        if "V" not in got or weekday is None:
            raise ValueError("ISO year directive '%G' must be used with the ISO week directive '%V' and a weekday "
                             "directive ('%A', '%a', '%w', or '%u').")
        return _x_method_fromisocalendar(_x_datetime.date, int(got["G"]), int(got["V"]), weekday + 1)
    if "V" in got:
        raise ValueError("ISO week directive '%V' must be used with the ISO year directive '%G' and a weekday "
                         "directive ('%A', '%a', '%w', or '%u').")
    if "j" in got and year is not None:
        return _x_datetime.date(year, 1, 1) + _x_datetime.timedelta(days=int(got["j"]) - 1)
    if ("U" in got or "W" in got) and weekday is not None and year is not None:
        return _x_day_in_week(year, int(got["U"] if "U" in got else got["W"]), weekday, "U" in got)
    if year is None and (month, day) == (2, 29):
        raise ValueError("day is out of range for month")
    return _x_datetime.date(1900 if year is None else year, month, day)

def _x_method_strptime(kind, text, form):
    if kind is not _x_datetime.datetime:
        return kind.strptime(text, form)
    found = _x_format_of(form).match(text)
    if found is None:
        raise ValueError(f"time data {text!r} does not match format {form!r}")
    if found.end() != len(text):
        raise ValueError(f"unconverted data remains: {text[found.end():]}")
    got = found.groupdict()
    day = _x_day_said(got)
    hour = int(got.get("H", 0))
    if "I" in got:
        hour = int(got["I"]) % 12 + (12 if got.get("p", "am").lower() == "pm" else 0)
    parts = int((got.get("f", "") + "000000")[:6])
    zone = _x_offset(got["z"]) if "z" in got else None
    return kind(day.year, day.month, day.day, hour, int(got.get("M", 0)), int(got.get("S", 0)), parts, tzinfo=zone)

_x_spans = (("microseconds", 1), ("milliseconds", 1_000), ("seconds", 1_000_000), ("minutes", 60_000_000),
            ("hours", 3_600_000_000), ("days", 86_400_000_000), ("weeks", 604_800_000_000))

def _x_span(kind, *given, **more):
    names = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
    if kind is not _x_datetime.timedelta or len(given) > len(names):
        return kind(*given, **more)
    said = {**dict(zip(names, given)), **more}
    if not any([isinstance(one, float) for one in said.values()]) or any([one not in names for one in said]):
        return kind(**said)
    whole, left = 0, 0.0
    for name, factor in _x_spans:
        value = said.get(name, 0)
        if isinstance(value, float):
            whole += int(value) * factor
            parts = (value - int(value)) * factor
            whole += int(parts)
            left += parts - int(parts)
        else:
            whole += value * factor
    nearest = round(left)
    if abs(left - nearest) == 0.5:
        nearest = 2 * round((left + whole % 2) * 0.5) - whole % 2
    whole += nearest
    seconds = whole // 1_000_000
    return kind(days=seconds // 86_400, seconds=seconds % 86_400, microseconds=whole % 1_000_000)
"""
