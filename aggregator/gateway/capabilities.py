"""What the aggregator declares to hosts: the same whatever servers are there; a list may be empty."""

from collections.abc import Mapping
from typing import Any, Final

CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    # Deprecated, and all the same what servers must declare that pass log lines on (S/server/utilities/logging).
    "logging": {},
}
