"""The sections at the root of the file: frontends, checks, search, audit, redaction, log."""

import os
import re
import warnings
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from aggregator import LAYERS
from aggregator.config.fields import MIB, Bytes, ConfigModel, Seconds, Whole
from aggregator.dialects.names import Schemas
from aggregator.domain.text.error_text import error_text
from aggregator.domain.uris.addresses import parse_network

Names = Literal["canonical", "compatible"]
Expose = Literal["all", "search", "auto", "code"]
Level = Literal["debug", "info", "warning", "error"]


class SearchConfig(ConfigModel):
    """The search of tools by words and by meaning."""

    semantic: bool = Field(
        default=False,
        description="`true`: tools are also found by meaning, with the extra `aggregator-mcp[semantic]` and the "
        "models that are installed, one for English, one for other languages: "
        "docs/what-models-see.md. The models take 100 and 150 MB of memory, and 25 ms of a core each "
        "for a new query.",
    )


class SecretsConfig(ConfigModel):
    """Sources of secrets: `${keyring:name}` and `${command:program argument ...}` in the entries of servers."""

    commands: tuple[str, ...] = Field(
        default=(),
        description="The programs that `${command:...}` may run, as the reference writes them: names to look up "
        "on `PATH`, or full paths. Without it, no program runs for a secret.",
        examples=[["op", "/usr/local/bin/vault"]],
    )
    timeout: Seconds = Field(
        default=10.0,
        description="How long the keyring, or one such program, may take to give one secret.",
        examples=["1m"],
    )

    @field_validator("commands")
    @classmethod
    def _programs(cls, commands: tuple[str, ...]) -> tuple[str, ...]:
        for command in commands:
            named = bool(command) and os.path.basename(command) == command and command not in (".", "..")
            if not command.isprintable() or not (named or os.path.isabs(command)):
                raise ValueError("expected the names of programs, such as op, or full paths")
        return commands


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"expected a regular expression ({error_text(error)})") from None
    return pattern


def _nameable(path: str) -> str:
    if "\0" in path:
        raise ValueError("expected a path without the character NUL, which no system takes")
    return path


def _proxy(text: str) -> str:
    return str(parse_network(text))


def _own_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        whole = _URL.fullmatch(url) and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        whole = None
    if not whole or {".", ".."} & set(parts.path.split("/")):
        raise ValueError("expected an address such as https://tools.example.com, with a plain path or without")
    return url


def _trace_url(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https") or url.count("{trace_id}") != 1 or not url.isprintable():
        raise ValueError("expected an http or https address with {trace_id} in it, once")
    return url


Expression = Annotated[str, AfterValidator(_compiles)]
PathText = Annotated[str, AfterValidator(_nameable)]
Proxy = Annotated[str, AfterValidator(_proxy)]
OwnUrl = Annotated[str, AfterValidator(_own_url)]
TraceUrl = Annotated[str, AfterValidator(_trace_url)]
_URL = re.compile(r"https?://[^/?#\s]+(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*/?", re.IGNORECASE)


class FrontendConfig(ConfigModel):
    """One frontend, through which hosts connect."""

    enabled: bool = Field(default=True, description="`false`: this frontend is closed.")
    expose: Expose | None = Field(
        default=None,
        description="How much this frontend lists, in place of the root's `expose`.",
        examples=["search"],
    )
    names: Names | None = Field(
        default=None,
        description="How tools are listed: `canonical` as `server.tool`, `compatible` as `server__tool` for hosts "
        "that refuse dots. Calls accept either. Default: `compatible` for hosts whose `clientInfo` is known to "
        "refuse dots (docs/hosts-and-servers.md), and `canonical` for all others.",
        examples=["compatible"],
    )
    schemas: Schemas | None = Field(
        default=None,
        description="The dialect of definitions in lists. `anthropic`, `openai`, `openai-strict` and `gemini` "
        "keep the rules of that model API; `portable` keeps those of `anthropic`, `openai` and "
        "`gemini`; `original` leaves definitions unchanged. Default: by the host's `clientInfo` and "
        "`User-Agent` (docs/hosts-and-servers.md), `original` for unknown ones.",
        examples=["portable"],
    )


class StdioConfig(FrontendConfig):
    """The stdio frontend, which most hosts that refuse dots use."""

    names: Names | None = Field(
        default="compatible",
        description="How tools are listed: `compatible` as `server__tool`, `canonical` as `server.tool`. Calls "
        "accept either.",
        examples=["canonical"],
    )
    max_message_bytes: Bytes = Field(
        default=64 * MIB, description="A message of the host that is larger than this is refused.", examples=["4MiB"]
    )


class TlsConfig(ConfigModel):
    """TLS of our own, for the web frontends without a proxy in front of them."""

    certificate: str = Field(
        min_length=1,
        description="The file of the certificate and its intermediate certificates, in PEM. Relative paths start "
        "from the configuration file's folder, here and below. New connections use changed files.",
        examples=["/etc/aggregator/tls/tls.crt"],
    )
    key: str = Field(
        min_length=1, description="The file of its private key, in PEM.", examples=["/etc/aggregator/tls/tls.key"]
    )
    key_password: str | None = Field(
        default=None,
        min_length=1,
        repr=False,
        description="The password of the private key, if the file is encrypted.",
        examples=["${TLS_KEY_PASSWORD:-the password}"],
    )
    client_ca: str | None = Field(
        default=None,
        min_length=1,
        description="A file of certificate authorities, in PEM. Clients without a certificate of one of these are "
        "refused, except at `/healthz` and `/readyz`. Clients still need a key.",
        examples=["/etc/aggregator/tls/clients.crt"],
    )


class HttpConfig(FrontendConfig):
    """The Streamable HTTP frontend, and the address that the SSE frontend shares with it."""

    host: str = Field(default="127.0.0.1", min_length=1, description="The address to listen on.", examples=["::1"])
    port: Whole = Field(
        default=8642,
        ge=0,
        le=65535,
        description="The port to listen on; 0 takes a free one. The default avoids 8000 and 8080, which servers "
        "under development often use.",
        examples=[9000],
    )
    path: str = Field(
        default="/mcp", pattern=r"^/[^\s?#]*$", description="The path of Streamable HTTP.", examples=["/tools"]
    )
    public_url: OwnUrl | None = Field(
        default=None,
        description="The address by which hosts reach this aggregator, if it differs from the listening address, "
        "such as the address of a reverse proxy. It includes the path that the proxy puts before "
        "ours; the proxy may remove that path or pass it on. Its `Host` and `Origin` are accepted, "
        "and our own links use it.",
        examples=["https://tools.example.com/ai"],
    )
    tls: TlsConfig | None = Field(
        default=None,
        description="TLS of our own: `https://` in place of `http://`. If it has a fault, the aggregator does not "
        "start.",
        examples=[{"certificate": "/etc/aggregator/tls/tls.crt", "key": "/etc/aggregator/tls/tls.key"}],
    )
    trusted_proxies: tuple[Proxy, ...] = Field(
        default=(),
        description="Addresses and networks of reverse proxies whose statements about their clients are trusted "
        "(`X-Forwarded-For`, `Forwarded`, `X-Forwarded-Prefix`): the client is the rightmost address "
        "that is not one of these. The client's address is used to slow down wrong keys and for the "
        "audit. It never replaces a key: a request that a proxy forwarded always needs one.",
        examples=[["127.0.0.1", "10.0.0.0/8"]],
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(),
        description="`Host` headers to accept, as `name` or `name:port`, besides `localhost`, the addresses of "
        "this machine and `public_url`. All others are refused, except for `/healthz` and `/readyz`.",
        examples=[["tools.example.com"]],
    )
    allowed_origins: tuple[str, ...] = Field(
        default=(),
        description="`Origin` headers of web pages to accept besides our own, even those of other programs on "
        "this machine. All others are refused.",
        examples=[["https://chat.example.com", "http://localhost:6274"]],
    )
    max_body_bytes: Bytes = Field(
        default=4 * MIB, description="A request that is larger than this is refused.", examples=["16MiB"]
    )
    session_idle_timeout: Seconds = Field(
        default=1800.0,
        description="A session without a request for this long is removed from memory; it continues with its next "
        "request.",
        examples=["1h"],
    )
    max_sessions: Whole = Field(
        default=10_000,
        ge=1,
        description="How many sessions may be open at once, those of SSE included. One agent with a key may have half.",
        examples=[100],
    )
    max_streams: Whole = Field(
        default=5_000,
        ge=1,
        description="How many event streams hosts may keep open at once: standing streams, those of SSE, and "
        "subscriptions. One agent with a key may have half.",
        examples=[100],
    )
    max_pending: Whole = Field(
        default=2_000,
        ge=1,
        description="How many requests of hosts may be in progress at once. One agent with a key may have half.",
        examples=[100],
    )
    stall_timeout: Seconds = Field(
        default=30.0,
        description="How long a host may take to send a request, and to read its answer; longer only while it "
        "sends or reads some kilobytes a second.",
        examples=["10s"],
    )


class V1Config(ConfigModel):
    """`/v1` of `aggregator serve`: plain HTTP for applications that do not speak MCP."""

    enabled: bool = Field(default=True, description="`false`: this frontend is closed.")
    max_calls_per_conversation: Whole | None = Field(
        default=3,
        ge=1,
        description="How many tool calls one conversation may make here; `null` for as many as the policies allow.",
        examples=[10],
    )
    max_calls_per_request: Whole = Field(
        default=16, ge=1, le=1000, description="How many tool calls one request may carry.", examples=[4]
    )


class ConsoleConfig(ConfigModel):
    "The console of `aggregator serve`: web pages at `/console`."

    enabled: bool = Field(default=True, description="`false`: there are no pages.")
    trace_url: TraceUrl | None = Field(
        default=None,
        description="The address of a trace in your trace system, with `{trace_id}` in place of its id.",
        examples=["https://traces.example.com/trace/{trace_id}"],
    )


class ChecksConfig(ConfigModel):
    """Slow checks of arguments and results. They are made in processes of their own; all others are made
    at once."""

    timeout: Seconds = Field(
        default=2.0,
        description="How long one such check may take. After that, arguments are refused; for results, see "
        "`output_validation`.",
        examples=["500ms"],
    )


class AuditConfig(ConfigModel):
    """The audit log: one row for every call, and for what else an admin wants to find later."""

    enabled: bool = Field(default=True, description="`false`: nothing is written.")
    capture: Literal["none", "arguments", "full"] = Field(
        default="none",
        description="The content of a call that is kept besides sizes and digests: `none`, its `arguments`, or "
        "the result too (`full`), without secrets.",
        examples=["arguments"],
    )
    durability: Literal["default", "strict"] = Field(
        default="default",
        description="`strict`: a call starts after the database has recorded its beginning, and is answered after "
        "its row is stored; while the database accepts no rows, no call starts. `default`: a killed "
        "process loses at most the rows of `flush_interval`, and of the calls in flight.",
        examples=["strict"],
    )
    flush_interval: Seconds = Field(default=0.1, description="How long rows are gathered before they are written.")
    keep_for: Seconds | None = Field(
        default=90 * 86_400.0, description="Older rows are removed; `null` keeps them.", examples=["365d"]
    )
    keep_bytes: Bytes | None = Field(
        default=1024 * MIB,
        description="Above this size the oldest rows are removed; `null` sets no limit.",
        examples=["100MiB"],
    )
    max_captured_bytes: Bytes = Field(
        default=16 * 1024, description="The most that is kept of one value.", examples=["1MiB"]
    )
    chain_key: str | None = Field(
        default=None,
        min_length=32,
        repr=False,
        description="A secret of 32 characters or more for the chain of the log, so that an attacker without it "
        "cannot add, change or remove a row unnoticed. Once a log has a key, only processes with this key write to "
        "it.",
        examples=["${AGGREGATOR_CHAIN_KEY:-a secret of 32 or more characters}"],
    )


class RedactConfig(ConfigModel):
    """Redaction of logs, the audit, spans and errors, besides the secrets that this file names."""

    patterns: bool = Field(
        default=True,
        description="`false`: well-known forms of keys, values of fields with telling names and queries of "
        "addresses stay.",
    )
    fields: tuple[str, ...] = Field(
        default=(), description="Further names of fields whose values are removed.", examples=[["patient_id"]]
    )
    also: tuple[Expression, ...] = Field(
        default=(),
        description="Further regular expressions; with groups, only the text in those is removed.",
        examples=[["EMP-[0-9]{6}"]],
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # `json` shadows a deprecated method of pydantic, which is not called here

    class LogConfig(ConfigModel):
        """The log, which goes to stderr."""

        level: Level = Field(default="info", description="The least serious events to log.", examples=["debug"])
        json: bool = Field(default=False, description="`true`: one JSON object per line.")  # type: ignore[assignment]
        levels: Mapping[str, Level] = Field(
            default={},
            description="Levels of components, in place of `level`: the first part of a logger's name, or "
            "`server.NAME` for what that server prints.",
            examples=[{"upstream": "debug"}],
        )

        @field_validator("levels")
        @classmethod
        def _components(cls, levels: Mapping[str, Level]) -> Mapping[str, Level]:
            known = {part for layer in LAYERS for part in layer} | {"server"}
            for name in levels:
                if name.partition(".")[0] not in known:
                    raise ValueError(f"expected one of {', '.join(sorted(known))}, not {name!r}")
            return levels
