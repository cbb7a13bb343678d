"""The configuration, the policy files and the keys of the demo, written into a folder."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aggregator.identity.keys import new_key, policy_line

SERVER: Final = Path(__file__).with_name("server.py")
AGENTS: Final = ("sales-desk", "support-bot", "code-agent-07", "etl-nightly")
# Said by the server that cannot start, as its last words.
LAST_WORDS: Final = "erp-mcp: licence file /opt/erp/licence.key is not readable (permission denied); giving up"
# Sent in an argument, and to be seen nowhere.
SECRET: Final = "sk-proj-9fQ2vXw7TkLm3RzB8nYc5HdJ1pGs6A"

SHOP: Final = """\
tenants:
  acme:
    servers: [crm, crm-b, erp, mail]

roles:
  clerk:
    allow: [crm.*, mail.*, maps.*, files.*, waiting.*]
    deny:
      - "*.delete_*"
    confirm:
      - crm.send_offer
      - files.write_file
    read_only: [crm.get_*, crm.list_*, mail.search, mail.read_thread, maps.*, files.list_*, files.read_*]
    limits:
      maps.*: { per_minute: 600 }

agents:
  sales-desk:
    tenant: acme
    roles: [clerk]
    arguments:
      crm.list_orders:
        properties:
          limit: { maximum: 50 }
    confirm_by: queue

  support-bot:
    tenant: acme
    roles: [clerk]
    deny: [crm.merge_customers, "mail.send"]
    confirm_by: queue
    limits:
      mail.*: { per_minute: 6 }

  etl-nightly:
    tenant: acme
    allow: [erp.*, crm.list_orders]
    confirm: [erp.post_*]
    confirm_by: queue
"""
CODE: Final = """\
roles:
  developer:
    allow: [github.*, files.*, maps.*]
    confirm: [github.merge_pull_request]
    confirm_by: queue

agents:
  code-agent-07:
    roles: [developer]
    deny: [files.write_file]
"""


@dataclass(frozen=True, slots=True)
class World:
    """The files of the demo: the configuration's path, the folder of the policies, and the key of each agent.

    servers: those that start.
    """

    folder: Path
    config: Path
    policies: Path
    keys: Mapping[str, str] = field(repr=False)
    servers: frozenset[str] = frozenset()

    @property
    def storage(self) -> str:
        """The URL of the database."""
        return f"sqlite+aiosqlite:///{self.folder / 'aggregator.db'}"

    def use_definitions(self, catalog: str, server: str) -> None:
        """Let the crm or the maps have the tools of another catalog from its next start on."""
        self.folder.joinpath(f"{server}-definitions").write_text(catalog)


def write_world(
    folder: Path, *, at_once: bool = False, more: Mapping[str, Any] | None = None, **settings: Any
) -> World:
    """Write the demo into a folder; `at_once` has its servers answer without the delays of real ones.

    `more` are further servers, `settings` further fields at the root of the configuration.
    """
    policies = folder / "policies"
    policies.mkdir(parents=True)
    (policies / "shop.yaml").write_text(SHOP)
    (policies / "code.yaml").write_text(CODE)
    made = {agent: new_key(agent, now=time.time()) for agent in AGENTS}
    lines = {agent: {"keys": [policy_line(key.record)]} for agent, key in made.items()}
    (policies / "keys.yaml").write_text(json.dumps({"agents": lines}))
    quick = ["--at-once"] if at_once else []

    def server(name: str, description: str, *args: str, **fields: Any) -> dict[str, Any]:
        command = {"command": sys.executable, "args": ["-I", str(SERVER), name, *quick, *args]}
        return {**command, "description": description, **fields}

    says = f"import sys, time; print({LAST_WORDS!r}, file=sys.stderr); sys.exit(3)"
    servers = {
        "crm": server("crm", "Customers, orders and offers", str(folder / "crm-definitions"), fallbacks=["crm-b"]),
        "crm-b": server("crm", "The spare of crm", prefix="crm-b", trigger_keywords=["offer"]),
        "github": server("github", "The organisation's code and pull requests"),
        "mail": server("mail", "The sales team's mailbox"),
        "maps": server("maps", "Weather and routes", str(folder / "maps-definitions")),
        "files": server("files", "The team's drive"),
        **({"waiting": server("waiting", "Calls that wait")} if at_once else {}),
        "erp": {"command": sys.executable, "args": ["-I", "-S", "-c", says], "description": "Ledger and invoices"},
        **(more or {}),
    }
    config = folder / "aggregator.json"
    storage = f"sqlite+aiosqlite:///{folder / 'aggregator.db'}"
    audit = {"capture": "full", "flush_interval": "20ms"}
    made_of = {"mcpServers": servers, "policies": str(policies), "storage": storage, "audit": audit, **settings}
    config.write_text(json.dumps(made_of, indent=2))
    keys = {agent: key.text for agent, key in made.items()}
    return World(folder, config, policies, keys, frozenset(servers) - {"erp"})
