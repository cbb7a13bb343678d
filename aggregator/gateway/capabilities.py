"""The capabilities declared to hosts. They do not depend on the configured servers; a list may be empty."""

from collections.abc import Mapping
from typing import Any, Final

CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    # Deprecated, but a server that passes log lines on must declare it (S/server/utilities/logging).
    "logging": {},
}
