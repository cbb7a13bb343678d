"""The settings of the search of tools."""

from pydantic import Field

from aggregator.config.fields import ConfigModel


class SearchConfig(ConfigModel):
    """The search of tools by words and by meaning."""

    semantic: bool = Field(
        default=False,
        description="`true`: tools are also found by meaning, with the extra `aggregator-mcp[semantic]` and a model, "
        "which must be installed: docs/what-models-see.md. It takes 100 MB of memory, and 25 ms of a core for each "
        "new query.",
    )
