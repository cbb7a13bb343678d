"""What of a result is held against the tool's `outputSchema`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aggregator.schemas.fault import Fault

if TYPE_CHECKING:
    from aggregator.schemas.check import Check


def output_faults(check: "Check", result: Mapping[str, Any], limit: int = 10) -> tuple[Fault, ...]:
    """Nothing for an error result, which need not be structured (S/server/tools, Output Schema)."""
    if result.get("isError") is True:
        return ()
    if "structuredContent" not in result:
        return (Fault("", "structuredContent, for the tool declares an outputSchema", "nothing", "required"),)
    return check.faults(result["structuredContent"], limit)
