"""One MCP server in front of many.

In a Python program: `async with aggregator.open_gateway("aggregator.json") as gateway: ...` (docs/python.md).

Terms (docs/glossary.md has all of them):
  host: a program that connects here as an MCP client
  agent: the identity that the policy decides about
  upstream: an MCP server that is connected from here, and supervised
  frontend: what accepts hosts, over stdio, Streamable HTTP, SSE or `/v1`
  layer: a row of packages in `LAYERS`; imports go down only

Entry point: `open_gateway` for Python programs, `cli.main` for the command line.
Must not import: anything, so that `import aggregator` loads nothing; tests/test_layers.py holds that.
"""

__version__ = "0.1.0"
# What package indexes call it, and what is before the brackets of an extra (docs/decisions/0027-the-name.md).
DISTRIBUTION = "aggregator-mcp"

# The import layers of the package, top to bottom. A module imports from rows below its own, never from a neighbour in
# the same row and never upwards; tests/test_layers.py reads this plan.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli", "adapters"),
    ("doctor",),
    ("app",),
    ("frontends",),
    ("gateway",),
    (
        "identity",
        "policy",
        "catalog",
        "pins",
        "results",
        "code",
        "schemas",
        "upstream",
        "audit",
        "telemetry",
        "notify",
        "hosts",
        "packages",
        "grants",
    ),
    ("replicas", "workers", "oauth"),
    ("config", "storage", "wire"),
    ("redaction", "editing", "secret_sources"),
    ("domain", "system"),
)

# The same inside each package that has subpackages: rows of its subpackages and modules, top to bottom. "." stands for
# the modules that are not named, which may import each other.
INNER_LAYERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "cli": (
        ("commands",),
        ("first_run",),
        ("policy", "hosts", "doctor"),
        ("servers", "pins"),
        ("secrets",),
        (".", "audit", "connections", "flow", "notify", "store", "tool_reports"),
        ("runtime",),
    ),
    "cli.hosts": (("commands",), ("install",), (".",)),
    "cli.servers": (("commands",), ("adding",), (".",)),
    "frontends": (
        ("server",),
        ("v1", "console", "."),
        ("connect",),
        ("web", "stdout"),
        ("http_server", "tls"),
        ("acceptor",),
        ("connection_admission", "spare_answers", "uvicorn_parts"),
    ),
    "frontends.web": (
        ("streamable_http", "sse", "request_cache", "connection_limits"),
        ("forwarder",),
        ("sessions",),
        (".",),
    ),
    "frontends.console": (("entry",), ("console",), ("pages",), ("calls",), (".",), ("parts", "view")),
    "app": (
        ("build", "console"),
        ("accounts",),
        ("app",),
        ("reports",),
        ("status",),
        ("reload",),
        ("parts",),
        (".",),
        ("pins",),
        ("notices",),
    ),
    "gateway": (
        ("dispatcher", "browse"),
        ("playground",),
        ("host_lists",),
        ("meta", "reads"),
        ("calls",),
        ("agent_items",),
        ("request",),
        ("ask", "access", "handshake"),
        ("flow", "dialects"),
        ("hooks",),
        ("views", "call_log", "eras"),
        (".",),
        ("recording", "results", "pins"),
    ),
    "doctor": (("examine",), ("mend",), ("gather",), ("checks",), (".",), ("finding",), ("codes",)),
    "identity": ((".",), ("tokens",)),
    "policy": (
        ("live",),
        ("compare",),
        ("files",),
        (".",),
        ("flow",),
        ("index",),
        ("rules",),
        ("annotations", "patterns"),
    ),
    "catalog": (("catalog", "resources"), ("intent", "."), ("describe", "search", "templates", "pages")),
    "catalog.search": (("semantic",), (".",), ("terms",)),
    "schemas": (
        ("checks", "dialects"),
        ("workers",),
        (
            "check",
            "interpreter",
            "branches",
            "coerce",
            "expected",
            "narrowed",
            "refusal",
            "wording",
            "signature",
            "compatible",
            "look_alikes",
            "output",
        ),
        ("structure", "read_text"),
        (".",),
    ),
    "upstream.transports": ((".",), ("http_clients",)),
    "upstream": (
        ("supervisor",),
        ("upstreams",),
        ("upstream",),
        ("session_choice",),
        ("shared_connection",),
        ("health",),
        ("lists",),
        ("sessions",),
        ("transports",),
        ("connection",),
        ("lifecycle", "process"),
        (".",),
    ),
    "config": (
        ("load",),
        ("sections",),
        ("receivers",),
        ("servers", "difference"),
        (".",),
        ("auth", "answers"),
        ("files",),
        ("fields",),
        ("errors", "durations"),
    ),
    "storage": (
        ("lazy_database",),
        ("opening", "database", "backup"),
        ("retention",),
        ("audit", "hosts", "group", "vault", "results", "."),
        ("engine", "quick_read", "pin_rows"),
        ("migrations", "locate"),
        ("tables", "records", "tool_report_rows", "errors", "digest"),
        ("table_parts",),
    ),
    "domain": (("call", "missing", "bounds"), (".",), ("uris", "text")),
}

# Features: what belongs to one stands in one folder. A part of it stands in the plan above as if it were the module or
# package on the right, so that the layers hold inside a feature too.
FEATURES: dict[str, dict[str, str]] = {
    "accounts": {
        "app": "app.accounts",
        "ask": "gateway.ask.accounts",
        "cli": "cli.connections",
        "config": "config.auth.server_auth",
        "connect": "frontends.connect",
        "connect_links": "gateway.recording.connect_links",
        "console": "frontends.console.pages.connections",
        "doctor.checks": "doctor.checks.accounts",
        "doctor.gather": "doctor.gather.accounts",
        "grants": "grants",
        "oauth": "oauth",
        "storage": "storage.vault",
        "tables": "storage.table_parts.vault",
    },
    "code": {
        "config": "config.answers.code",
        "meta_tool": "gateway.meta.run_code",
        "programs": "gateway.meta.programs",
        "sandbox": "code",
    },
    "dialects": {"gateway": "gateway.dialects", "mend": "schemas.dialects", "names": "domain.dialects"},
    "flow": {
        "app": "app.flow",
        "cli": "cli.flow",
        "compare": "policy.compare.flow",
        "decide": "policy.flow",
        "gateway": "gateway.flow",
        "lint": "policy.files.lint_flow",
        "storage": "storage.flow",
        "tables": "storage.table_parts.flow",
    },
    "intent": {"match": "catalog.intent", "meta_tool": "gateway.meta.match_intent"},
    "notify": {
        "app": "app.notices",
        "cli": "cli.notify",
        "config": "config.notify",
        "receivers": "config.receivers",
        "send": "notify",
    },
    "pins": {
        "app": "app.pins",
        "cli": "cli.pins",
        "console.data": "frontends.console.pin_data",
        "console.page": "frontends.console.pages.pins",
        "decide": "pins",
        "gateway": "gateway.pins",
        "rows": "storage.pin_rows",
        "storage": "storage.pins",
        "tables": "storage.table_parts.pins",
    },
    "replicas": {
        "config": "config.replicas",
        "group": "replicas",
        "hop_listener": "frontends.hop_listener",
        "storage": "storage.group",
    },
    "results": {
        "config": "config.answers.results",
        "gateway": "gateway.results",
        "kept_reads": "gateway.calls.kept_reads",
        "meta_tool": "gateway.meta.read_result",
        "read": "results",
        "storage": "storage.results",
    },
    "skills": {
        "catalog": "catalog.skills",
        "files": "gateway.reads.skill_files",
        "finder": "gateway.views.skill_finder",
        "meta_tools": "gateway.meta.skills",
        "reads": "gateway.reads.skills",
        "uris": "domain.uris.skills",
    },
    "tool_reports": {
        "book": "gateway.recording.tool_reports",
        "cli": "cli.tool_reports",
        "console": "frontends.console.pages.tool_reports",
        "doctor": "doctor.checks.tool_reports",
        "meta_tool": "gateway.meta.report_tool",
        "rows": "storage.tool_report_rows",
        "storage": "storage.tool_reports",
        "tables": "storage.table_parts.tool_reports",
    },
}

# What programs use, by the module that has it: loaded when it is first asked for. `__init__.pyi` says the same to type
# checkers.
_PUBLIC: dict[str, str] = {
    "AggregatorError": "aggregator.domain.errors",
    "Gateway": "aggregator.adapters.gateway",
    "OperatorError": "aggregator.domain.errors",
    "RpcError": "aggregator.domain.errors",
    "Tool": "aggregator.adapters.gateway",
    "open_gateway": "aggregator.adapters.gateway",
}
__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(__import__(_PUBLIC[name], fromlist=[name]), name)
    return found
