"""The model of one server's entry; docs/configuration.md and the JSON Schema are generated from the descriptions."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from aggregator.accounts.config import ServerAuthConfig
from aggregator.config.client_tls import ServerTlsConfig
from aggregator.config.fields import ConfigModel, Seconds, TextMap, Texts
from aggregator.config.server_parts import AcceptedChanges, HealthConfig, LaunchConfig, LimitsConfig, ToolsConfig
from aggregator.secret_sources.reference import DeferredText

ServerType = Literal["stdio", "sse", "http", "auto", "local"]
Protocol = Literal["auto", "legacy", "modern"]
OutputValidation = Literal["enforce", "warn", "off"]
Isolation = Literal["auto", "shared", "per_agent", "per_session"]
Start = Literal["eager", "lazy", "on_call"]


class LeftOutEntry(NamedTuple):
    """An entry that cannot be used: its name, and why, as a clause without a value ("`auth` cannot be used")."""

    name: str
    why: str


class ServerConfig(ConfigModel):
    """One upstream server. `id`, `key`, `disabled_reason`, `references` and `entry` are derived; the rest stands in
    `mcpServers`."""

    id: str = Field(description="The server's name here: the key, in letters, digits, `_` and `-`.")
    key: str = Field(description="The key as the file has it.")
    prefix: str = Field(
        description="The first half of this server's tool names, in letters, digits, `_` and `-`; its URIs have "
        'it too. `""`, which one server may have, leaves names and URIs unchanged, except for those '
        "that another server could have. Default: the key.",
        examples=["gh"],
    )
    type: ServerType = Field(
        description="How the server is reached: `stdio` (a program's stdin and stdout), `http` (Streamable HTTP), "
        "`sse` (HTTP with SSE, protocol 2024-11-05), `auto` (Streamable HTTP first, SSE if the server "
        "is older), `local` (a Python object in this process). Default: `stdio` with `command`, "
        "`auto` with `url`, `local` with `target`. `streamable-http`, `streamableHttp` and "
        "`streamable_http` mean `http`.",
        examples=["http"],
    )
    command: str | None = Field(
        default=None,
        min_length=1,
        description="`stdio`: the program to start: looked up on `PATH`, or a path from `cwd`, else from the "
        "configuration file's folder.",
        examples=["npx"],
    )
    args: Texts = Field(
        default=(),
        repr=False,
        description="`stdio`: its arguments.",
        examples=[["-y", "@modelcontextprotocol/server-everything"]],
    )
    env: TextMap = Field(
        default={},
        repr=False,
        description="`stdio`: environment variables for the program. It also gets the usual few: `PATH`, `HOME` "
        "and the like, those about certificates (`SSL_CERT_FILE`, `NODE_EXTRA_CA_CERTS` and the "
        "like), and proxies and settings of package managers (`HTTPS_PROXY`, `UV_*`, `PIP_*`, "
        "`NPM_CONFIG_*`) without user names and passwords.",
        examples=[{"GITHUB_TOKEN": "${GITHUB_TOKEN}"}],
    )
    cwd: str | None = Field(
        default=None,
        description="`stdio`: the folder it runs in, relative to the configuration file's. Default: the "
        "aggregator's own.",
        examples=["servers/weather"],
    )
    url: str | None = Field(
        default=None,
        repr=False,
        description="`http`, `sse`, `auto`: the server's address, `http://` or `https://`. It is never logged with "
        "its query.",
        examples=["https://mcp.example.com/mcp?key=${EXAMPLE_KEY}"],
    )
    headers: TextMap = Field(
        default={},
        repr=False,
        description="`http`, `sse`, `auto`: sent with every request. Their values are never shown or logged.",
        examples=[{"Authorization": "Bearer ${EXAMPLE_TOKEN}"}],
    )
    auth: ServerAuthConfig | None = Field(
        default=None, description="`http`, `sse`, `auto`: the aggregator gets access tokens for the server by OAuth."
    )
    proxy: str | None = Field(
        default=None,
        repr=False,
        description="`http`, `sse`, `auto`: the HTTP proxy on the way there, with user and password if it requires "
        "them.",
        examples=["http://proxy.example.com:3128"],
    )
    tls: ServerTlsConfig | None = Field(
        default=None,
        description="`http`, `sse`, `auto`: certificate authorities for this server, and a client certificate for it.",
        examples=[{"ca": "/etc/aggregator/company-ca.pem"}],
    )
    target: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$",
        description="`local`: a Python MCP server object, as `package.module:attribute`.",
        examples=["my_servers.weather:server"],
    )
    launch: LaunchConfig | None = Field(
        default=None,
        description="`http`, `sse`, `auto`: a program to start before connecting to `url`; it is stopped with the "
        "connection. `{port}` in `url`, `args` and `env` stands for a free port.",
        examples=[{"command": "uvx", "args": ["my-server", "--port", "{port}"]}],
    )
    description: str = Field(
        default="",
        description="The purpose of the server, for users and models. Default: the key.",
        examples=["Maps and routes in China"],
    )
    trigger_keywords: tuple[str, ...] = Field(
        default=(), description="Words in a question that point to this server.", examples=[["map", "route", "地图"]]
    )
    enabled: bool = Field(default=True, description="`false`: the entry is checked, and the server is not connected.")
    timeout: Seconds = Field(
        default=30.0,
        description="How long a call may take. A call that reports progress may take longer than the default, up "
        "to `limits.max_timeout`, but never longer than a time that is set here.",
        examples=["2m"],
    )
    start: Start = Field(
        default="eager",
        description="When the aggregator starts or connects the server: `eager` at once, `lazy` in the background "
        "a little later, without delaying the first list, `on_call` only with the first call, read or "
        "prompt. Until then, hosts get its last known list; if there is none, an `on_call` server is "
        "started once to read its tools.",
        examples=["on_call"],
    )
    protocol: Protocol = Field(
        default="auto",
        description="The protocol era to speak: `auto` detects it, and uses the host's era if a server speaks "
        "both (with `stdio` in a second process); `legacy` begins with the handshake, `modern` has "
        "none (2026-07-28).",
        examples=["legacy"],
    )
    isolation: Isolation = Field(
        default="auto",
        description="Who shares a connection. `auto`: all hosts, until a program has asked a host a question "
        "during a call; from then on, hosts that use it at the same time get processes of their own, and each "
        "call of a host of 2026-07-28, which has no session, is alone in a process. "
        "`shared`: always all hosts. `per_agent`: the hosts of one agent. `per_session`: each host "
        "session has its own connection, with `stdio` its own process; servers that keep state "
        "between calls may need it.",
        examples=["per_session"],
    )
    tools: ToolsConfig = Field(
        default=ToolsConfig.model_construct(), description="The tools to use from the server, and their time limits."
    )
    instructions: bool = Field(
        default=True,
        description="`true`: the first sentences of the server's own instructions go to models, under its name. "
        "`list_servers` shows all of them in any case.",
    )
    attribution: Literal["meta", "visible"] = Field(
        default="meta",
        description="The place in a result for its server, the time it was fetched and the age of its data: "
        "`meta` only `_meta`, `visible` also a last block of text.",
        examples=["visible"],
    )
    trusted: bool = Field(
        default=False,
        description="`true`: the server's own annotations (read-only, destructive, idempotent) count in policies. "
        "If it has a template that fits any `https:` URI, the template also accepts URIs that no "
        "server lists.",
    )
    trust: Literal["first_sight", "ask"] = Field(
        default="first_sight",
        description="The first definitions of a server: `first_sight` treats them as approved, `ask` shows "
        "nothing of the server until they are approved.",
        examples=["ask"],
    )
    on_change: Literal["hold", "warn"] | AcceptedChanges = Field(
        default=AcceptedChanges.model_construct(),
        description="For definitions that changed since their approval: `accept` names the classes of changes that are "
        "shown at once, `warn` shows every change, `hold` none. Other changes wait for an approval; the approved "
        "definition is served until then if calls by it still work, else the item is held.",
        examples=["hold"],
    )
    on_new: Literal["hold", "show"] = Field(
        default="hold",
        description="For tools, prompts, templates and skills that a server adds after its first list: `hold` holds "
        "them until they are approved, `show` shows and pins them, for a server that adds tools while it runs.",
        examples=["show"],
    )
    invisible_characters: Literal["remove", "keep"] = Field(
        default="remove",
        description="Invisible characters (control characters, overrides of the direction of text, zero-width "
        "spaces, tags) in the server's information, in its tools, resources and prompts, and in its questions to "
        "users. `remove` removes them, and leaves out items with one in their names; `keep` passes them on. Results "
        "are never changed.",
        examples=["keep"],
    )
    output_validation: OutputValidation = Field(
        default="warn",
        description="Results against the tool's `outputSchema`: `enforce` turns a mismatch into an error, `warn` "
        "logs it, `off` does not check.",
        examples=["enforce"],
    )
    coerce: bool = Field(
        default=True,
        description="Arguments that do not fit are corrected if only one meaning is possible, such as a number in "
        "quotes, and so are other spellings of declared names; `_meta` of the result lists the corrections. `false`: "
        "arguments are sent as they came or refused.",
        examples=[False],
    )
    health: HealthConfig = Field(
        default=HealthConfig.model_construct(),
        description="Health checks: requests by which the aggregator learns that the server still answers.",
    )
    limits: LimitsConfig = Field(
        default=LimitsConfig.model_construct(),
        description="Bounds on the server: its times, its messages, its waiting calls and its memory.",
        examples=[{"max_timeout": "30m", "memory_limit": "1GiB"}],
    )
    fallbacks: tuple[str, ...] = Field(
        default=(),
        description="Servers that answer calls while this server is down, by their keys, best first. A call goes "
        "to the first healthy one that has a tool of the same name, with a schema that accepts the "
        "same arguments.",
    )
    disabled_reason: str | None = Field(
        default=None,
        description="Why the aggregator itself switched the server off, such as a variable that is not set.",
    )
    references: SkipJsonSchema[tuple[DeferredText, ...]] = Field(
        default=(), repr=False, description="The texts with secrets in them that are completed for each connection."
    )
    entry: SkipJsonSchema[str] = Field(
        default="", repr=False, description="The key of the entry; see `aggregator.config.servers.entry_key`."
    )

    @property
    def shows_new(self) -> bool:
        """Return whether items that the server adds are shown without an approval."""
        given = self.on_change
        return self.on_new == "show" or given == "warn" or (not isinstance(given, str) and "new" in given.accept)

    def progress_extends(self, limit: float) -> bool:
        """Return True if progress starts a time limit anew: by its own setting, else if the limit is the default."""
        if self.limits.timeout_resets_on_progress is not None:
            return self.limits.timeout_resets_on_progress
        return limit == self.timeout and "timeout" not in self.model_fields_set


# The fields of an entry that are objects with options of ours.
GROUPS: Final[Mapping[str, type[ConfigModel]]] = {
    "launch": LaunchConfig,
    "tls": ServerTlsConfig,
    "tools": ToolsConfig,
    "limits": LimitsConfig,
    "health": HealthConfig,
    "auth": ServerAuthConfig,
}
