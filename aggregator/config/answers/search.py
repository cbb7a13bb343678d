"""The settings of the search of tools."""

from pydantic import Field

from aggregator.config.fields import ConfigModel


class SearchConfig(ConfigModel):
    """The search of tools by words and by meaning."""

    semantic: bool = Field(
        default=False,
        description="`true`: tools are also found by meaning, with the extra `aggregator-mcp[semantic]` and the "
        "models that are installed, one for English, one for other languages: "
        "docs/what-models-see.md. The models take 100 and 150 MB of memory, and 25 ms of a core each "
        "for a new query.",
    )
