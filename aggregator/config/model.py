"""The model of the whole configuration; docs/configuration.md and the JSON Schema are generated from the
descriptions."""

from collections.abc import Iterable
from typing import Self

from pydantic import Field, PrivateAttr

from aggregator.code.config import CodeConfig
from aggregator.config.auth.issuers import AuthConfig
from aggregator.config.fields import MIB, Bytes, ConfigModel, Seconds, Whole
from aggregator.config.server_config import LeftOutEntry, ServerConfig
from aggregator.config.settings import (
    AuditConfig,
    ChecksConfig,
    ConsoleConfig,
    Expose,
    FrontendConfig,
    HttpConfig,
    LogConfig,
    PathText,
    RedactConfig,
    SearchConfig,
    SecretsConfig,
    StdioConfig,
    V1Config,
)
from aggregator.notify.config import ReceiverConfig
from aggregator.replicas.config import ReplicasConfig
from aggregator.results.config import ResultsConfig


class Config(ConfigModel):
    """The whole of `aggregator.json`, with what the environment adds."""

    servers: tuple[ServerConfig, ...] = Field(default=(), description="The upstream servers, in the order of the file.")
    http: HttpConfig = Field(
        default=HttpConfig.model_construct(), description="The Streamable HTTP frontend of `aggregator serve`."
    )
    sse: FrontendConfig = Field(
        default=FrontendConfig.model_construct(), description="The SSE frontend of `aggregator serve`."
    )
    stdio: StdioConfig = Field(default=StdioConfig.model_construct(), description="The frontend of `aggregator stdio`.")
    v1: V1Config = Field(
        default=V1Config.model_construct(), description="`/v1` of `aggregator serve`, for applications without MCP."
    )
    console: ConsoleConfig = Field(
        default=ConsoleConfig.model_construct(), description="The console: web pages for operators."
    )
    expose: Expose = Field(
        default="all",
        description="How much a host lists: `all` every tool that the agent may call, `search` the meta tools "
        "that find and call the others, and the tools in `pinned`; `auto` is `search` for agents "
        "whose whole list would cost more than `expose_budget`; `code` is `search` with `run_code`, "
        "with which a model calls tools in programs (docs/what-models-see.md). Every tool can be "
        "called by its name, listed or not.",
        examples=["auto"],
    )
    expose_budget: Whole = Field(
        default=8_000, ge=0, description="`auto`: the tokens that a whole list may cost a model.", examples=[20_000]
    )
    pinned: tuple[str, ...] = Field(
        default=(),
        description="Tools that are always listed, as names or shell patterns over `server.tool`.",
        examples=[["github.search_*", "time.get_current_time"]],
    )
    read_tool: bool = Field(
        default=False,
        description="`true`: lists `read_tool` beside `call_tool`. It only calls read-only tools, so that a host "
        "can allow it without asking. It costs about 60 tokens.",
    )
    report_tool: bool = Field(
        default=False,
        description="`true`: agents may report a tool that is broken, by the meta tool `report_tool` and by "
        "`/v1/reports`. The console and `aggregator reports list` show the reports. It costs about 50 tokens.",
    )
    max_results_bytes: Bytes = Field(
        default=512 * MIB,
        description="How much the results of all calls in flight may take together, as JSON; results up to 64 KiB "
        "do not count. One agent, and one server, may use half of it at most. If there is no room for "
        "a result, it is dropped, and its call fails with `results_full`.",
        examples=["2GiB"],
    )
    checks: ChecksConfig = Field(
        default=ChecksConfig.model_construct(), description="Slow checks of arguments and results."
    )
    results: ResultsConfig = Field(
        default=ResultsConfig.model_construct(), description="Results that are too large for a model."
    )
    code: CodeConfig = Field(
        default=CodeConfig.model_construct(), description="Programs that a model writes to call tools (`expose: code`)."
    )
    search: SearchConfig = Field(default=SearchConfig.model_construct(), description="The search for tools.")
    startup_wait: Seconds = Field(
        default=10.0,
        description="How long the first list of tools waits for servers that are still connecting.",
        examples=["3s"],
    )
    straggler_wait: Seconds = Field(
        default=2.5,
        description="Once a server is ready, how long that first list waits for each next one. Hosts that listen are "
        "notified of later ones.",
        examples=["10s"],
    )
    shutdown_timeout: Seconds = Field(
        default=10.0,
        description="How long calls in flight may still take when the aggregator ends, or when their server is "
        "removed from this file or replaced in it.",
        examples=["30s"],
    )
    shutdown_delay: Seconds | None = Field(
        default=None,
        description="How long the aggregator still serves everything after a signal to end, while `/readyz` says "
        "503 and connections end with their next answer. Load balancers and Kubernetes need this time "
        "to send requests elsewhere. After it, no new connection is accepted.",
        examples=["5s"],
    )
    name_limit: Whole = Field(
        default=47,
        ge=24,
        le=64,
        description="The longest `server__tool` name. Hosts put up to 17 characters before it and stop at 64.",
        examples=[64],
    )
    policies: PathText = Field(
        default="policies",
        min_length=1,
        description="The folder of the policy files, relative to the configuration file's. If it holds no file, "
        "one local agent may do everything. If a folder named here does not exist at the start, no agent "
        "may do anything.",
        examples=["/etc/aggregator/policies"],
    )
    storage: str | None = Field(
        default=None,
        repr=False,
        description="The database for keys, approvals, catalogs and the audit: `sqlite:///PATH`, with a path "
        "relative to the configuration file's folder, or `postgresql://USER@HOST/DATABASE` with the "
        "options of libpq, which needs `aggregator-mcp[postgres]` (docs/scaling.md). References for "
        "the password are resolved for each connection. Default: an SQLite file in the platform's "
        "data folder.",
        examples=["sqlite+aiosqlite:////var/lib/aggregator/aggregator.db"],
    )
    audit: AuditConfig = Field(
        default=AuditConfig.model_construct(), description="The audit log, in the database of `storage`."
    )
    replicas: ReplicasConfig = Field(
        default=ReplicasConfig.model_construct(), description="Replicas: several processes that serve as one."
    )
    auth: AuthConfig = Field(default=AuthConfig.model_construct(), description="OAuth: access with tokens.")
    secrets: SecretsConfig = Field(
        default=SecretsConfig.model_construct(),
        description="Sources of secrets, besides the keyring, variables and files.",
    )
    redact: RedactConfig = Field(default=RedactConfig.model_construct(), description="The redaction of secrets.")
    log: LogConfig = Field(default=LogConfig.model_construct(), description="The log: events and format.")
    registry: str = Field(
        default="https://registry.modelcontextprotocol.io",
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#]*)?$",
        description="The MCP Registry in which `aggregator add --from` looks names up; `http://` only on this machine.",
        examples=["https://registry.example.com"],
    )
    notify: tuple[ReceiverConfig, ...] = Field(
        default=(),
        description="Receivers of notifications: webhooks and programs.",
        examples=[[{"name": "on-call", "url": "https://hooks.example.com/aggregator"}]],
    )

    _left_out: tuple[LeftOutEntry, ...] = PrivateAttr(default=())

    @property
    def left_out(self) -> tuple[LeftOutEntry, ...]:
        """The entries of the file that cannot be used."""
        return self._left_out

    @property
    def names_policies(self) -> bool:
        """True if the configuration file names the folder of the policy files itself."""
        return "policies" in self.model_fields_set

    def with_entries(self, servers: tuple[ServerConfig, ...], left_out: Iterable[LeftOutEntry]) -> Self:
        """Return the configuration with these servers, and the entries that cannot be used."""
        made = self.model_copy(update={"servers": servers})
        made._left_out = tuple(left_out)
        return made

    def all_started(self) -> "Config":
        """Return the configuration with every server started eagerly and never stopped for being idle: for commands
        that look at every server once.
        """
        return self.model_copy(update={"servers": tuple(map(_awake, self.servers))})

    def only_started(self, server: str) -> "Config":
        """Return the configuration with one server started eagerly; the others wait for their first call."""
        others = {one.id: one.model_copy(update={"start": "on_call"}) for one in self.servers if one.id != server}
        return self.model_copy(update={"servers": tuple(others.get(one.id) or _awake(one) for one in self.servers)})


def _awake(server: ServerConfig) -> ServerConfig:
    limits = server.limits.model_copy(update={"idle_timeout": None})
    return server.model_copy(update={"start": "eager", "limits": limits})
