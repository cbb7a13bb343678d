"""One shared harness for tests that only read, and separate ones for the rest."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import OpenHarness, SecuredHarness
from tests.levels.records import schema_of
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import PIXEL, REFUSAL_CODE, REFUSAL_DATA, VENDOR_META, Json, Progress, Refusal, text_result
from tests.v1.api import Api, api_client

OpenApi = Callable[[str | None], AbstractAsyncContextManager[Api]]

CITY: Final = {"city": {"type": "string", "description": "城市名"}}
WEATHER: Final = [
    tool("get", CITY, description="查询指定城市的天气信息。", inputSchema=schema_of(CITY, "city")),
    tool("hold", {"key": {"type": "string"}}, description="Waits for release."),
    tool("release", {"key": {"type": "string"}}, description="Ends a wait."),
    tool("decline", description="Answers with an error."),
    tool("refuse", description="Answers that it failed."),
    tool("picture", description="Answers with an image."),
    tool("measure", description="Answers with structured content."),
]
SHOP: Final = [
    tool("get", description="Reads the shop's goods."),
    tool("put", {"amount": {"type": "integer"}}, description="Orders goods."),
    tool("zqxwipe", {"zqxfield": {"type": "string", "description": "zqxparameter"}}, description="The zqxwords of it."),
]
ANSWERS: Final = {
    "get": text_result("北京今天晴，温度 25°C"),
    "refuse": {**text_result("no such city"), "isError": True, "_meta": VENDOR_META},
    "picture": {"content": [{"type": "image", "mimeType": "image/png", "data": PIXEL}]},
    "measure": {"content": [], "structuredContent": {"metres": 1.5}},
}
# A word that only `two` may ever read.
SECRET: Final = "zqx"
POLICIES: Final = {
    "agents": {
        "one": {
            "allow": ["weather.*", "shop.*", "down.*"],
            "deny": [f"shop.{SECRET}*"],
            "arguments": {"shop.put": {"properties": {"amount": {"maximum": 50}}, "required": ["amount"]}},
        },
        "two": {"allow": ["*"]},
        "hidden": {"allow": ["weather.*", "shop.get"], "denials": "hidden", "names": "compatible"},
        "limited": {"allow": ["weather.*"], "limits": {"weather.*": {"per_conversation": 1}}},
    }
}


class WeatherToolbox(RecordingToolbox):
    """A toolbox with one tool that answers with a JSON-RPC error."""

    async def call(self, params: Mapping[str, Any], progress: Progress) -> Json:
        if params["name"] == "decline":
            raise Refusal(REFUSAL_CODE, "The peer declines.", REFUSAL_DATA)
        return await super().call(params, progress)


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    """A background loop for every harness of a module; they close before Hypothesis could see random numbers drawn."""
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="module")
def shared(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> SecuredHarness:
    """A weather server with keywords, a shop of which some see less, and one that is not there."""
    folder = tmp_path_factory.mktemp("v1")
    servers = {
        "weather": WeatherToolbox(WEATHER, ANSWERS).config_entry(
            description="天气服务", trigger_keywords=["天气", "forecast"]
        ),
        "shop": RecordingToolbox(SHOP).config_entry(trigger_keywords=["goods", SECRET]),
        "down": {"command": str(folder / "nothing"), "trigger_keywords": ["basement"]},
    }
    return SecuredHarness(background, folder, servers, POLICIES, POLICIES["agents"])


@pytest.fixture
def open_api(shared: SecuredHarness) -> OpenApi:
    """Open a client of the shared harness as an agent."""
    return partial(api_client, shared)


@pytest.fixture
def open_harness(background: BackgroundLoop, tmp_path: Path) -> OpenHarness:
    """Open a harness for one test."""

    def opened(
        servers: Mapping[str, Json], policies: object, agents: Iterable[str] = ("one", "two"), **more: Any
    ) -> SecuredHarness:
        return SecuredHarness(background, tmp_path, servers, policies, agents, **more)

    return opened
