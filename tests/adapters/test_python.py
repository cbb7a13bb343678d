"""The gateway in a Python program: `aggregator.open_gateway`."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import aggregator
from aggregator.config.errors import ConfigError
from tests.adapters.config_folder import BOUND, ConfigFolder, recording_server
from tests.observability.observed_harness import calls_in
from tests.peers.toolbox import Json, text_result

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").partition("\n## Agent frameworks\n")[0]
LEGAL: Final[Json] = {"legal": {"target": "examples.legal.server:build_server"}}


def test_the_program_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: E6, E11. As it stands in docs/python.md, with the legal example in the same process."""
    ConfigFolder(tmp_path, LEGAL, {"agents": {"shop": {"allow": ["legal.search_*"]}}}, expose="search")
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(program, "docs/python.md", "exec"), {"__name__": "program"})  # noqa: S102
    listed, _, found, denied = capsys.readouterr().out.splitlines()
    assert listed.startswith("legal.search_statutes legal ['")
    assert found == "legal.search_statutes 中华人民共和国劳动合同法"
    assert denied.startswith("True legal.get_document_template is not allowed for this agent")


def test_the_package_loads_nothing() -> None:
    """Proves: E4. What programs use is loaded when it is asked for, and typed; nothing else is there."""
    check = (
        "import sys; before = set(sys.modules); import aggregator; print(sorted(set(sys.modules) - before));"
        "from aggregator import *; print(sorted(aggregator.__all__)); print(hasattr(aggregator, 'nothing'))"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['aggregator']", str(sorted(aggregator.__all__)), "False"]
    stub = (ROOT / "aggregator" / "__init__.pyi").read_text(encoding="utf-8")
    named = set(re.findall(r"import \w+ as (\w+)", stub)) | set(re.findall(r"^(\w+):", stub, re.MULTILINE))
    assert named == {*aggregator.__all__, "__all__", "DISTRIBUTION", "FEATURES", "INNER_LAYERS", "LAYERS"}


async def test_each_agent_lists_finds_and_calls_what_it_may(tmp_path: Path) -> None:
    """Proves: A1, D9. One process, several agents: each under its own policy, and on record under its own name."""
    shop = recording_server("find_order", "drop_order")
    policies = {
        "agents": {
            "clerk": {"allow": ["shop.find_*"], "arguments": {"shop.*": {"properties": {"n": {"maximum": 3}}}}},
            "owner": {"allow": ["shop.*"]},
        }
    }
    config_folder = ConfigFolder(tmp_path, {"shop": shop.config_entry()}, policies)
    async with asyncio.timeout(BOUND), aggregator.open_gateway(config_folder, agent="clerk") as clerk:
        owner, nobody = clerk.as_agent("owner"), clerk.as_agent("nobody")
        assert owner is not clerk
        (found,) = await clerk.list()
        assert (found.name, found.server, found.definition["name"]) == ("shop.find_order", "shop", "shop.find_order")
        assert found.input_schema["allOf"] == [{"properties": {"n": {"maximum": 3}}}]
        assert found.description == "The find_order tool.\nIn two lines."
        assert [tool.name for tool in await owner.list("shop")] == ["shop.find_order", "shop.drop_order"]
        assert [tool.name for tool in await owner.search("drop an order", limit=1)] == ["shop.drop_order"]
        assert [tool.name for tool in await clerk.search("drop an order")] == ["shop.find_order"]
        assert (await nobody.list(), await owner.list("other")) == ((), ())
        assert not (await clerk.call("shop__find_order", {"n": 3})).get("isError")
        for refused in (await clerk.call("shop.find_order", {"n": 4}), await clerk.call("shop.drop_order")):
            assert refused["isError"] is True
            assert refused["_meta"]["aggregator/error"]["code"] in ("invalid_arguments", "tool_not_allowed")
        await owner.call("shop.drop_order")
        with pytest.raises(aggregator.RpcError, match="Unknown tool"):
            await owner.call("shop.nothing")
        with pytest.raises(aggregator.OperatorError):
            clerk.as_agent("no such\nname")
    assert [(call["name"], call.get("arguments")) for call in shop.calls] == [
        ("find_order", {"n": 3}),
        ("drop_order", {}),
    ]
    kept = [(row["agent_id"], row["status"]) for row in calls_in(config_folder.folder / "kept.db")]
    assert kept == [("clerk", "ok"), ("clerk", "invalid"), ("clerk", "denied"), ("owner", "ok"), ("owner", "invalid")]
    for one in (clerk, owner):
        assert not await one.changed()
        with pytest.raises(RuntimeError, match="was closed"):
            await one.call("shop.find_order")
    with pytest.raises(RuntimeError, match="was closed"):
        clerk.as_agent("owner")


async def test_a_person_is_asked_and_progress_arrives(tmp_path: Path) -> None:
    """Proves: C9. Through what the program gives along with the call."""
    asked: list[Any] = []

    async def elicit(form: Any) -> Json:
        asked.append(form["message"])
        return {"action": "accept", "content": {"allow": True}}

    shop = recording_server("pay")
    policies = {"agents": {"local": {"allow": ["*"], "confirm": ["shop.pay"]}}}
    config_folder = ConfigFolder(
        tmp_path, {"shop": shop.config_entry(), "peer": {"target": "tests.peers.sdk:build"}}, policies
    )
    async with asyncio.timeout(BOUND), aggregator.open_gateway(config_folder, names="compatible") as gateway:
        assert (await gateway.call("shop.pay"))["isError"] is True
        assert not (await gateway.call("shop.pay", elicit=elicit)).get("isError")
        assert "shop__pay" in [tool.name for tool in await gateway.list()]
        heard: asyncio.Queue[Json] = asyncio.Queue()
        arguments = {"count": 2, "key": "two"}
        call = asyncio.create_task(gateway.call("peer.steps", arguments, progress=heard.put_nowait))
        assert [(await heard.get())["message"] for _ in range(2)] == ["two 1", "two 2"]
        await gateway.call("peer.release", {"key": "two"})
        assert not (await call).get("isError")
    assert len(asked) == len(shop.calls) == 1


async def test_an_object_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E7. Policies of the working folder count only where it names them, as nobody else may add some."""
    monkeypatch.chdir(tmp_path)
    ConfigFolder(tmp_path, {}, {"agents": {"local": {"deny": ["*"]}}})
    shop = recording_server(get=text_result("got"))
    config: Json = {"mcpServers": {"shop": shop.config_entry()}, "storage": "sqlite:///kept.db"}
    async with asyncio.timeout(BOUND), aggregator.open_gateway(config) as gateway:
        assert (await gateway.call("shop.get"))["content"][0]["text"] == "got"
    async with asyncio.timeout(BOUND), aggregator.open_gateway({**config, "policies": "policies"}) as gateway:
        assert await gateway.list() == ()
    async with asyncio.timeout(BOUND), aggregator.open_gateway({**config, "policies": "not mounted"}) as gateway:
        assert await gateway.list() == ()
    assert len(calls_in(tmp_path / "kept.db")) == 1


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"mcpServer": {}}, "Did you mean `mcpServers`"),
        ({"mcpServers": {"a": {"command": object()}}}, "not JSON"),
        ({"expose_budget": float("nan")}, "not JSON"),
        ("nowhere.json", "There is no file"),
        (None, "There is no configuration"),
    ],
)
async def test_what_cannot_be_opened_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Any, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        async with aggregator.open_gateway(config):
            """Never here."""


async def test_a_cloned_folder_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C2. As on the command line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "aggregator.json").write_text(json.dumps({"mcpServers": LEGAL}))
    with pytest.raises(aggregator.OperatorError, match="is not trusted"):
        async with aggregator.open_gateway():
            """Never here."""
