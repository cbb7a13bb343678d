"""A registry is asked as its API says, within bounds, and its answers are not believed."""

import json
from collections.abc import AsyncIterator

import pytest
from starlette.responses import JSONResponse, Response

from aggregator.packages import registry as module
from aggregator.packages.carried_name import pypi_name
from aggregator.packages.download import DownloadLimits, checked_address, download
from aggregator.packages.errors import PackageError
from aggregator.packages.registry import look_up
from tests.adding.descriptions import NPM, server
from tests.adding.registry import FakeRegistry, endless, fake_registry, redirect, silent

NAME = "io.github.example/weather"


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with fake_registry() as made:
        made.add(server(NPM))
        yield made


async def test_a_server_by_its_name(registry: FakeRegistry) -> None:
    found = await look_up(registry.address, NAME)
    assert [choice.shown for choice in found.choices] == ["npm:@example/weather-mcp@1.2.3"]
    assert registry.asked == ["/v0.1/servers/io.github.example%2Fweather/versions/latest"]
    assert (await look_up(f"{registry.address}/", NAME, "1.2.3")).version == "1.2.3"


async def test_a_registry_of_the_older_api(registry: FakeRegistry) -> None:
    registry.only_v0 = True
    assert (await look_up(registry.address, NAME)).name == NAME
    assert [path.split("/")[1] for path in registry.asked] == ["v0.1", "v0"]


async def test_names_that_are_near(registry: FakeRegistry) -> None:
    with pytest.raises(PackageError, match=r"has no io.github.other/weather. It has io.github.example/weather."):
        await look_up(registry.address, "io.github.other/weather")
    with pytest.raises(PackageError, match=r"has no io.github.example/weather in version 9"):
        await look_up(registry.address, NAME, "9")


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (endless(), "more than 1,024 KiB"),
        (Response(b"{" * 100_000), "not JSON"),
        (Response(b"[" * 100_000), "not JSON"),
        (JSONResponse([1]), "no JSON object"),
        (JSONResponse({"server": 3}), "neither `packages` nor `remotes`"),
        (JSONResponse({"server": server(NPM, name="io.github.evil/other")}), "answered with 'io.github.evil/other'"),
        (JSONResponse({}, 500), "status 500"),
        (redirect("https://other.example.com/x"), "redirects to another host"),
        (redirect("file:///etc/passwd"), "not begin with https|cannot be used"),
        (redirect(f"/v0.1/servers/{NAME.replace('/', '%2F')}/versions/latest"), "redirects too often"),
    ],
    ids=["endless", "braces", "brackets", "list", "number", "other", "500", "host", "file", "circle"],
)
async def test_answers_that_are_refused(registry: FakeRegistry, fault: Response, why: str) -> None:
    registry.faults = {NAME: fault}
    with pytest.raises(PackageError, match=why):
        await look_up(registry.address, NAME)


async def test_a_silent_registry_has_a_time_limit(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.2)
    registry.faults = {NAME: silent()}
    with pytest.raises(PackageError, match="did not answer within"):
        await look_up(registry.address, NAME)


async def test_nobody_there() -> None:
    with pytest.raises(PackageError, match="cannot be reached"):
        await look_up("http://127.0.0.1:9", NAME)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ({"info": {"description": "# It\n<!-- mcp-name: io.github.example/weather -->"}}, NAME),
        ({"info": {"description": "mcp-name: io.github.example/weather."}}, NAME),
        ({"info": {"description": "mcp-name: ../../etc"}}, None),
        ({"info": {"description": None}}, None),
        ({"info": []}, None),
        ([], None),
    ],
)
async def test_the_name_that_a_pypi_package_carries(registry: FakeRegistry, answer: object, name: str | None) -> None:
    registry.files["/pypi/it/json"] = json.dumps(answer).encode()
    assert await pypi_name("it[extra]", registry.address) == name
    assert await pypi_name("none", registry.address) is None


@pytest.mark.parametrize(
    "address",
    [
        "http://registry.example.com",
        "http://10.0.0.1/x",
        "http://127.0.0.1.example.com/x",
        "file:///etc/passwd",
        "ftp://x",
        "https://user:password@example.com",
        "https://",
        "https://exa mple.com",
        "https://example.com/\x1b[2J",
        "https://[::1",
        "",
    ],
)
def test_addresses_that_are_not_asked(address: str) -> None:
    with pytest.raises(PackageError) as refused:
        checked_address(address, DownloadLimits(1, 1, loopback=True), "it")
    assert "password" not in str(refused.value)


async def test_this_machine_only_where_that_is_allowed(registry: FakeRegistry) -> None:
    registry.files["/it.mcpb"] = b"x" * 10
    address = f"{registry.address}/it.mcpb"
    with pytest.raises(PackageError, match="not begin with https"):
        await download(address, DownloadLimits(100, 5), "it")
    assert (await download(address, DownloadLimits(10, 5, loopback=True), "it")).body == b"x" * 10
    with pytest.raises(PackageError, match="more than 0 KiB"):
        await download(address, DownloadLimits(9, 5, loopback=True), "it")
    assert registry.asked == ["/it.mcpb", "/it.mcpb"]
