"""The modules `zoneinfo` and `pytz` for programs (`module_sources`), over tables that `zones` gives."""

from typing import Final

# A time in a zone has a fixed offset. Which zone it is in tells a register of the offsets and their names.
ZONEINFO: Final = """
import datetime as _x_zone_times
import json as _x_zone_json
from bisect import bisect_right as _x_zone_bisect

_x_zone_epoch = _x_zone_times.datetime(1970, 1, 1)
_x_zone_utc = _x_zone_times.timezone.utc
_x_zone_tables, _x_zone_register = {}, {}

def _x_zone_seconds(one):
    past = _x_zone_times.datetime(one.year, one.month, one.day, one.hour, one.minute, one.second) - _x_zone_epoch
    return past.days * 86400 + past.seconds

class _ZoneInfo:
    def __init__(self, key):
        if key not in _x_zone_tables:
            said = _zone_now(key) if key else None
            if said is None:
                raise KeyError(f"No time zone found with key {key}")
            _x_zone_tables[key] = _x_zone_json.loads(said)
        self.key = self.zone = key
        self._table = _x_zone_tables[key]

    def _at(self, seconds):
        return self._table["of"][_x_zone_bisect(self._table["at"], seconds)]

    def _at_wall(self, wall, fold=0):
        before, after = self._at(wall - 86400 - 43200), self._at(wall + 86400 + 43200)
        fits = [one for one in (before, after) if self._at(wall - one[0])[0] == one[0]]
        if not fits:
            return after if fold else before
        found = fits[-1] if fold else fits[0]
        return self._at(wall - found[0])

    def _zoned(self, naive, fold=0):
        return naive.replace(tzinfo=self._fixed(self._at_wall(_x_zone_seconds(naive), fold)))

    def _fixed(self, offset):
        if self._table["at"]:
            zones = _x_zone_register.setdefault((offset[0], offset[2]), [])
            if not any([one.key == self.key for one in zones]):
                zones.append(self)
        return _x_zone_times.timezone(_x_zone_times.timedelta(seconds=offset[0]), offset[2])

    def _from(self, one):
        utc = one.astimezone(_x_zone_utc)
        return utc.astimezone(self._fixed(self._at(_x_zone_seconds(utc))))

    def utcoffset(self, one):
        if one is None:
            return None if self._table["at"] else _x_zone_times.timedelta(seconds=self._at(0)[0])
        return _x_zone_times.timedelta(seconds=self._at_wall(_x_zone_seconds(one))[0])

    def dst(self, one):
        return _x_zone_times.timedelta(seconds=self._at_wall(_x_zone_seconds(one))[1])

    def tzname(self, one):
        return self._at_wall(_x_zone_seconds(one))[2]

    def localize(self, one, is_dst=False):
        return self._zoned(one)

    def normalize(self, one):
        return self._from(one)

    def __str__(self):
        return self.key

    def __repr__(self):
        return f"zoneinfo.ZoneInfo(key={self.key!r})"

    def __eq__(self, other):
        return isinstance(other, _ZoneInfo) and other.key == self.key

    def __hash__(self):
        return hash(self.key)

def _x_zones_of(one):
    if not isinstance(one, _x_zone_times.datetime) or one.tzinfo is None:
        return []
    far = one.utcoffset()
    return _x_zone_register.get((far.days * 86400 + far.seconds, one.tzname()), [])

def _x_zone_again(one):
    zones = _x_zones_of(one)
    if not zones:
        return one
    made = [zone._zoned(one.replace(tzinfo=None)) for zone in zones]
    if any([other.utcoffset() != made[0].utcoffset() or other.tzname() != made[0].tzname() for other in made]):
        keys = " and ".join([zone.key for zone in zones])
        raise ValueError(f"this time may be of {keys}, which differ then: compute in UTC, and convert at the end")
    return made[0]

def _x_zone_minus(a, b):
    if isinstance(b, _x_zone_times.datetime):
        if any([one.key == other.key for one in _x_zones_of(a) for other in _x_zones_of(b)]):
            return a.replace(tzinfo=None) - b.replace(tzinfo=None)
        return a - b
    return _x_zone_again(a - b)

def _x_zone_made(kind, *given, **more):
    if kind is _x_zone_times.datetime and len(given) > 7:
        given, more = given[:7], {**more, "tzinfo": given[7]}
    if not isinstance(more.get("tzinfo"), _ZoneInfo):
        return kind(*given, **more)
    if kind is _x_zone_times.time:
        raise TypeError("a time of day has no zone here: give it to datetime.combine(day, time, tzinfo=zone)")
    if kind is not _x_zone_times.datetime:
        return kind(*given, **more)
    zone, fold = more.pop("tzinfo"), more.pop("fold", 0)
    return zone._zoned(kind(*given, **more), fold)

def _x_zone_now(kind, *given, **more):
    zone = given[0] if given else more.get("tz")
    return zone._from(kind.now(_x_zone_utc)) if isinstance(zone, _ZoneInfo) else kind.now(*given, **more)

def _x_zone_astimezone(one, *given, **more):
    zone = given[0] if given else more.get("tz")
    if not isinstance(zone, _ZoneInfo):
        return one.astimezone(*given, **more)
    return zone._from(one)

def _x_zone_fromtimestamp(kind, seconds, tz=None):
    found = _x_zone_times.datetime(1970, 1, 1, tzinfo=_x_zone_utc) + _x_zone_times.timedelta(
        seconds=int(seconds // 1), microseconds=round(seconds % 1 * 1_000_000))
    if kind is _x_zone_times.date:
        return found.date()
    if tz is None:
        return found.replace(tzinfo=None)
    return tz._from(found) if isinstance(tz, _ZoneInfo) else found.astimezone(tz)

def _x_zone_combine(kind, day, time, *given, **more):
    zone = given[0] if given else more.get("tzinfo")
    if not isinstance(zone, _ZoneInfo):
        return kind.combine(day, time, *given, **more)
    return zone._zoned(kind.combine(day, time))

def _x_zone_replace(one, *given, **more):
    if not isinstance(one, _x_zone_times.datetime):
        return one.replace(*given, **more)
    fold = more.pop("fold", 0)
    if not isinstance(more.get("tzinfo"), _ZoneInfo):
        new = one.replace(*given, **more)
        zones = _x_zones_of(new)
        return zones[0]._zoned(new.replace(tzinfo=None), fold) if len(zones) == 1 else _x_zone_again(new)
    zone = more.pop("tzinfo")
    return zone._zoned(one.replace(tzinfo=None).replace(*given, **more), fold)

def _x_zone_of(one):
    zones = _x_zones_of(one)
    return zones[0] if zones else one.tzinfo

def _x_zone_dst(one):
    for zone in _x_zones_of(one):
        utc = one.astimezone(_x_zone_utc)
        return _x_zone_times.timedelta(seconds=zone._at(_x_zone_seconds(utc))[1])
    return one.dst()

class _Zoneinfo:
    ZoneInfo = _ZoneInfo
    ZoneInfoNotFoundError = KeyError

    def available_timezones(self):
        return set(_x_zone_json.loads(_zone_now("")))

class _Pytz:
    timezone = _ZoneInfo
    UnknownTimeZoneError = KeyError

    def __init__(self):
        self.utc = self.UTC = _x_zone_utc

_added_zoneinfo = _Zoneinfo()
_added_pytz = _Pytz()
"""
