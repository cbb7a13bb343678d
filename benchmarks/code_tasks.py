"""Tasks of several steps over the example servers: with one call for each step, and as one program."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol

Call = tuple[str, dict[str, Any]]


class AskTools(Protocol):
    """Makes the calls of one step, which do not need each other's results; returns those."""

    def __call__(self, *calls: Call) -> Awaitable[list[Any]]: ...


Steps = Callable[[AskTools], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class CodeTask:
    """One task. `queries` find its tools; `steps` and `code` come to the same answer."""

    title: str
    queries: tuple[str, ...]
    steps: Steps
    code: str


_CITIES: Final = ("北京", "上海", "杭州", "广州", "成都", "深圳")
_WORDS: Final = ("试用期", "加班", "违约金", "经济补偿")
_IPS: Final = ("114.114.114.1", "223.5.5.1", "202.96.209.1", "61.139.2.1")
_ZONES: Final = ("Asia/Tokyo", "Europe/Paris", "America/New_York", "Australia/Sydney", "Asia/Kolkata")
_ENDS: Final = {"origin": "116.4,39.9", "destination": "116.45,39.92"}


async def _warmest(ask: AskTools) -> Any:
    found = await ask(*(("amap.maps_weather", {"city": city}) for city in _CITIES))
    warmth = {one["city"]: max(int(day["daytemp"]) for day in one["forecasts"]) for one in found}
    return max(warmth, key=lambda city: warmth[city])


async def _nearest(ask: AskTools) -> Any:
    places = await ask(*(("amap.maps_geo", {"address": f"{city}市"}) for city in _CITIES[:5]))
    points = [one["return"][0]["location"] for one in places]
    asked = {"origins": "|".join(points[1:]), "destination": points[0], "type": "0"}
    (found,) = await ask(("amap.maps_distance", asked))
    metres = [int(one["distance"]) for one in found["results"]]
    return _CITIES[1 + metres.index(min(metres))]


async def _weather_there(ask: AskTools) -> Any:
    (place,) = await ask(("amap.maps_geo", {"address": "西湖", "city": "杭州"}))
    (weather,) = await ask(("amap.maps_weather", {"city": place["return"][0]["city"]}))
    return weather["forecasts"][0]["dayweather"]


async def _details(ask: AskTools) -> Any:
    (found,) = await ask(("amap.maps_text_search", {"keywords": "火车站|西湖|茶楼"}))
    ids = [poi["id"] for poi in found["pois"]][:6]
    details = await ask(*(("amap.maps_search_detail", {"id": one}) for one in ids))
    return [one["name"] for one in details]


async def _fastest(ask: AskTools) -> Any:
    names = ("maps_direction_driving", "maps_direction_walking")
    ways = await ask(*((f"amap.{name}", _ENDS) for name in names))
    seconds = [int(way["route"]["paths"][0]["duration"]) for way in ways]
    return [names[seconds.index(min(seconds))], max(seconds) - min(seconds)]


async def _articles(ask: AskTools) -> Any:
    found = await ask(*(("legal.search_statutes", {"query": word, "limit": 5}) for word in _WORDS))
    return {word: [item["article"] for item in one["items"]] for word, one in zip(_WORDS, found, strict=True)}


async def _cited(ask: AskTools) -> Any:
    (cases,) = await ask(("legal.search_cases", {"query": "加班"}))
    cited = [statute for case in cases["items"] for statute in case["statutes"]]
    found = await ask(*(("legal.search_cases", {"query": one[:4]}) for one in cited[:3]))
    return [one["total"] for one in found]


async def _blanks(ask: AskTools) -> Any:
    (first,) = await ask(("legal.get_document_template", {"template": "iou"}))
    others = [one["id"] for one in first["others"]]
    found = [first, *await ask(*(("legal.get_document_template", {"template": one}) for one in others))]
    return {one["title"]: len(one["placeholders"]) for one in found}


async def _meeting(ask: AskTools) -> Any:
    found = await ask(
        *(
            ("time.convert_time", {"source_timezone": "Asia/Shanghai", "time": "15:00", "target_timezone": zone})
            for zone in _ZONES
        )
    )
    return {zone: one["target"]["datetime"][11:16] for zone, one in zip(_ZONES, found, strict=True)}


async def _weather_by_address(ask: AskTools) -> Any:
    places = await ask(*(("amap.maps_ip_location", {"ip": ip}) for ip in _IPS))
    cities = [place["city"] for place in places]
    found = await ask(*(("amap.maps_weather", {"city": city}) for city in cities))
    return [[one["city"], one["forecasts"][0]["dayweather"]] for one in found]


async def _around(ask: AskTools) -> Any:
    (place,) = await ask(("amap.maps_geo", {"address": "西湖", "city": "杭州"}))
    point = place["return"][0]["location"]
    found = await ask(*(("amap.maps_around_search", {"location": point, "radius": str(m)}) for m in (500, 2000, 5000)))
    return [len(one["pois"]) for one in found]


async def _tour(ask: AskTools) -> Any:
    (found,) = await ask(("amap.maps_around_search", {"location": "120.15,30.25", "radius": "5000"}))
    points = [poi["location"] for poi in found["pois"]][:4]
    legs = await ask(
        *(
            ("amap.maps_direction_walking", {"origin": origin, "destination": destination})
            for origin, destination in pairwise(points)
        )
    )
    return sum(int(leg["route"]["paths"][0]["distance"]) for leg in legs)


TASKS: Final = (
    CodeTask(
        "the warmest of six cities",
        ("天气",),
        _warmest,
        f"warmth = {{}}\nfor city in {list(_CITIES)}:\n    one = call_tool('amap.maps_weather', {{'city': city}})\n"
        "    warmth[one['city']] = max(int(day['daytemp']) for day in one['forecasts'])\n"
        "max(warmth, key=lambda city: warmth[city])",
    ),
    CodeTask(
        "the city nearest to another",
        ("坐标", "距离"),
        _nearest,
        f"cities = {list(_CITIES[:5])}\n"
        "points = [call_tool('amap.maps_geo', {'address': city + '市'})['return'][0]['location'] for city in cities]\n"
        "asked = {'origins': '|'.join(points[1:]), 'destination': points[0], 'type': '0'}\n"
        "found = call_tool('amap.maps_distance', asked)\n"
        "metres = [int(one['distance']) for one in found['results']]\ncities[1 + metres.index(min(metres))]",
    ),
    CodeTask(
        "the weather at a sight",
        ("坐标", "天气"),
        _weather_there,
        "place = call_tool('amap.maps_geo', {'address': '西湖', 'city': '杭州'})['return'][0]\n"
        "call_tool('amap.maps_weather', {'city': place['city']})['forecasts'][0]['dayweather']",
    ),
    CodeTask(
        "the details of what a search finds",
        ("搜索地点",),
        _details,
        "found = call_tool('amap.maps_text_search', {'keywords': '火车站|西湖|茶楼'})['pois'][:6]\n"
        "[call_tool('amap.maps_search_detail', {'id': poi['id']})['name'] for poi in found]",
    ),
    CodeTask(
        "the faster of two ways",
        ("路线",),
        _fastest,
        f"ends = {json.dumps(_ENDS)}\nnames = ['maps_direction_driving', 'maps_direction_walking']\n"
        "seconds = [int(call_tool('amap.' + name, ends)['route']['paths'][0]['duration']) for name in names]\n"
        "[names[seconds.index(min(seconds))], max(seconds) - min(seconds)]",
    ),
    CodeTask(
        "the articles of four subjects",
        ("法条",),
        _articles,
        f"found = {{}}\nfor word in {list(_WORDS)}:\n"
        "    items = call_tool('legal.search_statutes', {'query': word, 'limit': 5})['items']\n"
        "    found[word] = [item['article'] for item in items]\nfound",
    ),
    CodeTask(
        "cases that cite the same",
        ("案例",),
        _cited,
        "cases = call_tool('legal.search_cases', {'query': '加班'})['items']\n"
        "cited = [statute for case in cases for statute in case['statutes']][:3]\n"
        "[call_tool('legal.search_cases', {'query': one[:4]})['total'] for one in cited]",
    ),
    CodeTask(
        "the blanks of all templates",
        ("文书模板",),
        _blanks,
        "first = call_tool('legal.get_document_template', {'template': 'iou'})\nfound = [first]\n"
        "for one in first['others']:\n"
        "    found.append(call_tool('legal.get_document_template', {'template': one['id']}))\n"
        "{one['title']: len(one['placeholders']) for one in found}",
    ),
    CodeTask(
        "a meeting in five time zones",
        ("convert time zone",),
        _meeting,
        f"found = {{}}\nfor zone in {list(_ZONES)}:\n    one = call_tool('time.convert_time', "
        "{'source_timezone': 'Asia/Shanghai', 'time': '15:00', 'target_timezone': zone})\n"
        "    found[zone] = one['target']['datetime'][11:16]\nfound",
    ),
    CodeTask(
        "the weather at four addresses",
        ("IP 定位", "天气"),
        _weather_by_address,
        f"found = []\nfor ip in {list(_IPS)}:\n    city = call_tool('amap.maps_ip_location', {{'ip': ip}})['city']\n"
        "    one = call_tool('amap.maps_weather', {'city': city})\n"
        "    found.append([one['city'], one['forecasts'][0]['dayweather']])\nfound",
    ),
    CodeTask(
        "what is near, in three circles",
        ("坐标", "周边"),
        _around,
        "point = call_tool('amap.maps_geo', {'address': '西湖', 'city': '杭州'})['return'][0]['location']\n"
        "[len(call_tool('amap.maps_around_search', {'location': point, 'radius': str(m)})['pois'])"
        " for m in (500, 2000, 5000)]",
    ),
    CodeTask(
        "the length of a walk by four places",
        ("周边", "步行路线"),
        _tour,
        "found = call_tool('amap.maps_around_search', {'location': '120.15,30.25', 'radius': '5000'})['pois'][:4]\n"
        "points = [poi['location'] for poi in found]\ntotal = 0\nfor at in range(len(points) - 1):\n"
        "    leg = call_tool('amap.maps_direction_walking', {'origin': points[at], 'destination': points[at + 1]})\n"
        "    total += int(leg['route']['paths'][0]['distance'])\ntotal",
    ),
)
