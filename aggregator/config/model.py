"""What can be configured. The descriptions here are the reference: the docs and the JSON Schema are made from them."""

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from aggregator.config.durations import DURATION_PATTERN, SIZE_PATTERN, parse_duration, parse_size

MIB = 2**20
DEFAULT_MAX_TIMEOUT = 600.0


def _whole(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a whole number")
    return value


def _texts(value: object) -> object:
    """Numbers and true/false as text (hosts accept them in `env` and `args`); a null takes its entry away."""
    if isinstance(value, Mapping):
        return {key: _text(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_text(item) for item in value]
    return value


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": DURATION_PATTERN}]}
    ),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": SIZE_PATTERN}]}),
]
Whole = Annotated[int, BeforeValidator(_whole)]
_SCALAR: dict[str, Any] = {"type": ["string", "number", "boolean"]}
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts), WithJsonSchema({"type": "array", "items": _SCALAR})]
TextMap = Annotated[
    Mapping[str, str],
    BeforeValidator(_texts),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}),
]

Names = Literal["canonical", "compatible"]
ServerType = Literal["stdio", "sse", "http", "auto", "local"]
Protocol = Literal["auto", "legacy", "modern"]
OutputValidation = Literal["enforce", "warn", "off"]


class Part(BaseModel):
    """A frozen piece of configuration whose errors never show what was in it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class LaunchConfig(Part):
    """A program that the aggregator starts before it connects to `url`, and stops with the connection."""

    command: str = Field(min_length=1, description="The program to start, looked up on `PATH`.", examples=["uvx"])
    args: Texts = Field(
        default=(), repr=False, description="Its arguments.", examples=[["my-server", "--port", "9000"]]
    )
    env: TextMap = Field(
        default={},
        repr=False,
        description="Environment variables it gets besides the usual few.",
        examples=[{"PORT": "9000"}],
    )
    cwd: str | None = Field(
        default=None,
        description="The folder it runs in, relative to the configuration file's.",
        examples=["servers/weather"],
    )


class ToolsConfig(Part):
    """Which of a server's tools exist here, and how long each may take."""

    include: tuple[str, ...] = Field(
        default=(),
        description="Only tools that match one of these shell patterns, over the server's own tool names. Empty: "
        "every tool.",
        examples=[["read_*", "search"]],
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Tools that match one of these shell patterns are left out, whatever `include` says.",
        examples=[["delete_*"]],
    )
    timeout: Mapping[str, Seconds] = Field(
        default={},
        description="The time limit per tool name or shell pattern, in place of the server's `timeout`. The first "
        "match counts.",
        examples=[{"export_*": "5m"}],
    )


class ServerConfig(Part):
    """One upstream server. `id`, `key` and `disabled_reason` are worked out; the rest is an entry of `mcpServers`."""

    id: str = Field(description="The server's name here: the key, in letters, digits, `_` and `-`.")
    key: str = Field(description="The key as the file has it.")
    prefix: str = Field(
        description="The first half of this server's tool names, in letters, digits, `_` and `-`. Default: the key.",
        examples=["gh"],
    )
    type: ServerType = Field(
        description="How the server is reached: `stdio` (a program's stdin and stdout), `http` (Streamable HTTP), "
        "`sse` (HTTP with SSE, protocol 2024-11-05), `auto` (Streamable HTTP first, SSE when the "
        "server turns out to be older), `local` (a Python object in this process). Default: `stdio` "
        "with `command`, `auto` with `url`, `local` with `target`. `streamable-http`, `streamableHttp` "
        "and `streamable_http` mean `http`.",
        examples=["http"],
    )
    command: str | None = Field(
        default=None, min_length=1, description="`stdio`: the program to start, looked up on `PATH`.", examples=["npx"]
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
        description="`stdio`: environment variables it gets besides the usual few (`PATH`, `HOME` and the like).",
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
    proxy: str | None = Field(
        default=None,
        repr=False,
        description="`http`, `sse`, `auto`: the HTTP proxy on the way there, with user and password where it wants "
        "them.",
        examples=["http://proxy.example.com:3128"],
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
        "connection. `{port}` in `url`, `args` and `env` stands for a port that is free at that moment.",
        examples=[{"command": "uvx", "args": ["my-server", "--port", "{port}"]}],
    )
    description: str = Field(
        default="",
        description="What the service is good for, for people and models. Default: the key.",
        examples=["Maps and routes in China"],
    )
    trigger_keywords: tuple[str, ...] = Field(
        default=(), description="Words in a question that point to this server.", examples=[["map", "route", "地图"]]
    )
    enabled: bool = Field(default=True, description="`false`: the entry is checked, and the server is not connected.")
    timeout: Seconds = Field(default=30.0, description="How long a call may take.", examples=["2m"])
    max_timeout: Seconds = Field(
        default=DEFAULT_MAX_TIMEOUT,
        description="The hard maximum of a call, progress or not. Default: 10 minutes, or the longest time-out the "
        "entry names.",
        examples=["30m"],
    )
    timeout_resets_on_progress: bool = Field(
        default=False, description="`true`: each progress report starts the call's time anew, up to `max_timeout`."
    )
    connect_timeout: Seconds = Field(
        default=30.0, description="How long starting and greeting the server may take.", examples=["1m"]
    )
    heartbeat: Seconds = Field(
        default=60.0, description="`sse`: a stream that is silent this long is asked with a ping.", examples=["20s"]
    )
    protocol: Protocol = Field(
        default="auto",
        description="The protocol era to speak: `auto` finds out, `legacy` starts with the handshake (up to "
        "2025-11-25), `modern` does without (2026-07-28).",
        examples=["legacy"],
    )
    tools: ToolsConfig = Field(
        default=ToolsConfig.model_construct(), description="Which tools to take from the server, and their time limits."
    )
    trusted: bool = Field(
        default=False,
        description="`true`: what the server says of its own tools (read-only, destructive, idempotent) counts in "
        "policies.",
    )
    output_validation: OutputValidation = Field(
        default="warn",
        description="Results against the tool's `outputSchema`: `enforce` turns a misfit into an error, `warn` logs "
        "it, `off` does not look.",
        examples=["enforce"],
    )
    coerce: bool = Field(
        default=False,
        description="`true`: arguments that models often get wrong in form are put right first, such as a number in "
        "quotes.",
    )
    max_message_bytes: Bytes = Field(
        default=64 * MIB,
        description="A message from the server that is larger than this is refused.",
        examples=["8MiB"],
    )
    disabled_reason: str | None = Field(
        default=None,
        description="Why the aggregator itself switched the server off, such as a variable that is not set.",
    )


class DoorConfig(Part):
    """A way in for hosts."""

    enabled: bool = Field(default=True, description="`false`: this way in is closed.")
    names: Names = Field(
        default="canonical",
        description="How tools are listed: `canonical` as `server.tool`, `compatible` as `server__tool` for hosts "
        "that refuse dots. Calls accept either.",
        examples=["compatible"],
    )


class StdioConfig(DoorConfig):
    """The stdio door, which most hosts that refuse dots use."""

    names: Names = Field(
        default="compatible",
        description="How tools are listed: `compatible` as `server__tool`, `canonical` as `server.tool`. Calls "
        "accept either.",
        examples=["canonical"],
    )


class HttpConfig(DoorConfig):
    """The Streamable HTTP door, and the address that the SSE door shares with it."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.", examples=["::1"])
    port: Whole = Field(
        default=8642,
        ge=0,
        le=65535,
        description="The port to listen on; 0 takes a free one. The default keeps clear of 8000 and 8080, where "
        "servers under development tend to live.",
        examples=[9000],
    )
    path: str = Field(
        default="/mcp", pattern=r"^/[^\s?#]*$", description="Where Streamable HTTP is served.", examples=["/tools"]
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="`Host` headers to accept besides the address listened on, as `name` or `name:port`. All "
        "others are refused.",
        examples=[["tools.example.com"]],
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        description="`Origin` headers of web pages to accept. All others are refused.",
        examples=[["https://chat.example.com"]],
    )
    max_body_bytes: Bytes = Field(
        default=4 * MIB, description="A request that is larger than this is refused.", examples=["16MiB"]
    )
    session_idle_timeout: Seconds = Field(
        default=1800.0, description="A session without a request for this long is ended.", examples=["1h"]
    )
    max_sessions: Whole = Field(
        default=10_000, ge=1, description="How many sessions may be open at once.", examples=[100]
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydantic has a deprecated method `json`, which nothing here calls

    class LogConfig(Part):
        """The log, which goes to stderr."""

        level: Literal["debug", "info", "warning", "error"] = Field(
            default="info", description="The least serious events to log.", examples=["debug"]
        )
        json: bool = Field(default=False, description="`true`: one JSON object per line.")  # type: ignore[assignment]


class Config(Part):
    """The whole of `aggregator.json`, with what the environment adds."""

    servers: tuple[ServerConfig, ...] = Field(default=(), description="The upstream servers, in the order of the file.")
    http: HttpConfig = Field(
        default=HttpConfig.model_construct(), description="The Streamable HTTP door of `aggregator serve`."
    )
    sse: DoorConfig = Field(default=DoorConfig.model_construct(), description="The SSE door of `aggregator serve`.")
    stdio: StdioConfig = Field(default=StdioConfig.model_construct(), description="The door of `aggregator stdio`.")
    startup_wait: Seconds = Field(
        default=10.0,
        description="How long the first list of tools waits for servers that are still connecting.",
        examples=["3s"],
    )
    straggler_wait: Seconds = Field(
        default=2.5,
        description="Once a server is ready, how long that first list waits for each next one. Hosts that "
        "listen are told of those that come later.",
        examples=["10s"],
    )
    name_limit: Whole = Field(
        default=47,
        ge=24,
        le=64,
        description="The longest `server__tool` name. Hosts put up to 17 characters before it and stop at 64.",
        examples=[64],
    )
    policies: str = Field(
        default="policies",
        min_length=1,
        description="The folder of the policy files, relative to the configuration file's. With no file in it, one "
        "local agent may do everything.",
        examples=["/etc/aggregator/policies"],
    )
    storage: str | None = Field(
        default=None,
        repr=False,
        description="The database for keys and approvals, as an SQLAlchemy URL. Default: an SQLite file in the "
        "platform's data folder.",
        examples=["sqlite+aiosqlite:////var/lib/aggregator/aggregator.db"],
    )
    log: LogConfig = Field(default=LogConfig.model_construct(), description="What is logged, and how.")
