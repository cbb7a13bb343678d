"""Answers about a whole city: its weather, and the city of an IP address."""

from datetime import date, timedelta
from typing import Any

from examples.amap.atlas import Atlas

Answer = dict[str, Any]


def weather(atlas: Atlas, *, city: str) -> Answer:
    """Four fixed days of weather for a city, from the date of the data on."""
    place = atlas.city("city", city)
    first = date.fromisoformat(atlas.updated_at)
    days = [(first + timedelta(days=offset), day) for offset, day in enumerate(place.weather)]
    return {
        "city": place.name,
        "adcode": place.adcode,
        "forecasts": [
            {
                "date": when.isoformat(),
                "week": str(when.isoweekday()),
                "dayweather": by_day,
                "nightweather": by_night,
                "daytemp": str(high),
                "nighttemp": str(low),
                "daywind": wind,
                "nightwind": wind,
                "daypower": power,
                "nightpower": power,
            }
            for when, (by_day, by_night, high, low, wind, power) in days
        ],
    }


def ip_location(atlas: Atlas, *, ip: str) -> Answer:
    """The city an address belongs to."""
    city = atlas.by_ip(ip)
    longitude, latitude = city.location
    return {
        "province": city.province,
        "city": city.name,
        "adcode": city.adcode,
        "rectangle": f"{longitude - 0.2:.6f},{latitude - 0.2:.6f};{longitude + 0.2:.6f},{latitude + 0.2:.6f}",
    }
