"""`aggregator add` of a server that asks for a login: its entry gets `auth`, and the next command is named."""

import json
from pathlib import Path

from tests.adding.test_add import add
from tests.authorization.authorization_server import authorization_server
from tests.authorization.protected_mcp_server import protected_mcp_server


async def test_entry_gets_auth_where_the_server_asks_for_a_login(tmp_path: Path) -> None:
    config = tmp_path / "aggregator.json"
    async with authorization_server() as idp, protected_mcp_server(idp) as server:
        plain = await add(config, "wiki", server.url)
        assert plain.code == 0, plain
        assert f"`aggregator connect wiki --config {config}`" in plain.out
        assert "one account for all agents" in plain.out
        named = await add(config, "own", server.url, "--per", "agent", "--json")
        assert json.loads(named.out)["next"] == f"aggregator connect own --config {config}"
    entries = json.loads(config.read_text())["mcpServers"]
    owners = {name: entry["auth"] for name, entry in entries.items()}
    assert owners == {"wiki": {"type": "oauth", "per": "shared"}, "own": {"type": "oauth", "per": "agent"}}


async def test_key_that_is_refused_is_a_mistake_though_a_login_is_offered(tmp_path: Path) -> None:
    config = tmp_path / "aggregator.json"
    async with authorization_server() as idp, protected_mcp_server(idp) as server:
        ended = await add(config, "wiki", server.url, "--header", "Authorization: Bearer wrong")
    assert (ended.code, config.exists()) == (1, False)
    assert "It offers OAuth" in ended.out
