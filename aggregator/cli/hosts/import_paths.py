"""Entries made independent of the folder that their host would have started them in."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aggregator.packages.plan import literal

_WORKSPACE: Final = re.compile(r"\$\{(?:workspaceFolder(?::[^{}]*)?|cwd)\}")
_ABSOLUTE: Final = re.compile(r"[/\\~]|[A-Za-z]:[/\\]|\$\{")
_INPUT: Final = re.compile(r"\$\{input:([^{}]+)\}")
_SIMPLE: Final = re.compile(r"[\w.:/@ ,+-]{1,200}", re.ASCII)


def placed(fields: Mapping[str, Any], base: Path | None, notes: list[str]) -> dict[str, Any]:
    """Return an entry whose paths hold in any folder; `base` is the project's, None for an entry of the user."""
    made = dict(fields)
    if base is None:
        if any(_WORKSPACE.search(text) for text in _texts(made)):
            notes.append("${workspaceFolder} stands for the folder of the configuration file here.")
        if _is_relative(made.get("command")) and "cwd" not in made:
            notes.append("The path of its program is relative: set `cwd`, or write the whole path.")
        return made
    project = Path(literal(str(base)))  # its name may hold what would be a reference
    made = _mapped(made, lambda text: _in_project(text, project))
    for key in ("cwd", "envFile"):
        if key in made and not _ABSOLUTE.match(made[key]):
            made[key] = str(project / made[key])
    if "command" in made:
        folder = Path(made.setdefault("cwd", str(project)))
        if _is_relative(made["command"]):
            made["command"] = str(folder / made["command"])
    return made


def answered(fields: Mapping[str, Any], root: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return an entry in which the `inputs` of VS Code with a default are variables with this default."""
    inputs = root.get("inputs")
    known = {
        str(item.get("id")): item for item in (inputs if isinstance(inputs, list) else ()) if isinstance(item, Mapping)
    }

    def answer(found: re.Match[str]) -> str:
        variable = re.sub(r"\W", "_", found[1], flags=re.ASCII).upper()
        asked = known.get(found[1], {})
        default = asked.get("default")
        hidden = asked.get("password") is True
        if isinstance(default, str) and _SIMPLE.fullmatch(default) and not hidden and not variable[:1].isdigit():
            notes.append(
                f"The input `{found[1][:40]}` has a default; the variable {variable[:60]} answers it otherwise."
            )
            return f"${{{variable}:-{default}}}"
        notes.append(f"VS Code asks for `{found[1][:40]}`: here the variable {variable[:60]} answers it.")
        return found[0]

    return _mapped(fields, lambda text: _INPUT.sub(answer, text))


def _in_project(text: str, base: Path) -> str:
    text = _WORKSPACE.sub(lambda _: str(base), text)
    return text.replace("${workspaceFolderBasename}", base.name)


def _is_relative(command: object) -> bool:
    return isinstance(command, str) and re.search(r"[/\\]", command) is not None and not _ABSOLUTE.match(command)


def _texts(fields: Mapping[str, Any]) -> list[str]:
    found: list[str] = []

    def collect(text: str) -> str:
        found.append(text)
        return text

    _mapped(fields, collect)
    return found


def _mapped(fields: Mapping[str, Any], change: Any) -> dict[str, Any]:
    """Return an entry with each text in it changed."""

    def mapped(value: Any) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, Mapping):
            return {key: mapped(item) for key, item in value.items()}
        return [mapped(item) for item in value] if isinstance(value, list) else value

    return {key: mapped(value) for key, value in fields.items()}
