"""What a child process is given of our environment."""

import asyncio
import json
import sys

import pytest

from aggregator.upstream.process.environment import passed_on
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper

PROXIES = {
    "HTTP_PROXY": ("http://me:p@ss:w/rd@proxy.example:3128", "http://proxy.example:3128"),
    "HTTPS_PROXY": ("socks5h://user@[::1]:1080/", "socks5h://[::1]:1080/"),
    "http_proxy": ("me:://hunter2@proxy:80", "proxy:80"),
    "https_proxy": ("http://proxy.example", "http://proxy.example"),
}


async def test_proxies_come_without_their_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """D1: unless the configuration gives it to the server by name."""
    for name, (whole, _) in PROXIES.items():
        monkeypatch.setenv(name, whole)
    monkeypatch.setenv("ALL_PROXY", "http://me:hunter2@proxy")
    monkeypatch.setenv("NO_PROXY", "localhost,.internal")
    said = bytearray()
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    own = {"https_proxy": "http://its:own@proxy"}
    reaper = Reaper()
    async with run_child("one", sys.executable, ("-c", program), own, None, said.extend, reaper) as child:
        async with asyncio.timeout(10):
            await child.exited
    await reaper.close()
    env = json.loads(said)
    assert {name: env.get(name) for name in PROXIES} == {name: without for name, (_, without) in PROXIES.items()} | own
    assert env["NO_PROXY"] == "localhost,.internal"
    assert "ALL_PROXY" not in env
    assert "hunter2" not in said.decode()


PASSED_ON = {
    "SSL_CERT_FILE": "/ca.pem",
    "SSL_CERT_DIR": "/certs",
    "REQUESTS_CA_BUNDLE": "/ca.pem",
    "CURL_CA_BUNDLE": "/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/ca.pem",
    **dict.fromkeys(PROXIES, "http://proxy.example:3128"),
    "NO_PROXY": "localhost",
    "no_proxy": "localhost",
    "UV_DEFAULT_INDEX": "https://mirror.example/simple",
    "UV_SYSTEM_CERTS": "1",
    "PIP_INDEX_URL": "https://mirror.example/simple",
    "NPM_CONFIG_REGISTRY": "https://mirror.example/npm/",
    "npm_config_registry": "https://mirror.example/npm/",
}
HELD_BACK = (
    *(
        "UV_INDEX_CORP_PASSWORD",
        "UV_INDEX_CORP_USERNAME",
        "UV_PUBLISH_TOKEN",
        "NPM_CONFIG__AUTH",
        "NPM_CONFIG__PASSWORD",
    ),
    *(
        "NPM_CONFIG__PASSWORD",
        "NPM_CONFIG__AUTHTOKEN",
        "NPM_CONFIG_KEY",
        "UV_RUN_RECURSION_DEPTH",
        "npm_config_user_agent",
        "GITHUB_TOKEN",
    ),
)


def test_settings_of_certificates_proxies_and_registries_are_passed_on_and_their_secrets_are_not() -> None:
    """D1: what a package manager needs to find its registry, and no password."""
    assert passed_on(PASSED_ON | dict.fromkeys(HELD_BACK, "canary")) == PASSED_ON
    several = passed_on({"UV_INDEX": "corp=https://me:canary@a.example/x https://me:canary@b.example/y"})
    assert several == {"UV_INDEX": "corp=https://a.example/x https://b.example/y"}
