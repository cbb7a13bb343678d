"""The section `health` of a server."""

from pydantic import Field

from aggregator.config.fields import ConfigModel, Seconds, Whole


class HealthConfig(ConfigModel):
    """Health checks of a server: how often it is asked, and when it counts as dead."""

    enabled: bool = Field(
        default=True,
        description="`false`: the server is never asked by the aggregator itself. What becomes of calls then tells "
        "alone how it is, and where it was given up one call is the trial.",
    )
    interval: Seconds = Field(
        default=30.0,
        description="A server that said nothing for about this long is asked whether it is there: with `ping`, or "
        "`server/discover` where the protocol has no ping.",
    )
    timeout: Seconds = Field(default=10.0, description="How long its answer to that may take.")
    failures: Whole = Field(
        default=3,
        ge=1,
        description="After so many requests in a row without an answer, and no sign of life meanwhile, calls are "
        "answered at once with `upstream_unavailable` until it answers again.",
    )
