"""Parts of a server's entry: a program to start before connecting, the tools to take, and bounds on the server."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from aggregator.config.fields import MIB, Bytes, ConfigModel, Seconds, TextMap, Texts, Whole

DEFAULT_MAX_TIMEOUT = 600.0


class HealthConfig(ConfigModel):
    "Health checks of a server: their interval, and when it counts as dead."

    enabled: bool = Field(
        default=True,
        description="`false`: no health checks. Only calls show that the server answers; after the aggregator "
        "has given it up, the next call tries it again.",
    )
    interval: Seconds = Field(
        default=30.0,
        description="After about this long without a message, the aggregator sends the server a `ping`, or "
        "`server/discover` if the protocol has no ping.",
    )
    timeout: Seconds = Field(default=10.0, description="How long the answer to a health check may take.")
    failures: Whole = Field(
        default=3,
        ge=1,
        description="After so many health checks in a row without an answer, and no other message meanwhile, "
        "calls fail at once with `upstream_unavailable` until the server answers again.",
    )


class LaunchConfig(ConfigModel):
    """A program that the aggregator starts before it connects to `url`, and stops with the connection."""

    command: str = Field(
        min_length=1,
        description="The program to start: looked up on `PATH`, or a path from `cwd`, else from the configuration "
        "file's folder.",
        examples=["uvx"],
    )
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


ChangeClass = Literal[
    "cosmetic",
    "narrower",
    "steering",
    "wider",
    "description",
    "output",
    "safer_annotations",
    "other_annotations",
    "new",
    "renamed",
    "other",
]


class AcceptedChanges(ConfigModel):
    """The classes of changes of definitions that are accepted without an approval."""

    accept: tuple[ChangeClass, ...] = Field(
        default=("cosmetic",),
        description="The classes. A change of several classes is accepted if all of them are.",
        examples=[["cosmetic", "narrower", "wider"]],
    )


class ToolsConfig(ConfigModel):
    """The tools to take from a server, with their time limits and fallbacks."""

    include: tuple[str, ...] = Field(
        default=(),
        description="Only tools that match one of these shell patterns, over the server's own tool names. Empty: "
        "every tool.",
        examples=[["read_*", "search"]],
    )
    exclude: tuple[str, ...] = Field(
        default=(),
        description="Tools that match one of these shell patterns are left out, even if `include` matches them.",
        examples=[["delete_*"]],
    )
    timeout: Mapping[str, Seconds] = Field(
        default={},
        description="The time limit per tool name or shell pattern, in place of the server's `timeout`. The first "
        "match counts.",
        examples=[{"export_*": "5m"}],
    )
    fallbacks: Mapping[str, tuple[str, ...]] = Field(
        default={},
        description="Fallbacks per tool name or shell pattern, in place of the server's `fallbacks`: tools of other "
        "servers as `server.tool`, or servers, for their tool of the same name. The first match applies, `[]` means "
        'none: `{"search_*": ["other.find", "third"]}`.',
    )


class LimitsConfig(ConfigModel):
    """Bounds on a server: its times, its messages, its waiting calls and its memory."""

    max_timeout: Seconds = Field(
        default=DEFAULT_MAX_TIMEOUT,
        description="The hard maximum of a call, with or without progress. Default: 10 minutes, or the longest "
        "time-out in the entry.",
        examples=["30m"],
    )
    timeout_resets_on_progress: bool | None = Field(
        default=None,
        description="`true`: each progress report restarts the call's time, up to `max_timeout`. `false`: no "
        "report does. Default: `true` if no `timeout` is set. The aggregator always asks a server for "
        "progress; a host gets it if it asked.",
    )
    connect_timeout: Seconds = Field(
        default=30.0, description="How long the start of the server and its handshake may take.", examples=["1m"]
    )
    idle_timeout: Seconds | None = Field(
        default=None,
        description="A server without use for this long is stopped; its tools stay listed, and the next call "
        "starts it again. It then loses its state between calls. Default: never.",
        examples=["10m"],
    )
    grace: Seconds = Field(
        default=30.0,
        description="How long calls wait for a lost connection, each for `reconnect_wait` at most. After that, "
        "calls are answered at once with the reason, until the server is back. Its tools stay listed "
        "in any case.",
        examples=["2m"],
    )
    reconnect_wait: Seconds = Field(
        default=5.0,
        description="How long a call waits for a lost connection before it gets an error.",
        examples=["20s"],
    )
    max_message_bytes: Bytes = Field(
        default=64 * MIB,
        description="A message from the server that is larger than this is refused.",
        examples=["8MiB"],
    )
    max_message_values: Whole = Field(
        default=250_000,
        ge=1_000,
        description="A message from the server with more JSON values than this is refused unread: each value "
        "takes memory and time. Names of fields do not count; an empty object may count twice, a "
        "number of many digits as several values.",
        examples=[1_000_000],
    )
    max_pending: Whole = Field(
        default=1_000,
        ge=1,
        description="How many calls may wait for the server at once; further calls are refused.",
        examples=[50],
    )
    memory_limit: Bytes | None = Field(
        default=None,
        description="`stdio` and `launch`, on Linux: if the server's processes together use more private memory "
        "than this, the server is ended and started again. Measured once a second.",
        examples=["1GiB"],
    )
