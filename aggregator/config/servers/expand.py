"""References in texts: `${VAR}`, `${VAR:-default}`, `${file:path}`, and the names that hosts give to folders.

Law: an error names the variable or file, never a value. `${$}` stands for a `$`; any other `$` is itself.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST_FILE = 2**20
_DEEPEST = 10
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class ExpandError(Exception):
    """A reference that cannot be resolved. `message` and `fix` are sentences without any value in them."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


@dataclass(frozen=True)
class Expander:
    """A resolver of references in texts.

    `folder` is the folder of the configuration file, which relative paths and `${workspaceFolder}` mean. `inputs` are
    the defaults of VS Code's `inputs`, by id. `secrets` collects every value that was put in, `files` every file that
    was read or is missing.
    """

    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    inputs: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    secrets: set[str] = field(default_factory=set, repr=False)
    files: set[Path] = field(default_factory=set, repr=False)

    def expand(self, text: str, depth: int = 0) -> str:
        """Return a text with all references resolved, those in inserted values left alone. Raises ExpandError."""
        if "${" not in text:
            return text
        if depth > _DEEPEST:
            raise ExpandError(
                "The ${...} references are nested too deeply.", "Write the text without so many defaults."
            )
        parts: list[str] = []
        at = 0
        while (start := text.find("${", at)) >= 0:
            end = _closing_brace(text, start + 2)
            parts += text[at:start], self._value(text[start + 2 : end], depth)
            at = end + 1
        return "".join(parts) + text[at:]

    def read(self, written: str, depth: int = 0) -> str:
        """Return the text of a file of at most 1 MiB; its path may hold references. Raises ExpandError."""
        full = self.folder / os.path.expanduser(self.expand(written, depth))
        path = _shortened(written)
        self.files.add(full)
        try:
            if full.exists() and not full.is_file():  # reading a pipe or a device could block without end
                raise ExpandError(f"{path} is not an ordinary file.", "Name a text file.")
            with full.open("rb") as file:
                content = file.read(_LARGEST_FILE + 1)
            text = content.decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ExpandError(
                f"The file {path} cannot be read: {reason}.",
                f"Create it, make it readable, or correct the path, which is relative to {self.folder}.",
            ) from None
        if len(content) > _LARGEST_FILE:
            raise ExpandError(f"The file {path} is larger than 1 MiB.", "Name a file that holds the value alone.")
        return text

    def _value(self, reference: str, depth: int) -> str:
        made = _BUILTINS.get("workspaceFolder" if reference.startswith("workspaceFolder:") else reference)
        if made:
            return made(self.folder)
        kind, colon, rest = reference.partition(":")
        if colon and kind == "file":
            return self._secret(self.read(rest, depth + 1).rstrip("\r\n"))
        if colon and kind == "input":
            return self._input(rest)
        if colon and kind == "env":
            reference = rest
        name, has_default, default = reference.partition(":-")
        if not name or not _NAME_CHARACTERS.issuperset(name):
            raise ExpandError(
                f"${{{_shortened(reference)}}} is not a reference that is known here.",
                "Use ${NAME}, ${NAME:-default} or ${file:path}; write ${$} for a plain $.",
            )
        found = self.environ.get(name)
        if has_default:
            return self._secret(found) if found else self.expand(default, depth + 1)
        if found is None:
            raise ExpandError(
                f"The environment variable {name} is not set.",
                f"Set {name} before starting the aggregator, or give a default: ${{{name}:-default}}.",
            )
        return self._secret(found)

    def _input(self, name: str) -> str:
        """Return the value of a VS Code input, from the environment variable named like its id in capitals."""
        variable = "".join(c if c in _NAME_CHARACTERS else "_" for c in name).upper()
        found = self.environ.get(variable)
        if found is None:
            found = self.inputs.get(name)
        if found is None:
            raise ExpandError(
                f"The input {_shortened(name)} is answered by the environment variable {variable}, which is not set.",
                f"Set {variable} before starting the aggregator.",
            )
        return self._secret(found)

    def _secret(self, value: str) -> str:
        if value:
            self.secrets.add(value)
        return value


# Variables that VS Code and Cursor predefine, as far as they have a meaning here.
_BUILTINS: dict[str, Callable[[Path], str]] = {
    "$": lambda folder: "$",
    "workspaceFolder": str,
    "workspaceFolderBasename": lambda folder: folder.name,
    "cwd": str,
    "userHome": lambda folder: os.path.expanduser("~"),
    "pathSeparator": lambda folder: os.sep,
    "/": lambda folder: os.sep,
}


def _closing_brace(text: str, start: int) -> int:
    """Return the index of the brace that closes the reference begun before `start`; nested references are skipped."""
    open_references, at = 1, start
    while at < len(text):
        if text.startswith("${", at):
            open_references += 1
            at += 1
        elif text[at] == "}":
            open_references -= 1
            if not open_references:
                return at
        at += 1
    raise ExpandError("A ${ has no closing }.", "Close it, or write ${$} for a plain $.")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
