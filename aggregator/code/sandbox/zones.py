"""Time zones for programs: the calls that may have one, and the tables that the sandbox reads.

The interpreter's `datetime` knows fixed offsets alone. So a time in a zone has the offset that the zone has then, and
what makes another time of it asks the zone again (`zones_source`).
"""

import ast
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from aggregator.code.sandbox.syntax import call, last_name, name
from aggregator.wire.codec import encode

# The function that leaves the sandbox for a table; without a key, for the names of all zones.
ZONE: Final = "_zone_now"
_MODULES: Final = ("zoneinfo", "pytz")
_FIRST, _LAST = datetime(1950, 1, 1, tzinfo=UTC), datetime(2101, 1, 1, tzinfo=UTC)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# No zone has changed twice within so few days.
_STEP: Final = timedelta(days=14)
_LONGEST_KEY: Final = 100
_MADE: Final = frozenset({"now", "astimezone", "fromtimestamp", "combine", "replace"})
_PARTS: Final = frozenset({"year", "month", "day", "hour", "minute", "second", "microsecond", "tzinfo", "fold"})

_Offset = tuple[int, int, str]


@lru_cache(maxsize=64)
def zone_table(key: str) -> bytes:
    """Return the offsets of a zone from 1950 to 2100, as JSON: when each begins, and each with DST and its name.

    Raises:
        KeyError: there is no such zone.
    """
    if not key:
        return encode(sorted(available_timezones()))
    try:
        zone = ZoneInfo(key[:_LONGEST_KEY])
    except (KeyError, ValueError, OSError):
        raise KeyError(key) from None
    offset, began, offsets = _offset(zone, _FIRST), [], [_offset(zone, _FIRST)]
    for moment in _moments():
        after = _offset(zone, moment)
        if after != offset:
            began.append(_change(zone, moment, after))
            offsets.append(after)
            offset = after
    return encode({"at": began, "of": offsets})


def _moments() -> Iterator[datetime]:
    moment = _FIRST
    while moment < _LAST:
        moment += _STEP
        yield moment


def _offset(zone: ZoneInfo, moment: datetime) -> _Offset:
    local = moment.astimezone(zone)
    far, saved = local.utcoffset() or timedelta(), local.dst() or timedelta()
    return int(far.total_seconds()), int(saved.total_seconds()), local.tzname() or ""


def _change(zone: ZoneInfo, moment: datetime, after: _Offset) -> int:
    """Return the second at which an offset began that is there at a moment, and was not a step before."""
    start = int((moment - _STEP - _EPOCH).total_seconds())
    seconds = range(start, start + int(_STEP.total_seconds()) + 1)
    at = bisect_left(seconds, True, key=lambda one: _offset(zone, _EPOCH + timedelta(seconds=one)) == after)
    return seconds[at]


def has_zones(tree: ast.Module) -> bool:
    """Return whether a program imports `zoneinfo` or `pytz`, or uses the first without an import."""
    return any(
        (isinstance(node, ast.Import) and any(one.name in _MODULES for one in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module in _MODULES)
        or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "zoneinfo")
        for node in ast.walk(tree)
    )


class ZoneForms(ast.NodeTransformer):
    """Rewrites what may make a time in a zone, in a program that has zones."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        of, named = node.func, {option.arg for option in node.keywords}
        if isinstance(of, ast.Attribute):
            if of.attr in _MADE and (of.attr != "replace" or named & _PARTS):
                return ast.Call(name(f"_x_zone_{of.attr}"), [of.value, *node.args], node.keywords)
            if of.attr == "dst" and not node.args:
                return call("_x_zone_dst", of.value)
        if last_name(of) == "datetime" or "tzinfo" in named:
            return ast.Call(name("_x_zone_made"), [of, *node.args], node.keywords)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr == "tzinfo" and isinstance(node.ctx, ast.Load) and last_name(node.value) != "datetime":
            return call("_x_zone_of", node.value)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(one, ast.Constant | ast.JoinedStr | ast.List) for one in (node.left, node.right)):
            return node
        if isinstance(node.op, ast.Sub):
            return call("_x_zone_minus", node.left, node.right)
        return call("_x_zone_again", node) if isinstance(node.op, ast.Add) else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        target = node.target
        simple = isinstance(target, ast.Name) or (
            isinstance(target, ast.Attribute | ast.Subscript) and isinstance(target.value, ast.Name)
        )
        if not simple or not isinstance(node.op, ast.Add | ast.Sub) or isinstance(node.value, ast.Constant):
            return node
        said = ast.unparse(target)
        again = ast.parse(f"{said} = _x_zone_again({said})").body
        return [node, *(ast.copy_location(one, node) for one in again)]
