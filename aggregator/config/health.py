"""The section `health` of a server."""

from pydantic import Field

from aggregator.config.fields import ConfigModel, Seconds, Whole


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
