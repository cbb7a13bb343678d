"""Parts of a server's entry: a program to start before connecting, and the tools to take."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from aggregator.config.fields import ConfigModel, Seconds, TextMap, Texts


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


ChangeClassName = Literal[
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

    accept: tuple[ChangeClassName, ...] = Field(
        default=("cosmetic", "narrower", "new"),
        description="The classes. A change of several classes is accepted if all of them are.",
        examples=[["cosmetic", "narrower", "wider", "new"]],
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
