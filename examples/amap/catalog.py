"""The twelve tools: AMap's names and parameters, our own words, and the function that answers each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcp.types import Tool, ToolAnnotations

from examples.amap import cities, places, routes

_ORIGIN = "起点坐标，写成「经度,纬度」"
_DESTINATION = "终点坐标，写成「经度,纬度」"
_ENDS = {"origin": _ORIGIN, "destination": _DESTINATION}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tool: `parameters` maps a name to its meaning, all strings; those in `optional` may be left out."""

    name: str
    title: str
    description: str
    answer: Callable[..., dict[str, Any]]
    parameters: dict[str, str]
    optional: frozenset[str] = frozenset()

    @property
    def required(self) -> list[str]:
        """The parameters that must be given, in order."""
        return [name for name in self.parameters if name not in self.optional]

    def tool(self) -> Tool:
        """The tool as listed."""
        return Tool(
            name=self.name,
            title=self.title,
            description=f"{self.description}（演示数据）",
            input_schema={
                "type": "object",
                "properties": {
                    name: {"type": "string", "description": meaning} for name, meaning in self.parameters.items()
                },
                "required": self.required,
            },
            annotations=ToolAnnotations(
                read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
            ),
        )


CATALOG: tuple[Entry, ...] = (
    Entry("maps_regeocode", "逆地理编码", "查一个坐标在哪个省、市、区，附近有什么。", places.regeocode,
          {"location": "要查的坐标，写成「经度,纬度」"}),
    Entry("maps_geo", "地理编码", "查一个地址或者地标的坐标。", places.geo,
          {"address": "地址或者地标名称", "city": "只在这个城市里找，名称或者 adcode"}, frozenset({"city"})),
    Entry("maps_ip_location", "IP 定位", "查一个 IP 地址属于哪个城市。", cities.ip_location,
          {"ip": "要查的 IP 地址"}),
    Entry("maps_weather", "天气", "查一个城市今后几天的天气。", cities.weather,
          {"city": "城市名称或者 adcode"}),
    Entry("maps_search_detail", "地点详情", "用搜索得到的 id 查一个地点的详细资料。", places.search_detail,
          {"id": "搜索结果里的地点 id"}),
    Entry("maps_bicycling", "骑行路线", "规划骑车路线，最远 500 公里。", routes.bicycling, dict(_ENDS)),
    Entry("maps_direction_walking", "步行路线", "规划步行路线，最远 100 公里。", routes.walking, dict(_ENDS)),
    Entry("maps_direction_driving", "驾车路线", "规划开车路线，给出里程、时间和过路费。", routes.driving, dict(_ENDS)),
    Entry("maps_direction_transit_integrated", "公共交通路线", "规划公共交通路线：同城坐地铁，跨城坐火车。",
          routes.transit, {**_ENDS, "city": "起点所在城市", "cityd": "终点所在城市"}),
    Entry("maps_distance", "距离测量", "量一个或者多个起点到同一终点的距离。", routes.distance,
          {"origins": "起点坐标，多个用竖线「|」隔开", "destination": _DESTINATION,
           "type": "量法：0 直线，1 驾车，3 步行；不填按 1"}, frozenset({"type"})),
    Entry("maps_text_search", "关键词搜索", "按关键词找地点。", places.text_search,
          {"keywords": "关键词，多个用竖线「|」隔开", "city": "只在这个城市里找，名称或者 adcode",
           "types": "只要这一类地点，例如 火车站"}, frozenset({"city", "types"})),
    Entry("maps_around_search", "周边搜索", "找一个坐标周围的地点，由近到远。", places.around_search,
          {"keywords": "关键词，不填则不限", "location": "中心坐标，写成「经度,纬度」",
           "radius": "半径，单位米，不填按 1000"}, frozenset({"keywords", "radius"})),
)  # fmt: skip
