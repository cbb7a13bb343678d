"""Finding places: geocoding both ways, search by keyword and around a point, details."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from examples.amap.atlas import Atlas, City, Poi
from examples.amap.geometry import metres, parse_point
from examples.amap.refusals import Refusal, near

Answer = dict[str, Any]

_REGEOCODE_REACH = 60_000
_MAX_RADIUS = 50_000
_DEFAULT_RADIUS = "1000"


def regeocode(atlas: Atlas, *, location: str) -> Answer:
    """The district nearest to a point."""
    point = parse_point("location", location)
    city, district, away = atlas.nearest_district(point)
    if away > _REGEOCODE_REACH:
        raise Refusal(
            f"location {point} 附近没有演示数据：最近的是 {city.name}{district.name}"
            f"（{district.location}），相距 {away / 1000:.0f} 公里。"
        )
    poi, distance = atlas.nearest_poi(point)
    return {
        "country": "中国",
        "province": city.province,
        "city": city.name,
        "district": district.name,
        "adcode": district.adcode,
        "nearest": {"id": poi.id, "name": poi.name, "distance": str(round(distance))},
    }


def geo(atlas: Atlas, *, address: str, city: str = "") -> Answer:
    """The coordinates of an address: the place it names, else the district, else the city."""
    wanted = address.strip()
    within = _cities(atlas, city)
    towns = [place for place in within if place.name.removesuffix("市") in wanted]
    districts = [(place, name) for place in towns or within for name in place.districts if name in wanted]
    rest = wanted
    for name in [
        *(place.province for place in towns),
        *(place.name for place in towns),
        *(name for _, name in districts),
    ]:
        rest = rest.replace(name, "")
    bare = any(rest.strip() == place.name.removesuffix("市") for place in towns)
    found = [] if bare else [_geo_poi(poi) for poi in _named(atlas, towns or within, rest.strip())]
    found = found or [_geo_area(place, name) for place, name in districts] or [_geo_area(place) for place in towns]
    if not found:
        names = [poi.name for poi in atlas.pois if poi.city in within]
        raise Refusal(f"address 没有找到「{address}」：请写地标名称，或者带上城市和区名。{near(wanted, names)}")
    return {"return": found}


def text_search(atlas: Atlas, *, keywords: str, city: str = "", types: str = "") -> Answer:
    """Places whose name, address or type holds a keyword (several joined by `|`)."""
    within = _cities(atlas, city)
    found = [poi for poi in atlas.pois if poi.city in within and types in poi.type and _matches(poi, keywords)]
    if not keywords.strip("| ") or not found:
        names = [poi.name for poi in atlas.pois if poi.city in within]
        raise Refusal(f"keywords「{keywords}」没有命中任何地点：请换个词或者去掉 city、types。{near(keywords, names)}")
    return {"suggestion": {"keywords": [], "cities": []}, "pois": [_brief(poi) for poi in found]}


def around_search(atlas: Atlas, *, location: str, keywords: str = "", radius: str = _DEFAULT_RADIUS) -> Answer:
    """Places within `radius` metres of a point, nearest first."""
    point = parse_point("location", location)
    reach = _radius(radius)
    matching = [(metres(point, poi.location), poi) for poi in atlas.pois if _matches(poi, keywords)]
    found = sorted(((away, poi) for away, poi in matching if away <= reach), key=lambda pair: pair[0])
    if not found:
        if not matching:
            raise Refusal(f"keywords「{keywords}」没有命中任何地点。{near(keywords, (p.name for p in atlas.pois))}")
        away, poi = min(matching, key=lambda pair: pair[0])
        raise Refusal(
            f"{reach} 米内没有「{keywords or '地点'}」：最近的是 {poi.city.name}的{poi.name}，距离 {away:.0f} 米。"
        )
    return {"pois": [{**_brief(poi), "distance": str(round(away))} for away, poi in found]}


def search_detail(atlas: Atlas, *, id: str) -> Answer:
    """One place in full."""
    for poi in atlas.pois:
        if poi.id == id.strip():
            return {
                "id": poi.id,
                "name": poi.name,
                "alias": poi.alias,
                "location": str(poi.location),
                "address": poi.address,
                "city": poi.city.name,
                "district": poi.district.name,
                "adcode": poi.district.adcode,
                "type": poi.type,
                "typecode": poi.typecode,
            }
    raise Refusal(f"id 没有「{id}」：请用关键词搜或者周边搜返回的 id。{near(id, (poi.id for poi in atlas.pois), 3)}")


def _cities(atlas: Atlas, city: str) -> tuple[City, ...]:
    return (atlas.city("city", city),) if city.strip() else atlas.cities


def _named(atlas: Atlas, within: Sequence[City], wanted: str) -> list[Poi]:
    """The places called `wanted`; failing that those whose name it holds; failing that those whose name holds it."""
    called: tuple[Callable[[str], bool], ...] = (
        lambda name: name == wanted,
        lambda name: name in wanted,
        lambda name: wanted in name,
    )
    for fits in called if wanted else ():
        named = [
            poi for poi in atlas.pois if poi.city in within and any(map(fits, filter(None, (poi.name, poi.alias))))
        ]
        if named:
            return named
    return []


def _matches(poi: Poi, keywords: str) -> bool:
    held = f"{poi.name}\n{poi.alias}\n{poi.full_address}\n{poi.type}"
    words = [word.strip() for word in keywords.split("|") if word.strip()]
    return not words or any(word in held for word in words)


def _radius(text: str) -> int:
    digits = text.strip()
    if not digits.isdecimal() or len(digits) > 5 or not 0 < int(digits) <= _MAX_RADIUS:
        raise Refusal(f"radius 为「{text}」：请用 1 到 {_MAX_RADIUS} 的整数，单位米，例如 {_DEFAULT_RADIUS}。")
    return int(digits)


def _brief(poi: Poi) -> Answer:
    return {
        "id": poi.id,
        "name": poi.name,
        "address": poi.full_address,
        "typecode": poi.typecode,
        "location": str(poi.location),
    }


def _geo_poi(poi: Poi) -> Answer:
    return {
        **_geo_area(poi.city, poi.district.name),
        "name": poi.name,
        "street": poi.address,
        "location": str(poi.location),
        "level": "兴趣点",
    }


def _geo_area(city: City, district: str = "") -> Answer:
    area: Iterable[tuple[str, str]] = ()
    place = city.districts.get(district)
    if place:
        area = (
            ("district", place.name),
            ("adcode", place.adcode),
            ("location", str(place.location)),
            ("level", "区县"),
        )
    return {
        "country": "中国",
        "province": city.province,
        "city": city.name,
        "citycode": city.citycode,
        "district": "",
        "adcode": city.adcode,
        "location": str(city.location),
        "level": "市",
        **dict(area),
    }
