"""Modules of the standard library as programs use them: every program here prints what Python prints."""

import asyncio
from typing import Final

import pytest

from aggregator.code.sandbox.bounds import ProgramLimits
from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer, by_python

STRPTIME: Final = (
    *(("2026-11-30 00:00:00,123", "%Y-%m-%d %H:%M:%S,%f"), ("12.5.26 07", "%d.%m.%y %H"), ("Nov 2026", "%b %Y")),
    *(
        ("10:00:00.5", "%H:%M:%S.%f"),
        ("10h 5m", "%Hh %Mm"),
        ("12 am", "%I %p"),
        ("3:05 PM", "%I:%M %p"),
        ("50%", "%y%%"),
    ),
    *(("Mon, 30 Nov 2026 10:00:00 +0100", "%a, %d %b %Y %H:%M:%S %z"), ("+01:30:15", "%z"), ("99", "%y"), ("68", "%y")),
    *(("2026-11-30T10:00:00.25Z", "%Y-%m-%dT%H:%M:%S.%f%z"), ("30/Nov/2026:10:00:00 -0530", "%d/%b/%Y:%H:%M:%S %z")),
    *(("November 3, 2026", "%B %d, %Y"), ("20261130T101112", "%Y%m%dT%H%M%S"), ("(5) [x] 2026.", "(%d) [x] %Y.")),
    *(("2026-W49-1", "%G-W%V-%u"), ("2026-W05-3", "%Y-W%W-%w"), ("2026-05-0", "%Y-%U-%w"), ("2026 00 5", "%Y %W %w")),
    *(("2026 45", "%Y %j"), ("Sat Jan  3 04:05:06 2026", "%c"), ("2026-11-30 10:00 UTC", "%Y-%m-%d %H:%M %Z")),
    *(("x", "%Y"), ("2026-1-01x", "%Y-%m-%d"), ("2026-13-01", "%Y-%m-%d"), ("10:00", "%I:%M"), ("5", ""), ("", "%Y")),
    *(("3 Sept 2026", "%d %B %Y"), ("2026-11-30 10:00 CET", "%Y-%m-%d %H:%M %Z"), ("a  b 2026", "a b %Y")),
)
SPANS: Final = (
    *("days=2, hours=3, minutes=n", "hours=1.5", "0.1", "seconds=0.0000005", "microseconds=1, seconds=0.0000005"),
    *("days=-0.5", "weeks=0.3, milliseconds=1.25", "seconds=1e9 + 0.1", "hours=-1.000001", "0, 5.5", "minutes=int(n)"),
    *("microseconds=2.5", "microseconds=-1.5", "microseconds=0.5", "days=1e-6, hours=1e-6"),
)
PROGRAMS: Final = {
    "strptime": f"""
from datetime import datetime
for text, form in {STRPTIME!r}:
    try:
        found = datetime.strptime(text, form)
        print(found.isoformat(), found.tzinfo, found.date())
    except ValueError as error:
        print("ValueError", error)
""",
    "timedelta": f"""
from datetime import datetime, timedelta
n = 4.5
for span in ({", ".join(f"timedelta({given})" for given in SPANS)}):
    print(span, repr(span), span.total_seconds(), datetime(2026, 1, 1) + span)
""",
    "verbose": r'''
import re
PATTERN = re.compile(r"""
    (?P<key>\w+)  # the key
    \s*=\s*
    (?P<value>"[^"# ]*"|\S+)
""", re.VERBOSE | re.IGNORECASE)
print([found.groupdict() for found in PATTERN.finditer('a = 1 b="x#y"')], re.findall("a b", "ab", flags=re.X))
print(re.split(",", "a,b,c", maxsplit=1), re.sub("A", "x", "aA", flags=re.I), re.search(PATTERN, "q=1").group(2))
print(re.sub(PATTERN, "z", "q=1"), re.match(r"a \d  # one", "a1", re.X)[0], re.sub("a b", "c", "ab", flags=re.X))
''',
    "ordered": """
from collections import OrderedDict
kept = OrderedDict(a=1, b=2, c=3)
kept.move_to_end("a")
print(list(kept))
kept.move_to_end("c", last=False)
print(list(kept), kept.popitem(last=False), kept.popitem(), len(kept))
class Cache:
    def __init__(self, most):
        self.most, self.kept = most, OrderedDict()
    def get(self, key):
        if key in self.kept:
            self.kept.move_to_end(key)
        return self.kept.get(key)
    def put(self, key, value):
        self.kept[key] = value
        while len(self.kept) > self.most:
            self.kept.popitem(False)
cache = Cache(2)
cache.put(1, "a"); cache.put(2, "b"); cache.get(1); cache.put(3, "c")
print(list(cache.kept))
""",
    "difflib": r"""
import difflib
old = "alpha\nbeta\ngamma\ndelta\nfour\nfive\nsix\nseven\neight\n".splitlines(keepends=True)
new = "alpha\nbeta2\ngamma\ndelta\nfour\nfive\nsix\nseven\neight\nnine\n".splitlines(keepends=True)
print("".join(difflib.unified_diff(old, new, fromfile="a", tofile="b", n=1)))
print("".join(difflib.context_diff(old, new, "a", "b", "then", "now")), list(difflib.unified_diff(old, old)))
matcher = difflib.SequenceMatcher(None, "private Thread currentThread;", "private volatile Thread currentThread;")
print(round(matcher.ratio(), 4), matcher.quick_ratio(), matcher.real_quick_ratio())
print(matcher.get_opcodes(), [tuple(block) for block in matcher.get_matching_blocks()])
print(difflib.SequenceMatcher(lambda x: x == " ", " abcd", "abcd abcd").find_longest_match(0, 5, 0, 9))
print(difflib.SequenceMatcher(a="ab" * 150, b="ba" * 150).ratio(), difflib.SequenceMatcher(None, [], []).ratio())
print(difflib.get_close_matches("appel", ["ape", "apple", "peach", "puppy"]), difflib.get_close_matches("x", "y"))
""",
    "zoneinfo": """
from datetime import date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo
berlin, york = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
for month in (1, 3, 7, 10):
    at = datetime(2026, month, 28, 23, 30, tzinfo=berlin)
    print(at, at.strftime("%Z %z"), at.astimezone(york), at.astimezone(timezone.utc), at.tzinfo, at.dst())
    later = at + timedelta(days=1)
    print(later, later - at, later.tzinfo.key, later.timestamp() - at.timestamp(), f"{later:%d.%m. %H:%M %Z}")
    at += timedelta(days=2)
    print(at, at.replace(month=6), at.replace(tzinfo=york), at.replace(tzinfo=None), at < later)
    at -= timedelta(hours=50)
    print(at)
print(datetime.combine(date(2026, 7, 4), time(9), tzinfo=york), datetime.fromtimestamp(1767225600, york))
print(datetime(2026, 10, 25, 2, 30, tzinfo=berlin), datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1))
print(datetime(2026, 3, 29, 2, 30, tzinfo=berlin).astimezone(timezone.utc), datetime.now(york).tzinfo)
print(berlin, repr(berlin), ZoneInfo("UTC"), berlin.utcoffset(datetime(2026, 7, 1)), berlin.tzname(at))
try:
    ZoneInfo("Mars/Olympus")
except Exception as error:
    print(error)
print(datetime.strptime("2026-12-24 18:00", "%Y-%m-%d %H:%M").replace(tzinfo=berlin).astimezone(ZoneInfo("Asia/Tokyo")))
day = datetime(2026, 3, 27, 9, tzinfo=berlin)
while day < datetime(2026, 3, 31, tzinfo=berlin):
    print(day.isoformat())
    day += timedelta(days=1)
kept = one = [1]
one += [2]
print(kept, "a" + "b", one + [3])
""",
    "zoneinfo without an import": """
import datetime as dt
zone = zoneinfo.ZoneInfo("America/Los_Angeles")
class Meeting:
    def __init__(self, at):
        self.at = at
    def shift(self, hours):
        self.at += dt.timedelta(hours=hours)
        return self
    @property
    def local(self):
        return self.at.astimezone(zone)
meeting = Meeting(dt.datetime(2026, 3, 7, 12, tzinfo=zone))
print(meeting.shift(24).at, meeting.local, meeting.at.tzinfo, "Europe/Berlin" in zoneinfo.available_timezones())
""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_prints_what_python_prints(sandbox: Sandbox, name: str) -> None:
    # Python has no import of what a program uses without one.
    wanted = await asyncio.to_thread(by_python, ("import zoneinfo\n" if "without" in name else "") + PROGRAMS[name])
    assert (await sandbox.run(PROGRAMS[name], answer, LIMITS, "agent")).text.rstrip("\n") == wanted


async def test_a_time_of_two_zones_is_not_guessed(sandbox: Sandbox) -> None:
    """A time keeps its offset and the name of it: if two zones have both, and differ later, the program ends."""
    code = (
        "from datetime import datetime, timedelta\nfrom zoneinfo import ZoneInfo\n"
        "def at(zone): return datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))\n"
        "print(at('Europe/Berlin') + timedelta(days=200), at('Europe/Paris') + timedelta(days=200))\n"
        "print(at('Africa/Algiers').tzname())\nat('Europe/Berlin') + timedelta(days=200)"
    )
    text = (await sandbox.run(code, answer, LIMITS, "agent")).text
    assert text.startswith("2026-07-20 00:00:00+02:00 2026-07-20 00:00:00+02:00\nCET\n")
    assert "ValueError: this time may be of Europe/Berlin and Europe/Paris and Africa/Algiers" in text


async def test_zones_cost_no_call(sandbox: Sandbox) -> None:
    none = ProgramLimits(calls=0, seconds=5.0, memory=64 * 2**20)
    code = (
        "import pytz\nfrom datetime import datetime\nprint(pytz.timezone('Asia/Tokyo').localize(datetime(2026, 1, 1)))"
    )
    assert (await sandbox.run(code, answer, none, "agent")).text == "2026-01-01 00:00:00+09:00"


@pytest.mark.parametrize("key", ["../zone1970.tab", "/etc/passwd", "zone.tab", "", "Europe", "x" * 10_000, "a\0b"])
async def test_a_zone_is_no_file(sandbox: Sandbox, key: str) -> None:
    code = f"from zoneinfo import ZoneInfo\ntry:\n    print(ZoneInfo({key!r}).key)\nexcept Exception:\n    print('no')"
    assert (await sandbox.run(code, answer, LIMITS, "agent")).text == "no"
