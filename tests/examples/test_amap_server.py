"""The AMap example over HTTP+SSE: the key, the twelve tools, coherent canned answers, leaving on SIGTERM."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin

import httpx2
import pytest
from mcp import Client, ClientSession
from mcp.client.sse import sse_client
from mcp.types import TextContent

from .conftest import BOUND, KEY, AmapProcess, stdio_server

ENDS = {"origin", "destination"}
PARAMETERS: dict[str, tuple[set[str], set[str]]] = {
    "maps_regeocode": ({"location"}, set()),
    "maps_geo": ({"address"}, {"city"}),
    "maps_ip_location": ({"ip"}, set()),
    "maps_weather": ({"city"}, set()),
    "maps_search_detail": ({"id"}, set()),
    "maps_bicycling": (ENDS, set()),
    "maps_direction_walking": (ENDS, set()),
    "maps_direction_driving": (ENDS, set()),
    "maps_direction_transit_integrated": (ENDS | {"city", "cityd"}, set()),
    "maps_distance": ({"origins", "destination"}, {"type"}),
    "maps_text_search": ({"keywords"}, {"city", "types"}),
    "maps_around_search": ({"location"}, {"keywords", "radius"}),
}
TIANANMEN, GUOMAO, BUND = "116.397463,39.908722", "116.460057,39.909736", "121.490317,31.236305"


@asynccontextmanager
async def connected(amap: AmapProcess, key: str = KEY) -> AsyncIterator[ClientSession]:
    async with (
        asyncio.timeout(BOUND),
        sse_client(f"{amap.url}?key={key}") as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


async def said(session: ClientSession, tool: str, **arguments: Any) -> tuple[bool, str]:
    result = await session.call_tool(tool, arguments)
    [content] = result.content
    assert isinstance(content, TextContent)
    return bool(result.is_error), content.text


async def answer(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    refused, text = await said(session, tool, **arguments)
    assert not refused, text
    content: dict[str, Any] = json.loads(text)
    assert content["demo"] is True
    assert "演示数据" in content["notice"]
    assert content["source"]
    assert content["updated_at"]
    return content


@pytest.mark.parametrize("query", ["", "?key=", "?key=wrong", f"?key={KEY}x", f"?KEY={KEY}", "?key=%ff%E4%B8%AD"])
async def test_without_the_right_key_the_server_answers_401_and_says_how(amap: AmapProcess, query: str) -> None:
    """Proves: E8."""
    async with httpx2.AsyncClient(timeout=BOUND) as client:
        response = await client.get(f"{amap.url}{query}")
    assert response.status_code == 401
    assert "/sse?key=" in response.json()["fix"]
    assert KEY not in response.text
    assert "www-authenticate" in response.headers


async def test_messages_need_a_session(amap: AmapProcess) -> None:
    async with httpx2.AsyncClient(timeout=BOUND) as client:
        for query, status in (("", 400), (f"?key={KEY}", 400), ("?session_id=" + "0" * 32, 404)):
            url = urljoin(amap.url, f"/messages/{query}")
            assert (await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == status


async def test_foreign_hosts_are_refused_on_loopback(amap: AmapProcess) -> None:
    async with httpx2.AsyncClient(timeout=BOUND) as client:
        response = await client.get(f"{amap.url}?key={KEY}", headers={"Host": "evil.example:80"})
    assert response.status_code == 421


async def test_lists_the_twelve_tools_with_their_parameters(amap: AmapProcess) -> None:
    """Proves: E10."""
    async with connected(amap) as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools.keys() == PARAMETERS.keys()
    for name, (required, optional) in PARAMETERS.items():
        schema = tools[name].input_schema
        assert set(schema["required"]) == required
        assert {parameter: kind["type"] for parameter, kind in schema["properties"].items()} == dict.fromkeys(
            required | optional, "string"
        )
        annotations = tools[name].annotations
        assert annotations is not None
        assert annotations.read_only_hint is True


async def test_addresses_and_coordinates_agree_both_ways(amap: AmapProcess) -> None:
    """Proves: E10."""
    async with connected(amap) as session:
        [found] = (await answer(session, "maps_geo", address="北京市朝阳区国贸"))["return"]
        assert (found["location"], found["adcode"], found["level"]) == (GUOMAO, "110105", "兴趣点")
        back = await answer(session, "maps_regeocode", location=found["location"])
        assert (back["city"], back["district"], back["adcode"]) == ("北京市", "朝阳区", "110105")
        [district] = (await answer(session, "maps_geo", address="浙江省杭州市西湖区"))["return"]
        assert (district["level"], district["adcode"]) == ("区县", "330106")
        [city] = (await answer(session, "maps_geo", address="杭州"))["return"]
        assert (city["level"], city["adcode"]) == ("市", "330100")


async def test_weather_is_the_same_by_name_and_by_adcode(amap: AmapProcess) -> None:
    """Proves: E10."""
    async with connected(amap) as session:
        by_name = await answer(session, "maps_weather", city="杭州")
        assert by_name == await answer(session, "maps_weather", city="330100")
    assert by_name["city"] == "杭州市"
    assert len(by_name["forecasts"]) == 4
    assert all(int(day["nighttemp"]) <= int(day["daytemp"]) for day in by_name["forecasts"])


async def test_searches_lead_to_details(amap: AmapProcess) -> None:
    """Proves: E10."""
    async with connected(amap) as session:
        [station] = (await answer(session, "maps_text_search", keywords="站", city="北京", types="火车站"))["pois"]
        detail = await answer(session, "maps_search_detail", id=station["id"])
        assert (detail["name"], detail["city"]) == ("北京南站", "北京市")
        near = (await answer(session, "maps_around_search", location=GUOMAO, radius="2000"))["pois"]
        distances = [int(poi["distance"]) for poi in near]
        assert distances == sorted(distances)
        assert len(distances) == 3
        blank = await answer(session, "maps_around_search", location=GUOMAO, keywords="", radius="")
        assert {poi["id"] for poi in blank["pois"]} <= {poi["id"] for poi in near}
        [coffee] = (await answer(session, "maps_around_search", location=GUOMAO, keywords="咖啡"))["pois"]
        assert coffee["name"] == "示例咖啡馆（国贸店）"


async def test_routes_are_longer_than_the_crow_flies_and_slower_on_foot(amap: AmapProcess) -> None:
    """Proves: E10."""
    ends = {"origin": TIANANMEN, "destination": GUOMAO}
    async with connected(amap) as session:
        [straight] = (await answer(session, "maps_distance", origins=TIANANMEN, destination=GUOMAO, type="0"))[
            "results"
        ]
        walk = (await answer(session, "maps_direction_walking", **ends))["route"]["paths"][0]
        ride = (await answer(session, "maps_bicycling", **ends))["data"]["paths"][0]
        drive = (await answer(session, "maps_direction_driving", **ends))["route"]["paths"][0]
        metro = await answer(session, "maps_direction_transit_integrated", **ends, city="北京", cityd="北京")
        several = await answer(session, "maps_distance", origins=f"{TIANANMEN}|{BUND}", destination=GUOMAO)
    assert 5_200 < int(straight["distance"]) < 5_500
    for path in (walk, ride, drive):
        assert int(path["distance"]) > int(straight["distance"])
        assert sum(int(step["distance"]) for step in path["steps"]) == int(path["distance"])
    assert int(drive["duration"]) < int(ride["duration"]) < int(walk["duration"])
    assert "bus" in metro["transits"][0]["segments"][1]
    assert [result["origin_id"] for result in several["results"]] == ["1", "2"]
    assert several["results"][0]["distance"] == drive["distance"]


async def test_between_cities_one_takes_the_train(amap: AmapProcess) -> None:
    """Proves: E10."""
    async with connected(amap) as session:
        found = await answer(
            session, "maps_direction_transit_integrated", origin=TIANANMEN, destination=BUND, city="010", cityd="310101"
        )
    [transit] = found["transits"]
    assert "railway" in transit["segments"][1]
    assert 4 * 3600 < int(transit["duration"]) < 8 * 3600


async def test_locates_a_few_networks(amap: AmapProcess) -> None:
    """Proves: E10."""
    async with connected(amap) as session:
        found = await answer(session, "maps_ip_location", ip="223.5.5.5")
    assert (found["city"], found["adcode"]) == ("杭州市", "330100")


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("maps_weather", {"city": "杭洲"}, "是否指：杭州市"),
        ("maps_weather", {"city": "请问今天下午杭州市西湖边上的天气怎么样"}, "是否指：杭州市"),
        ("maps_geo", {"address": "火星"}, "可以试试：天安门"),
        ("maps_geo", {"adress": "天安门"}, "是否指：address"),
        ("maps_geo", {}, "缺少参数 address"),
        ("maps_geo", {"address": 5}, "要写成字符串"),
        ("maps_regeocode", {"location": "天安门"}, "经度,纬度"),
        ("maps_regeocode", {"location": "39.9,116.4"}, "写反了"),
        ("maps_regeocode", {"location": "nan,1"}, "超出范围"),
        ("maps_regeocode", {"location": "0,0"}, "附近没有演示数据"),
        ("maps_text_search", {"keywords": "西胡"}, "是否指：西湖"),
        ("maps_text_search", {"keywords": "|"}, "可以试试"),
        ("maps_around_search", {"location": "116.3,40.2"}, "最近的是 北京市的"),
        ("maps_around_search", {"location": GUOMAO, "keywords": "灵隐寺"}, "最近的是 杭州市的灵隐寺"),
        ("maps_around_search", {"location": GUOMAO, "radius": "9" * 5000}, "1 到 50000"),
        ("maps_search_detail", {"id": "B0"}, "DEMO000001"),
        ("maps_ip_location", {"ip": "10.0.0.1"}, "192.0.2.1"),
        ("maps_ip_location", {"ip": "localhost"}, "不是 IP 地址"),
        ("maps_direction_walking", {"origin": TIANANMEN, "destination": BUND}, "100 公里的上限"),
        ("maps_distance", {"origins": TIANANMEN, "destination": GUOMAO, "type": "9"}, "0（直线）"),
    ],
)
async def test_mistakes_are_answered_with_what_to_send_instead(
    amap: AmapProcess, tool: str, arguments: dict[str, Any], says: str
) -> None:
    async with connected(amap) as session:
        refused, text = await said(session, tool, **arguments)
    assert refused
    assert says in text
    assert "演示数据" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_status_0_despite_an_open_stream_and_the_key_is_never_written(
    start_amap: Callable[..., AmapProcess], number: int
) -> None:
    """Proves: E8."""
    amap = start_amap(KEY)
    async with httpx2.AsyncClient(timeout=BOUND) as client:
        assert (await client.get(f"{amap.url}?key=wrong-{KEY}")).status_code == 401
        async with client.stream("GET", f"{amap.url}?key={KEY}") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "event: endpoint"
            async with asyncio.timeout(3):
                assert await asyncio.to_thread(amap.stop, number) == 0
    assert amap.stderr == f"amap example listening on {amap.url}\n"


async def test_without_a_key_in_the_environment_the_key_is_demo_key(start_amap: Callable[..., AmapProcess]) -> None:
    amap = start_amap(None)
    async with connected(amap, "demo-key") as session:
        assert (await answer(session, "maps_weather", city="上海"))["adcode"] == "310000"
    assert amap.stop() == 0
    assert "demo-key" not in amap.stderr


async def test_speaks_stdio_when_asked() -> None:
    async with Client(stdio_server("examples.amap", "--stdio")) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == PARAMETERS.keys()
