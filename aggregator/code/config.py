"""The settings of programs that a model writes to call tools."""

from pydantic import Field

from aggregator.config.fields import MIB, Bytes, ConfigModel, Seconds, Whole


class CodeConfig(ConfigModel):
    """The bounds of one program of `run_code`, which needs `aggregator-mcp[code]`."""

    max_calls: Whole = Field(default=50, ge=1, description="How many tool calls one program may make.", examples=[10])
    timeout: Seconds = Field(
        default=60.0,
        description="How long one program may run, not counting its calls and questions to users.",
        examples=["10s"],
    )
    memory: Bytes = Field(default=64 * MIB, description="The memory that one program may use.", examples=["16MiB"])
