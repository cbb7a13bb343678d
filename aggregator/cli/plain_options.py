"""The usual plain command lines of `serve` and `stdio`.

Hosts wait for the first answer, and typer takes longer to import than all modules before it; it also takes memory as
long as the program runs. Other command lines go to typer, errors and help included.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_COMMON: Final = {"--config": "path", "-c": "path", "--names": "names", "--log-level": "log_level"}
# By command, the options with a value, and which argument of the command's `run` each sets.
VALUED: Final = {
    "serve": {**_COMMON, "--host": "host", "--port": "port", "--workers": "workers"},
    "stdio": {**_COMMON, "--agent": "agent", "--expose": "expose"},
}
CHOICES: Final = {
    "names": ("canonical", "compatible"),
    "expose": ("all", "search", "auto", "code"),
    "log_level": ("debug", "info", "warning", "error"),
}
_LARGEST_PORT: Final = 65535


def plain_options(words: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the command and the arguments of its `run`; None unless each option is a word, once, before its value."""
    command = words[0] if words else ""
    valued = VALUED.get(command)
    if valued is None:
        return None
    options: dict[str, Any] = {**dict.fromkeys(valued.values()), "log_json": False}
    rest = iter(words[1:])
    for word in rest:
        if word == "--log-json":
            options["log_json"] = True
            continue
        name = valued.get(word)
        value = _value(name, next(rest, "")) if name is not None and options[name] is None else None
        if name is None or value is None:
            return None
        options[name] = value
    return command, options


def _value(name: str, text: str) -> str | int | Path | None:
    """Return the value of an option as its command takes it; None for one that typer has to judge."""
    if not text or text.startswith("-") or not text.isprintable() or text not in CHOICES.get(name, (text,)):
        return None
    if name == "path":
        return Path(text)
    if name == "port":
        return int(text) if text.isascii() and text.isdecimal() and int(text) <= _LARGEST_PORT else None
    if name == "workers":
        return text if text == "auto" or (text.isascii() and text.isdecimal()) else None
    return text
