"""The settings at the root that have fields of their own: doors, search, log."""

import warnings
from typing import Literal

from pydantic import Field

from aggregator.config.fields import MIB, Bytes, Part, Seconds, Whole

Names = Literal["canonical", "compatible"]
Expose = Literal["all", "search", "auto"]


class DoorConfig(Part):
    """A way in for hosts."""

    enabled: bool = Field(default=True, description="`false`: this way in is closed.")
    expose: Expose | None = Field(
        default=None,
        description="How much is listed at this door, in place of the root's `expose`.",
        examples=["search"],
    )
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


class V1Config(Part):
    """`/v1` of `aggregator serve`: plain HTTP for applications that do not speak MCP."""

    enabled: bool = Field(default=True, description="`false`: this way in is closed.")
    max_calls_per_conversation: Whole | None = Field(
        default=3,
        ge=1,
        description="How many tool calls one conversation may make here; `null` for as many as the policies allow.",
        examples=[10],
    )
    max_calls_per_request: Whole = Field(
        default=16, ge=1, le=1000, description="How many tool calls one request may carry.", examples=[4]
    )


class SearchConfig(Part):
    """How tools are found."""

    semantic: bool = Field(
        default=False,
        description="`true`: tools are also found by meaning, with the model of `aggregator[semantic]`, which must "
        "be installed.",
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pydantic has a deprecated method `json`, which nothing here calls

    class LogConfig(Part):
        """The log, which goes to stderr."""

        level: Literal["debug", "info", "warning", "error"] = Field(
            default="info", description="The least serious events to log.", examples=["debug"]
        )
        json: bool = Field(default=False, description="`true`: one JSON object per line.")  # type: ignore[assignment]
