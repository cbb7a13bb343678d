"""Routes and distances: great-circle distance, lengthened as roads are, at plausible speeds."""

from typing import Any

from examples.amap.atlas import Atlas
from examples.amap.geometry import Point, heading, metres, parse_point
from examples.amap.refusals import Refusal

Answer = dict[str, Any]

_WALK_DETOUR, _CYCLE_DETOUR, _DRIVE_DETOUR, _RAIL_DETOUR = 1.25, 1.25, 1.35, 1.2
_WALK_SPEED, _CYCLE_SPEED = 1.25, 4.2
_SUBWAY_SPEED, _TRAIN_SPEED = 9.0, 61.0
_WALK_LIMIT, _CYCLE_LIMIT = 100_000, 500_000
_WAIT, _STATION = 300, 2_400
_STOP_WALK = 400


def walking(atlas: Atlas, *, origin: str, destination: str) -> Answer:
    """A walk of at most 100 km."""
    start, end = _ends(origin, destination)
    path = _path(start, end, _limited(metres(start, end) * _WALK_DETOUR, _WALK_LIMIT, "步行"), _WALK_SPEED, "步行")
    return {"route": {"origin": str(start), "destination": str(end), "paths": [path]}}


def bicycling(atlas: Atlas, *, origin: str, destination: str) -> Answer:
    """A ride of at most 500 km."""
    start, end = _ends(origin, destination)
    path = _path(start, end, _limited(metres(start, end) * _CYCLE_DETOUR, _CYCLE_LIMIT, "骑行"), _CYCLE_SPEED, "骑行")
    return {"data": {"origin": str(start), "destination": str(end), "paths": [path]}}


def driving(atlas: Atlas, *, origin: str, destination: str) -> Answer:
    """A drive, faster the farther it goes; tolls beyond city traffic."""
    start, end = _ends(origin, destination)
    length = metres(start, end) * _DRIVE_DETOUR
    tolls = round(length / 1000 * 0.45) if length > 60_000 else 0
    path = {**_path(start, end, length, _drive_speed(length), "行驶"), "tolls": str(tolls)}
    return {"route": {"origin": str(start), "destination": str(end), "paths": [path]}}


def transit(atlas: Atlas, *, origin: str, destination: str, city: str, cityd: str) -> Answer:
    """Return a route by metro inside a city, by train between two."""
    start, end = _ends(origin, destination)
    departure, arrival = atlas.city("city", city), atlas.city("cityd", cityd)
    length = metres(start, end) * _RAIL_DETOUR
    local = departure is arrival
    ride = length / (_SUBWAY_SPEED if local else _TRAIN_SPEED)
    line = f"{departure.name}示例地铁线" if local else f"示例高铁（{departure.name}—{arrival.name}）"
    walk = 2 * _STOP_WALK
    segments: list[Answer] = [
        {"walking": {"distance": str(_STOP_WALK), "duration": _seconds(_STOP_WALK / _WALK_SPEED)}},
        {("bus" if local else "railway"): {"name": line, "distance": str(round(length)), "duration": _seconds(ride)}},
        {"walking": {"distance": str(_STOP_WALK), "duration": _seconds(_STOP_WALK / _WALK_SPEED)}},
    ]
    total = ride + walk / _WALK_SPEED + (_WAIT if local else _STATION)
    return {
        "origin": str(start),
        "destination": str(end),
        "distance": str(round(length) + walk),
        "transits": [{"duration": _seconds(total), "walking_distance": str(walk), "segments": segments}],
    }


def distance(atlas: Atlas, *, origins: str, destination: str, type: str = "1") -> Answer:
    """Return distances from several points (joined by `|`) to one: straight (0), driving (1) or walking (3)."""
    end = parse_point("destination", destination)
    starts = [parse_point("origins", origin) for origin in origins.split("|")]
    if type not in {"0", "1", "3"}:
        raise Refusal(f"type 为「{type}」：请用 0（直线）、1（驾车）或者 3（步行）。")
    results = []
    for number, start in enumerate(starts, 1):
        straight = metres(start, end)
        length = straight * {"0": 1.0, "1": _DRIVE_DETOUR, "3": _WALK_DETOUR}[type]
        speed = {"0": None, "1": _drive_speed(length), "3": _WALK_SPEED}[type]
        results.append(
            {
                "origin_id": str(number),
                "dest_id": "1",
                "distance": str(round(length)),
                "duration": _seconds(length / speed) if speed else "0",
            }
        )
    return {"results": results}


def _ends(origin: str, destination: str) -> tuple[Point, Point]:
    return parse_point("origin", origin), parse_point("destination", destination)


def _limited(length: float, limit: int, how: str) -> float:
    if length > limit:
        raise Refusal(
            f"{how}距离约 {length / 1000:.0f} 公里，超过 {limit // 1000} 公里的上限："
            "请换更近的终点，或者改用驾车、公交。"
        )
    return length


def _drive_speed(length: float) -> float:
    """Metres a second: city streets, ring roads, motorways."""
    return 8.3 if length < 20_000 else 15.3 if length < 100_000 else 24.0


def _seconds(duration: float) -> str:
    return str(round(duration))


def _path(start: Point, end: Point, length: float, speed: float, verb: str) -> Answer:
    """One path in three steps that add up to it."""
    total = round(length)
    lengths = [total // 4, total // 2, total - total // 4 - total // 2]
    towards = heading(start, end)
    return {
        "distance": str(total),
        "duration": _seconds(total / speed),
        "steps": [
            {
                "instruction": f"沿{road}向{towards}{verb}{part}米{last}",
                "road": road,
                "orientation": towards,
                "distance": str(part),
                "duration": _seconds(part / speed),
            }
            for part, road, last in zip(lengths, ("示例路", "示例大道", "示例街"), ("", "", "到达目的地"), strict=True)
        ],
    }
