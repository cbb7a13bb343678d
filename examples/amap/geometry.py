"""Points on the globe: reading `longitude,latitude`, great-circle distance and compass direction."""

import math
from typing import NamedTuple

from examples.amap.refusals import Refusal

_EARTH_RADIUS = 6_371_000.0
_COMPASS = ("北", "东北", "东", "东南", "南", "西南", "西", "西北")


class Point(NamedTuple):
    """Degrees, longitude first, as the AMap API writes them."""

    longitude: float
    latitude: float

    def __str__(self) -> str:
        return f"{self.longitude:.6f},{self.latitude:.6f}"


def parse_point(parameter: str, text: str) -> Point:
    """`116.397463,39.908722` as a point. Raises Refusal for anything else."""
    try:
        longitude, latitude = (float(part) for part in text.replace("，", ",").split(","))
    except ValueError:
        raise Refusal(f"{parameter} 不是坐标：「{text}」。请写成「经度,纬度」，例如 116.397463,39.908722。") from None
    if abs(latitude) > 90 and abs(longitude) <= 90:
        raise Refusal(f"{parameter} 的经纬度写反了：请用「{latitude},{longitude}」，经度在前。")
    if not (abs(longitude) <= 180 and abs(latitude) <= 90):
        raise Refusal(f"{parameter} 超出范围：「{text}」。经度在 -180 到 180 之间，纬度在 -90 到 90 之间。")
    return Point(longitude, latitude)


def metres(start: Point, end: Point) -> float:
    """Great-circle distance (haversine)."""
    first, second = math.radians(start.latitude), math.radians(end.latitude)
    across = math.radians(end.longitude - start.longitude)
    half = math.sin((second - first) / 2) ** 2 + math.cos(first) * math.cos(second) * math.sin(across / 2) ** 2
    return 2 * _EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half)))


def heading(start: Point, end: Point) -> str:
    """The compass direction to set out in, one of eight."""
    first, second = math.radians(start.latitude), math.radians(end.latitude)
    across = math.radians(end.longitude - start.longitude)
    east = math.sin(across) * math.cos(second)
    north = math.cos(first) * math.sin(second) - math.sin(first) * math.cos(second) * math.cos(across)
    return _COMPASS[round(math.degrees(math.atan2(east, north)) / 45) % 8]
