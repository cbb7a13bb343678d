"""The bundled table of cities, districts, places and networks, and the look-ups in it."""

import json
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any

from examples.amap.geometry import Point, metres
from examples.amap.refusals import Refusal, near


@dataclass(frozen=True, slots=True)
class District:
    """A district of a city."""

    name: str
    adcode: str
    location: Point


@dataclass(frozen=True, slots=True)
class City:
    """A city; each weather day is (day, night, high °C, low °C, wind from, wind force)."""

    name: str
    province: str
    adcode: str
    citycode: str
    location: Point
    districts: dict[str, District]
    weather: tuple[tuple[str, str, int, int, str, str], ...]

    def answers_to(self, text: str) -> bool:
        """Return whether a text names this city: its name with or without 市, its codes, or a district's code."""
        codes = {self.adcode, self.citycode, *(district.adcode for district in self.districts.values())}
        return text in {self.name, self.name.removesuffix("市"), *codes}


@dataclass(frozen=True, slots=True)
class Poi:
    """A point of interest."""

    id: str
    name: str
    alias: str
    city: City
    district: District
    address: str
    type: str
    typecode: str
    location: Point

    @property
    def full_address(self) -> str:
        """City, district and street."""
        return f"{self.city.name}{self.district.name}{self.address}"


@dataclass(frozen=True, slots=True)
class Atlas:
    """The whole data of the example."""

    cities: tuple[City, ...]
    pois: tuple[Poi, ...]
    networks: dict[IPv4Network, City]
    source: str
    updated_at: str

    def city(self, parameter: str, text: str) -> City:
        """Return the city that a text names. Raises Refusal with near misses."""
        wanted = text.strip()
        for city in self.cities:
            if city.answers_to(wanted):
                return city
        raise Refusal(
            f"{parameter} 没有「{text}」：请给城市名称或者 adcode。{near(wanted, (c.name for c in self.cities), 10)}"
        )

    def nearest_poi(self, point: Point) -> tuple[Poi, float]:
        """Return the place closest to a point, and its distance in metres."""
        poi = min(self.pois, key=lambda item: metres(point, item.location))
        return poi, metres(point, poi.location)

    def nearest_district(self, point: Point) -> tuple[City, District, float]:
        """Return the district whose centre is closest to a point, and its distance in metres."""
        pairs = [(city, district) for city in self.cities for district in city.districts.values()]
        city, district = min(pairs, key=lambda pair: metres(point, pair[1].location))
        return city, district, metres(point, district.location)

    def by_ip(self, text: str) -> City:
        """Return the city of an IP address. Raises Refusal for an invalid one and one in no known network."""
        samples = "、".join(str(next(network.hosts())) for network in self.networks)
        try:
            address = ip_address(text.strip())
        except ValueError:
            raise Refusal(f"ip 不是 IP 地址：「{text}」。请写成 {samples.split('、')[0]} 这样。") from None
        for network, city in self.networks.items():
            if address in network:
                return city
        raise Refusal(f"ip {address} 不在演示数据里（内网地址也无法定位）。可以试试：{samples}。")


def load_atlas() -> Atlas:
    """Read the bundled table; about a millisecond."""
    data: dict[str, Any] = json.loads((files("examples.amap") / "data/places.json").read_text("utf-8"))
    cities = {item["name"]: _city(item) for item in data["cities"]}
    return Atlas(
        cities=tuple(cities.values()),
        pois=tuple(_poi(item, cities) for item in data["pois"]),
        networks={_v4(text): cities[name] for text, name in data["networks"].items()},
        source=data["source"],
        updated_at=data["updated_at"],
    )


def _city(item: dict[str, Any]) -> City:
    return City(
        **{
            **item,
            "location": Point(*item["location"]),
            "districts": {
                name: District(name, adcode, Point(longitude, latitude))
                for name, (adcode, longitude, latitude) in item["districts"].items()
            },
            "weather": tuple(tuple(day) for day in item["weather"]),
        }
    )


def _poi(item: dict[str, Any], cities: dict[str, City]) -> Poi:
    city = cities[item["city"]]
    return Poi(
        **{
            **item,
            "city": city,
            "district": city.districts[item["district"]],
            "location": Point(*item["location"]),
        }
    )


def _v4(text: str) -> IPv4Network:
    network = ip_network(text)
    if not isinstance(network, IPv4Network):
        raise TypeError(f"{text} is no IPv4 network")
    return network
