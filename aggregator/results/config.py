"""The settings of results that are too large for a model."""

from pydantic import Field

from aggregator.config.fields import MIB, Bytes, ConfigModel, Seconds, Whole


class ResultsConfig(ConfigModel):
    """Results over `max_tokens` are shown to models in part, and kept for `read_result`."""

    max_tokens: Whole = Field(
        default=10_000,
        ge=0,
        description="The text of a result with more tokens than this, as estimated, is shown to a model in part: its "
        "beginning, how much there is, and a handle by which the model reads on with `read_result`. It counts for "
        "`call_tool`, `read_tool`, `run_code` and `/v1`; a host's own calls of tools get results whole, unless "
        "`direct` is set. Errors, images and sound are never cut. Policy files may say less for an agent or a tool "
        "(`result_tokens`). `0`: never.",
        examples=[25_000],
    )
    direct: bool = Field(
        default=False,
        description="`true`: `max_tokens` also counts for tools that a host calls by their own names. Programs call so "
        "too, and cannot read a part of a JSON text.",
    )
    keep: Seconds = Field(
        default=3600.0,
        description="How long the whole of such a result can be read, encrypted in the database of `storage`.",
        examples=["15m"],
    )
    max_bytes: Bytes = Field(
        default=256 * MIB,
        description="What is kept of all of them together, compressed; an agent has a quarter of it at most. The "
        "oldest make room.",
        examples=["1GiB"],
    )
    output_schemas: bool = Field(
        default=True,
        description="`false`: lists leave out the `outputSchema` of tools, and so a large structured result can be "
        "left out too. Otherwise the structured result of a tool that was listed with a schema is passed on whole.",
    )
