"""The settings of the search of tools."""

from pydantic import Field

from aggregator.config.fields import ConfigModel


class SearchConfig(ConfigModel):
    """The search of tools by words and by meaning."""

    semantic: bool = Field(
        default=False,
        description="`true`: tools are also found by meaning, with the model of `aggregator-mcp[semantic]`, which must "
        "be installed.",
    )
