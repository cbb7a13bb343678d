"""Misconfigurations around a running gateway, and hosts that connect to it over HTTP."""

import asyncio
import json
import socket
from http.client import HTTPConnection
from typing import Any, Final

from tests.doctor.place import Examined, Json, Place, edit
from tests.doctor.seeds import Make, Seed
from tests.polling import until

CURSOR: Final = ("--host", "cursor")


def _by_url(place: Place, path: str = "/mcp", **fields: Any) -> None:
    entry: Json = {"url": f"http://127.0.0.1:{place.port}{path}", **fields}
    place.write(place.host_file("cursor"), json.dumps({"mcpServers": {"aggregator": entry}}))


def _port_taken(place: Place) -> None:
    place.configure()
    taken = socket.socket()
    place.stack.callback(taken.close)
    taken.bind(("127.0.0.1", place.port))
    taken.listen()
    place.stack.callback(taken.close)


def _other_port(place: Place, _: Examined) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    edit(place.config, lambda root: root["http"].update(port=port))


def _not_running(place: Place) -> None:
    place.configure()
    _by_url(place)


async def _start_it(place: Place, _: Examined) -> None:
    await place.serve()


async def _key(place: Place, agent: str = "local", *options: str) -> str:
    made = await place.aggregator("keys", "new", agent, *options)
    assert made.code == 0, made
    return made.out.strip()


def _with_key(key: str) -> Json:
    return {"headers": {"Authorization": f"Bearer {key}"}}


async def _revoked(place: Place) -> None:
    place.configure()
    key = await _key(place)
    await place.aggregator("keys", "revoke", key.split("_")[1])
    await place.serve()
    _by_url(place, **_with_key(key))


async def _ended(place: Place) -> None:
    place.configure()
    key = await _key(place)
    await place.aggregator("keys", "expire", key.split("_")[1], "now")
    await place.serve()
    _by_url(place, **_with_key(key))


async def _unknown(place: Place) -> None:
    place.configure()
    await _key(place)
    await place.serve()
    _by_url(place)


async def _new_key(place: Place, _: Examined, agent: str = "local") -> None:
    key = await _key(place, agent)
    _by_url(place, **_with_key(key))
    # A running gateway sees what another process made within half a second.
    await until(lambda: asyncio.to_thread(_is_known, place.port, key), "the gateway knows the new key")


def _is_known(port: int, key: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/v1/tools", headers=_with_key(key)["headers"])
        return connection.getresponse().status == 200
    finally:
        connection.close()


async def _others(place: Place) -> None:
    place.configure()
    _by_url(place, **_with_key(await _key(place, "shop")))
    await place.serve()


async def _new_key_for_the_other(place: Place, examined: Examined) -> None:
    await _new_key(place, examined, "desk")


def _serving(then: Make) -> Make:
    """Return a seed that is made while the gateway runs."""

    async def make(place: Place) -> None:
        place.configure()
        await place.serve()
        then(place)

    return make


def _other_config(place: Place) -> None:
    place.write(place.here / "other.json", place.config.read_text())
    place.args = ["--config", str(place.here / "other.json")]


def _the_same(place: Place, _: Examined) -> None:
    place.args = ["--config", str(place.config)]


def _right_address(place: Place, _: Examined) -> None:
    _by_url(place)


SEEDS: Final = (
    Seed("port in use", "gateway_port_taken", _port_taken, _other_port, '"port"'),
    Seed("no gateway", "gateway_not_running", _not_running, _start_it, "aggregator serve", CURSOR, connects=True),
    Seed("key that was revoked", "key_refused", _revoked, _new_key, "aggregator keys new", CURSOR, connects=True),
    Seed("key that has expired", "key_refused", _ended, _new_key, "aggregator keys new", CURSOR, connects=True),
    Seed("no key", "key_refused", _unknown, _new_key, "aggregator keys new", CURSOR, connects=True),
    Seed(
        "key of another agent",
        "key_other_agent",
        _others,
        _new_key_for_the_other,
        "aggregator keys new desk",
        (*CURSOR, "--agent", "desk"),
        connects=True,
    ),
    Seed(
        "wrong path of the address",
        "gateway_path",
        _serving(lambda place: _by_url(place, "/mpc")),
        _right_address,
        "/mcp",
        CURSOR,
        connects=True,
    ),
    Seed(
        "page that is refused",
        "gateway_origin_refused",
        _serving(lambda place: _by_url(place, headers={"Origin": "https://page.example.com"})),
        _right_address,
        "allowed_origins",
        CURSOR,
        connects=True,
    ),
    Seed("gateway with another configuration", "gateway_other_config", _serving(_other_config), _the_same, "--config"),
)
