"""A call as a case of the policy tests, in YAML."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from aggregator.domain.decision import ConfirmBy

Expected = Literal["allow", "deny", "confirm", "invalid"]

# The user has to write longer arguments.
LONGEST: Final = 64 * 1024


def policy_case(
    agent: str,
    tool: str,
    arguments: Mapping[str, Any] | None,
    expect: Expected,
    confirm_by: ConfirmBy | None = None,
    after: Sequence[str] = (),
) -> str:
    """Return a case that expects the current decision, in the form of a file of `policies/cases/`."""
    lines = ["cases:", f"  - agent: {_yaml(agent)}", f"    tool: {_yaml(tool)}"]
    if arguments is not None:
        written = _yaml(arguments)
        lines.append(f"    arguments: {written}" if len(written) <= LONGEST else "    # arguments: too long to show")
    if after:
        lines.append(f"    after: {_yaml(list(after))}")
    lines.append(f"    expect: {expect}")
    if confirm_by is not None:
        lines.append(f"    confirm_by: {confirm_by}")
    return "\n".join(lines) + "\n"


def _yaml(value: object) -> str:
    """Return a value as JSON that is YAML too: YAML takes no control characters, and joins no surrogates."""
    return "".join(char if char.isprintable() else _escape(char) for char in json.dumps(value, ensure_ascii=False))


def _escape(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
