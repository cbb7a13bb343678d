"""Variables as Windows writes them, `%APPDATA%`, in the entries of hosts on Windows."""

import re
from collections.abc import Mapping
from typing import Any, Final

_WRITTEN: Final = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*(?:\([A-Za-z0-9]+\))?)%", re.ASCII)
# What every session of Windows has, so that it is a variable also if an import runs elsewhere.
_USUAL: Final = frozenset(
    {"ALLUSERSPROFILE", "APPDATA", "COMPUTERNAME", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH"}
    | {"PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PUBLIC", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP"}
    | {"USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR"}
)
_TEXTS: Final = ("command", "cwd", "envFile")


def with_references(fields: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return an entry in which `%NAME%` is `${NAME}`, and notes about it.

    Only the names of variables that there are count: an address may hold `%41%` for other reasons, and is not changed.
    """
    known = _USUAL | {name.upper() for name in environ}
    notes: list[str] = []

    def text(value: str) -> str:
        return _WRITTEN.sub(replaced, value)

    def replaced(found: re.Match[str]) -> str:
        name = found[1].upper()
        if name not in known:
            return found[0]
        if not name.isidentifier():
            notes.append(f"`%{name}%` cannot be a reference here: write the path that it stands for.")
            return found[0]
        notes.append(f"`%{name}%` is written as ${{{name}}} here.")
        return f"${{{name}}}"

    made = dict(fields)
    for key in _TEXTS:
        if isinstance(made.get(key), str):
            made[key] = text(made[key])
    if isinstance(args := made.get("args"), list):
        made["args"] = [text(word) if isinstance(word, str) else word for word in args]
    if isinstance(env := made.get("env"), Mapping):
        made["env"] = {name: text(value) if isinstance(value, str) else value for name, value in env.items()}
    return made, tuple(dict.fromkeys(notes))
