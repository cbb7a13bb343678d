"""docs/configuration.md says something about every field, and its examples work."""

import json
import re
from pathlib import Path

from pydantic import BaseModel

from aggregator.accounts.config import ServerAuthConfig
from aggregator.code.config import CodeConfig
from aggregator.config.auth.issuers import AuthConfig
from aggregator.config.load import ROOTS
from aggregator.config.model import Config
from aggregator.config.server_config import GROUPS
from aggregator.config.servers.foreign import ENV_FILE, OWN_KEYS, RENAMED, SWITCHES, TOOL_LISTS
from aggregator.config.settings import (
    AuditConfig,
    ChecksConfig,
    ConsoleConfig,
    FrontendConfig,
    HttpConfig,
    LogConfig,
    RedactConfig,
    SearchConfig,
    SecretsConfig,
    StdioConfig,
    TlsConfig,
    V1Config,
)
from aggregator.notify.config import ReceiverConfig
from aggregator.replicas.config import ReplicasConfig
from aggregator.results.config import ResultsConfig
from scripts.docs.configuration import ISSUER_PARTS, inserted

from .conftest import Load

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"
URL_FIELDS = {"url", "headers", "proxy", "launch", "type", "auth", "tls"}
# What a part of an entry needs besides the option that an example has.
NEEDED: dict[str, dict[str, object]] = {
    "launch": {"command": "x"},
    "tls": {"client_cert": "a"},
    "auth": {"per": "shared", "client_id": "a"},
}
ENVIRON = {"EXAMPLE_KEY": "a", "CLIENT_KEY_PASSWORD": "p", "EXAMPLE_TOKEN": "b", "GITHUB_TOKEN": "c"}
TEXT = DOCUMENT.read_text(encoding="utf-8")


HOOK = {"HOOK_SECRET": f"whsec_{'A' * 32}", "HOOK_TOKEN": "t"}


def test_the_reference_is_fresh() -> None:
    assert inserted(TEXT) == TEXT, "run: sh scripts/generate"


def test_every_field_has_its_heading() -> None:
    parts: dict[str, type[BaseModel]] = {
        "http": HttpConfig,
        "sse": FrontendConfig,
        "stdio": StdioConfig,
        "log": LogConfig,
    }
    parts |= {
        "v1": V1Config,
        "console": ConsoleConfig,
        "checks": ChecksConfig,
        "results": ResultsConfig,
        "code": CodeConfig,
        "search": SearchConfig,
        "audit": AuditConfig,
        "http.tls": TlsConfig,
        "replicas": ReplicasConfig,
        "secrets": SecretsConfig,
        "redact": RedactConfig,
    }
    parts |= {group: model for group, model in GROUPS.items() if group != "auth"}
    parts |= {f"auth.{part}": model for part, model in ISSUER_PARTS.items()}
    parts["notify[]"] = ReceiverConfig
    root = {name for name in Config.model_fields if name != "servers"}
    fields = {*OWN_KEYS, *root}
    # `auth` is a part of a server, and one of the root.
    fields |= {f"auth.{name}" for model in (AuthConfig, ServerAuthConfig) for name in model.model_fields}
    fields |= {f"{part}.{name}" for part, model in parts.items() for name in model.model_fields}
    headings = re.findall(r"^### `(.+)`$", TEXT, re.MULTILINE)
    assert set(headings) == fields
    # `replicas` and `auth` are fields of a server, and of the root.
    twice = len(root & {*OWN_KEYS}) + len(AuthConfig.model_fields.keys() & ServerAuthConfig.model_fields.keys())
    assert len(headings) == len(fields) + twice


def test_other_hosts_keys_are_told() -> None:
    for key in (*ROOTS, *RENAMED, *SWITCHES, *TOOL_LISTS, ENV_FILE):
        assert f"`{key}`" in TEXT


def test_the_example_loads(load_file: Load) -> None:
    """Proves: F8."""
    (example,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    loaded = load_file(example, {"MAPS_KEY": "k"})
    assert not loaded.problems
    assert [server.id for server in loaded.config.servers] == ["time", "maps"]


def test_the_examples_of_fields_load(load_file: Load) -> None:
    servers = re.search(r"## Fields of a server\n(.*?)\n## Fields at the root\n", TEXT, re.DOTALL)
    assert servers
    for number, (heading, snippet) in enumerate(_examples(servers[1])):
        example: dict[str, object] = json.loads(f"{{{snippet}}}")
        part = heading.rpartition(".")[0]
        entry: dict[str, object] = {part: NEEDED.get(part, {}) | example} if part else example
        if entry.keys() & URL_FIELDS:
            entry = {"url": "https://a"} | entry
        elif "target" not in entry:
            entry = {"command": "x"} | entry
        loaded = load_file({"mcpServers": {f"s{number}": entry}}, ENVIRON)
        assert not loaded.problems, snippet
        assert len(loaded.config.servers) == 1


def _examples(text: str) -> list[tuple[str, str]]:
    """The headings of fields, and the example of each that has one."""
    return re.findall(r"^### `(.+)`\n\n(?:(?!### ).*\n)*?Example: `(.*)`$", text, re.MULTILINE)


def _of_issuer(path: list[str], example: dict[str, object]) -> dict[str, object]:
    """An issuer with the parts of an example at a path below it."""
    needed: dict[str, object] = {"client_id": "a", "client_secret": "b"} if path == ["introspection"] else {}
    needed = {"client_id": "a"} if path == ["sign_in"] else needed
    part = {path[0]: needed | example} if path else example
    return {"issuer": "https://login.example.com", "audience": ["a"], **part}


def test_the_examples_of_root_fields_load(load_file: Load) -> None:
    """What stands under a heading `part.name` goes into that part."""
    root = TEXT.partition("## Fields at the root\n")[2]
    found = _examples(root)
    assert ("audit.keep_for", '"keep_for": "365d"') in found
    for heading, snippet in found:
        example: dict[str, object] = json.loads(f"{{{snippet}}}")
        part = heading.rpartition(".")[0]
        written: dict[str, object] = {part: example} if part else example
        if part == "notify[]":
            way = {} if "command" in example else {"url": "https://hooks.example.com"}
            way = {"command": "x"} if example.keys() & {"args", "env"} else way
            written = {"notify": [{"name": "a", **way, **example}]}
        if part.startswith("auth.issuers[]"):
            written = {"auth": {"issuers": [_of_issuer(part.split(".")[2:], example)]}}
        if part == "http.tls":
            written = {"http": {"tls": {"certificate": "tls.crt", "key": "tls.key", **example}}}
        loaded = load_file({"mcpServers": {"a": {"command": "x"}}, **written}, HOOK | ENVIRON)
        assert not loaded.problems, heading


def test_what_may_be_null_is_told_as_what_it_is_besides() -> None:
    for line in (
        '*Duration, default `"90d"`.* Older rows',
        '*Size, default `"1GiB"`.* Above this size',
        '*Size, default `"16KiB"`.* The most that is kept of one value',
        "*Whole number, default `3`.* How many tool calls one conversation",
    ):
        assert line in TEXT
