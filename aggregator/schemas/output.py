"""The checks of a result that need no schema, before `structuredContent` is checked against the `outputSchema`."""

from collections.abc import Mapping
from typing import Any

from aggregator.schemas.fault import Fault

_MISSING = (Fault("", "structuredContent, for the tool declares an outputSchema", "nothing", "required"),)


def known_faults(result: Mapping[str, Any]) -> tuple[Fault, ...] | None:
    """Return the faults known without the schema; None where `structuredContent` has to be checked.

    Nothing is wrong with an error result, which need not be structured (S/server/tools, Output Schema).
    """
    if result.get("isError") is True:
        return ()
    return None if "structuredContent" in result else _MISSING
