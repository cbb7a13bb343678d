"""The section `health` of a server."""

from pydantic import Field

from aggregator.config.fields import ConfigModel, Seconds, Whole


class HealthConfig(ConfigModel):
    "Health checks of a server: their interval, and when it counts as dead."

    enabled: bool = Field(
        default=True,
        description="`false`: no health checks. Calls alone show whether the server answers, and after it was given "
        "up the next call is the trial.",
    )
    interval: Seconds = Field(
        default=30.0,
        description="After about this long without a message a server is asked whether it is there: with `ping`, or "
        "`server/discover` if the protocol has no ping.",
    )
    timeout: Seconds = Field(default=10.0, description="How long its answer to that may take.")
    failures: Whole = Field(
        default=3,
        ge=1,
        description="After so many requests in a row without an answer, and no sign of life meanwhile, calls are "
        "answered at once with `upstream_unavailable` until it answers again.",
    )
