"""The areas of `scripts/mutate`: which parts of the package, and which tests are to notice a fault there.

Rule: every module of the package and the examples belongs to one area, and every folder of tests to at least one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple


class Area(NamedTuple):
    """Folders and files of the package, and the tests that are to notice a fault in them, the nearest first.

    A module belongs to the area that names it most closely.
    """

    code: tuple[str, ...]
    tests: tuple[str, ...]


def _area(code: str, tests: str) -> Area:
    """Write an area in fewer words: paths below `aggregator` and below `tests`."""
    return Area(tuple(f"aggregator/{path}" for path in code.split()), tuple(f"tests/{path}" for path in tests.split()))


AREAS: Final[Mapping[str, Area]] = {
    "accounts": _area("accounts", "grants accounts connect authorization storage/test_vault_rows.py"),
    "adapters": _area("adapters", "adapters"),
    "app": _area("app", "operating observability doctor access accounts replicas faults"),
    "audit": _area("audit storage/audit cli/audit app/audit_events.py", "audit observability telemetry"),
    "backup": _area("storage/backup storage/retention.py app/retention.py cli/store", "backup audit storage"),
    "calls": _area("gateway/calls gateway/recording gateway/call_log.py", "direct passthrough access failover faults"),
    "catalog": _area(
        "catalog app/catalog_sync.py app/catalog_updates.py", "search intent levels meta unit supervision"
    ),
    "cli": _area("__init__.py __main__.py cli", "first_steps operating packaging unit policy config console terminal"),
    "code": _area("code", "code kept_results flow/test_roundabout.py"),
    "config": _area("config app/reload cli/trust.py", "config first_steps unit operating secrets access identity"),
    "console": _area(
        "frontends/console gateway/browse.py gateway/playground app/console.py cli/console.py "
        "storage/console_sessions.py",
        "console",
    ),
    "dialects": _area("dialects", "dialects v1"),
    "doctor": _area("doctor cli/doctor cli/check.py", "doctor first_steps"),
    "domain": _area("domain", "unit passthrough bounds direct access oauth"),
    "editing": _area("editing", "editing adding install"),
    "examples": Area(("examples",), ("tests/examples",)),
    "flow": _area("flow", "flow flow_corpus direct"),
    "frontends": _area("frontends", "unit bounds end_to_end direct faults passthrough deploy"),
    "gateway": _area("gateway", "features server_requests access passthrough meta observability faults"),
    "intent": _area("intent", "intent levels"),
    "hosts": _area("hosts cli/hosts storage/hosts.py app/host_cleanup.py", "hosts install real_hosts"),
    "identity": _area(
        "identity gateway/access.py gateway/revocation.py gateway/constant_time.py storage/keys.py cli/keys.py "
        "app/key_sync.py",
        "identity access tokens",
    ),
    "meta": _area("gateway/meta", "meta levels search access direct"),
    "notify": _area("notify", "notify"),
    "tool_reports": _area("tool_reports", "tool_reports storage console"),
    "oauth": _area("accounts/oauth", "oauth authorization"),
    "packages": _area("packages cli/servers", "adding first_steps"),
    "pins": _area("pins", "pins pins_running storage/test_pins.py"),
    "policy": _area("policy app/policies.py cli/policy", "policy access passthrough"),
    "reads": _area("gateway/reads", "passthrough access flow skills"),
    "redaction": _area("redaction audit/capture.py", "unit faults/test_secrets.py observability telemetry secrets"),
    "replicas": _area(
        "replicas frontends/forwarded.py frontends/web/forwarder.py app/reports.py app/merged_report.py",
        "replicas storage/test_group_rows.py",
    ),
    "results": _area("results", "results kept_results storage/test_kept_results.py direct"),
    "schemas": _area("schemas", "schemas access"),
    "secrets": _area("secret_sources cli/secrets", "secrets identity"),
    "sessions": _area("frontends/web/sessions", "replicas/test_sessions.py tokens unit end_to_end"),
    "skills": _area("skills", "skills search"),
    "storage": _area("storage", "storage backup postgres audit"),
    "system": _area("system", "windows supervision secrets"),
    "telemetry": _area("telemetry app/telemetry.py", "telemetry observability benchmarks"),
    "tokens": _area("identity/tokens", "tokens authorization"),
    "upstream": _area(
        "upstream", "unit/test_upstream_lists.py supervision faults failover server_requests operating passthrough"
    ),
    "v1": _area("frontends/v1", "v1"),
    "wire": _area("wire", "unit faults server_requests bounds conformance"),
    "workers": _area(
        "workers frontends/acceptor.py cli/workers.py",
        "replicas/test_worker_parts.py replicas/test_workers.py replicas/test_group_facts.py",
    ),
}


def modules(folder: Path) -> dict[str, str]:
    """Return the area of each module in `folder`, of the package or an example, by its path; empty if none names it."""
    named = [(path, name) for name, area in AREAS.items() for path in area.code]
    found = {}
    for module in sorted(module for top in ("aggregator", "examples") for module in (folder / top).rglob("*.py")):
        path = module.relative_to(folder).as_posix()
        own = [(len(code), name) for code, name in named if path == code or path.startswith(f"{code}/")]
        found[path] = max(own, default=(0, ""))[1]
    return found
