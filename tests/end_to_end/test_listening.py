"""`aggregator serve` on the addresses there are: who is let in, who is not, and that the log says so at the start."""

import json
import time
from pathlib import Path
from typing import Final

import pytest

from aggregator.identity.keys import new_key, policy_line
from tests.end_to_end.programs import run, serving
from tests.end_to_end.scripted_host import http_client
from tests.end_to_end.server_harness import local_entry, write_config

KEY: Final = new_key("bot", now=time.time())
BOT: Final = {"agents": {"bot": {"allow": ["*"], "keys": [policy_line(KEY.record)]}}}
LOCAL: Final = {"agents": {**BOT["agents"], "local": {"allow": ["*"]}}}


def configured(folder: Path, policies: object) -> Path:
    if policies is not None:
        (folder / "policies").mkdir()
        (folder / "policies" / "main.yaml").write_text(json.dumps(policies))
    return write_config(folder, {"here": local_entry()}, storage=f"sqlite+aiosqlite:///{folder}/kept.db")


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        (None, "as the agent `local`, which may do everything; a request that a proxy forwarded needs a key"),
        (LOCAL, "as the agent `local`, which may do what the policies allow it; a request that a proxy"),
        (BOT, "requests without a key are refused"),
    ],
)
async def test_the_start_says_who_gets_in_without_a_key(tmp_path: Path, policies: object, said: str) -> None:
    """D4: in one line, and so it is."""
    async with serving(configured(tmp_path, policies)) as served, http_client(served.url) as client:
        (line,) = [line for line in served.log if "without a key" in line]
        assert said in line
        assert ("WARNING" in line) == (policies is None)
        assert (await client.get("/v1/tools")).status_code == (401 if policies is BOT else 200)
        passed_on = await client.get("/v1/tools", headers={"x-forwarded-for": "127.0.0.1"})
        assert passed_on.status_code in (401, 403)


async def test_all_addresses(tmp_path: Path) -> None:
    """F1: with `--host 0.0.0.0` this machine's names and addresses are served, and the log says what is not."""
    config = configured(tmp_path, BOT)
    async with serving(config, "--host", "0.0.0.0") as served:  # noqa: S104
        (line,) = [line for line in served.log if "requests are refused unless" in line]
        assert "localhost" in line
        assert "http.allowed_hosts" in line
        port = served.url.rpartition(":")[2]
        async with http_client(f"http://127.0.0.1:{port}", KEY.text) as client:
            for host, status in (
                (f"127.0.0.1:{port}", 200),
                (f"localhost:{port}", 200),
                (f"[::1]:{port}", 200),
                ("tools.example.com", 421),
                ("203.0.113.5", 421),
            ):
                assert (await client.get("/v1/tools", headers={"host": host})).status_code == status, host
                assert (await client.get("/healthz", headers={"host": host})).status_code == 200
            # The whole is for this machine alone, whatever it listens on.
            assert "servers" in (await client.get("/readyz")).json()


async def test_all_addresses_need_a_key(tmp_path: Path) -> None:
    """F1: as before."""
    ended = await run("serve", "--config", str(configured(tmp_path, None)), "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert ended.code == 2
    assert "aggregator keys new" in ended.err
