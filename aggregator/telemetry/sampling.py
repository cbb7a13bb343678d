"""Which traces are recorded, by the standard variable `OTEL_TRACES_SAMPLER`.

It is decided when a call comes in, not when its span is made, because the flag we send on must tell the truth.
"""

import logging
from collections.abc import Mapping
from typing import Final

from aggregator.domain.trace_context import Sample

log = logging.getLogger(__name__)

SAMPLER: Final = "OTEL_TRACES_SAMPLER"
ARGUMENT: Final = "OTEL_TRACES_SAMPLER_ARG"
DEFAULT: Final = "parentbased_always_on"
_PARENT_BASED: Final = "parentbased_"
# The lower half of the trace id, as the SDKs of other languages take it: they sample the same traces.
_HALF: Final = 16


def sampler(environ: Mapping[str, str]) -> Sample:
    """The sampler of the environment; one that is not known, or its argument, is logged and the default taken."""
    name = environ.get(SAMPLER, "").strip().lower() or DEFAULT
    by_parent = name.startswith(_PARENT_BASED)
    root = _root(name.removeprefix(_PARENT_BASED), environ.get(ARGUMENT, "").strip())
    if root is None:
        log.warning("%s=%s is not a sampler known here; %s is used", SAMPLER, name, DEFAULT)
        by_parent, root = True, _at_ratio(1.0)
    return _by_parent(root) if by_parent else root


def _root(name: str, argument: str) -> Sample | None:
    match name:
        case "always_on":
            return _at_ratio(1.0)
        case "always_off":
            return _at_ratio(0.0)
        case "traceidratio":
            return _at_ratio(_ratio(argument))
        case _:
            return None


def _ratio(argument: str) -> float:
    try:
        ratio = float(argument or 1.0)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        log.warning("%s=%s is no number from 0 to 1; 1 is used", ARGUMENT, argument)
        return 1.0
    return ratio


def _at_ratio(ratio: float) -> Sample:
    bound = round(ratio * (1 << 64))

    def sample(trace_id: str, caller: bool | None) -> bool:
        return int(trace_id[_HALF:], 16) < bound

    return sample


def _by_parent(root: Sample) -> Sample:
    def sample(trace_id: str, caller: bool | None) -> bool:
        return root(trace_id, None) if caller is None else caller

    return sample
