"""Modules of the standard library as programs use them: every program here prints what Python prints."""

import asyncio
from typing import Final

import pytest

from aggregator.code.sandbox.sandbox import Sandbox
from tests.code.test_forms import LIMITS, answer, by_python

STRPTIME: Final = (
    *(("2026-11-30 00:00:00,123", "%Y-%m-%d %H:%M:%S,%f"), ("12.5.26 07", "%d.%m.%y %H"), ("Nov 2026", "%b %Y")),
    *(
        ("10:00:00.5", "%H:%M:%S.%f"),
        ("10h 5m", "%Hh %Mm"),
        ("12 am", "%I %p"),
        ("3:05 PM", "%I:%M %p"),
        ("50%", "%d%%"),
    ),
    *(("Mon, 30 Nov 2026 10:00:00 +0100", "%a, %d %b %Y %H:%M:%S %z"), ("+01:30:15", "%z"), ("99", "%y"), ("68", "%y")),
    *(("2026-11-30T10:00:00.25Z", "%Y-%m-%dT%H:%M:%S.%f%z"), ("30/Nov/2026:10:00:00 -0530", "%d/%b/%Y:%H:%M:%S %z")),
    *(("November 3, 2026", "%B %d, %Y"), ("20261130T101112", "%Y%m%dT%H%M%S"), ("(5) [x] 2026.", "(%d) [x] %Y.")),
    *(("2026-W49-1", "%G-W%V-%u"), ("2026-W05-3", "%Y-W%W-%w"), ("2026-05-0", "%Y-%U-%w"), ("2026 00 5", "%Y %W %w")),
    *(("2026 45", "%Y %j"), ("Sat Jan  3 04:05:06 2026", "%c"), ("2026-11-30 10:00 UTC", "%Y-%m-%d %H:%M %Z")),
    *(("x", "%Y"), ("2026-1-01x", "%Y-%m-%d"), ("2026-13-01", "%Y-%m-%d"), ("10:00", "%I:%M"), ("5", ""), ("", "%d")),
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
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_prints_what_python_prints(sandbox: Sandbox, name: str) -> None:
    wanted = await asyncio.to_thread(by_python, PROGRAMS[name])
    assert (await sandbox.run(PROGRAMS[name], answer, LIMITS, "agent")).text.rstrip("\n") == wanted
