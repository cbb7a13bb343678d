"""The settings of results that are too large for a model."""

from pydantic import Field

from aggregator.config.fields import MIB, Bytes, ConfigModel, Seconds, Whole


class ResultsConfig(ConfigModel):
    """Results over `max_tokens` are shown to models in part, and kept for `read_result`."""

    max_tokens: Whole = Field(
        default=10_000,
        ge=0,
        description="If the text of a result has more tokens than this, as estimated, a model gets its beginning, "
        "its size, and a handle to read on with `read_result`. This applies to `call_tool`, "
        "`read_tool`, `run_code` and `/v1`; a tool that a host calls by its own name returns the "
        "whole result, unless `direct` is set. Errors, images and sound are never cut. Policy files "
        "may set less for an agent or a tool (`result_tokens`). `0`: never.",
        examples=[25_000],
    )
    direct: bool = Field(
        default=False,
        description="`true`: `max_tokens` also applies to tools that a host calls by their own names. Programs "
        "call tools that way too, and cannot read a part of a JSON text.",
    )
    keep: Seconds = Field(
        default=3600.0,
        description="How long such a result is kept, encrypted in the database of `storage`, and can be read.",
        examples=["15m"],
    )
    max_bytes: Bytes = Field(
        default=256 * MIB,
        description="The size of all kept results together, compressed; one agent may use a quarter of it at "
        "most. The oldest are removed first.",
        examples=["1GiB"],
    )
    output_schemas: bool = Field(
        default=True,
        description="`false`: lists leave out the `outputSchema` of tools, so a large structured result can be "
        "left out too. `true`: if a tool was listed with a schema, its structured result is passed on "
        "whole.",
    )
