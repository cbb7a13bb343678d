"""Files of `NAME=value` lines, as VS Code's `envFile` names them."""

import re

_LINE = r"(?a)\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*"
_QUOTED = r"""(["'])(.*?)\1\s*(?:#.*)?"""


def parse_env_file(text: str) -> dict[str, str]:
    """Return the variables of a file; empty lines, comments and lines of any other form are skipped."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := re.fullmatch(_LINE, line):
            found[match[1]] = _value(match[2])
    return found


def _value(text: str) -> str:
    if quoted := re.fullmatch(_QUOTED, text):
        return quoted[2].replace("\\n", "\n") if quoted[1] == '"' else quoted[2]
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
