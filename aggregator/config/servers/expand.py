"""References in texts: `${VAR}`, `${VAR:-default}`, `${file:path}`, secrets, and names that hosts give to folders.

Law: an error names the variable, file or reference, never a value. `${$}` stands for a `$`; any other `$` is itself.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name

from aggregator.domain.patient_files import ON_WINDOWS
from aggregator.domain.shell import split_line
from aggregator.secret_sources.file_text import file_text
from aggregator.secret_sources.reference import SecretReference, SecretUnavailable, name_fault, shortened

_DEEPEST = 10
# Not imported here: every start would pay for it, and few files need it.
_VALUE_OF = "aggregator.secret_sources.values:value_of"
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class ExpandError(Exception):
    """A reference that cannot be resolved. `message` and `fix` are sentences without any value in them.

    `variable` is the environment variable that is not set, if that is why.
    """

    def __init__(self, message: str, fix: str, variable: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.variable = variable


@dataclass(frozen=True)
class Expander:
    """A resolver of references in texts.

    `folder` is the folder of the configuration file, which relative paths and `${workspaceFolder}` mean. `inputs` are
    the defaults of VS Code's `inputs`, by id. `secrets` collects every value that was put in, `files` every file that
    was read or is missing. `commands` are the programs that `${command:...}` may run, and `limit` the seconds that a
    keyring may take. `values` has what references stood for when they were resolved. `own` are variables that go before
    those of `environ`: those that an entry gives to its own program.
    """

    environ: Mapping[str, str] = field(repr=False)
    folder: Path
    inputs: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    secrets: set[str] = field(default_factory=set, repr=False)
    files: set[Path] = field(default_factory=set, repr=False)
    commands: tuple[str, ...] = ()
    limit: float = 10.0
    values: dict[SecretReference, str] = field(default_factory=dict, repr=False)
    own: Mapping[str, tuple[str | SecretReference, ...]] = field(default_factory=dict, repr=False)
    looked_up: dict[str, bool] = field(default_factory=dict)

    def with_own(self, variables: Mapping[str, tuple[str | SecretReference, ...]]) -> "Expander":
        """Return a resolver for which these variables go before all others; what it reads is noted here too."""
        return replace(self, own={**self.own, **variables}) if variables else self

    def expand(self, text: str, depth: int = 0) -> str:
        """Return a text with all references resolved, those in inserted values left alone. Raises ExpandError."""
        return "".join(part if isinstance(part, str) else self._now(part) for part in self.parts(text, depth))

    def parts(self, text: str, depth: int = 0) -> list[str | SecretReference]:
        """Return a text in parts: what is known, and the references that have another value later.

        A file has been read, and its text is in `values`; neither the keyring nor a program was asked. Raises
        ExpandError.
        """
        if "${" not in text:
            return [text]
        if depth > _DEEPEST:
            raise ExpandError(
                "The ${...} references are nested too deeply.", "Write the text without so many defaults."
            )
        parts: list[str | SecretReference] = []
        at = 0
        while (start := text.find("${", at)) >= 0:
            end = _closing_brace(text, start + 2)
            parts += text[at:start], *self._value(text[start + 2 : end], depth)
            at = end + 1
        return [*parts, text[at:]]

    def shown(self, part: str | SecretReference) -> str:
        """Return a part as the configuration holds it: the text of a file, any other reference as it is written."""
        return part if isinstance(part, str) else self.values.get(part, part.written)

    def read(self, written: str, depth: int = 0) -> str:
        """Return the text of a file of at most 1 MiB; its path may hold references. Raises ExpandError."""
        full = self.folder / os.path.expanduser(self._plain(written, depth))
        self.files.add(full)
        try:
            return file_text(full, written)
        except SecretUnavailable as error:
            fix = error.fix
            if not full.exists():
                fix = f"Create it, make it readable, or correct the path, which is relative to {self.folder}."
            raise ExpandError(error.message, fix) from None

    def _value(self, reference: str, depth: int) -> list[str | SecretReference]:
        made = _BUILTINS.get("workspaceFolder" if reference.startswith("workspaceFolder:") else reference)
        if made:
            return [made(self.folder)]
        kind, colon, rest = reference.partition(":")
        if colon and kind == "file":
            return [self._file(rest, depth + 1)]
        if colon and kind == "keyring":
            return [self._keyring(rest, depth + 1)]
        if colon and kind == "command":
            return [self._command(rest, depth + 1)]
        if colon and kind == "input":
            return [self._input(rest)]
        if colon and kind == "env":
            reference = rest
        name, has_default, default = reference.partition(":-")
        if (given := self.own.get(name)) is not None:
            return list(given) if any(given) or not has_default else self.parts(default, depth + 1)
        if not name or not _NAME_CHARACTERS.issuperset(name):
            raise ExpandError(
                f"${{{shortened(reference)}}} is not a reference that is known here.",
                "Use ${NAME}, ${NAME:-default}, ${file:path} or ${keyring:name}; write ${$} for a plain $.",
            )
        found = self.environ.get(name)
        if found is None and ON_WINDOWS:  # where names have no case, and Python has them in capitals
            found = self.environ.get(name.upper())
        self.looked_up[name] = self.looked_up.get(name, False) or not has_default
        if has_default:
            return [self._secret(found)] if found else self.parts(default, depth + 1)
        if found is None:
            raise ExpandError(
                f"The environment variable {name} is not set.",
                f"Set {name} before starting the aggregator, or give a default: ${{{name}:-default}}.",
                name,
            )
        return [self._secret(found)]

    def _file(self, written: str, depth: int) -> SecretReference:
        text = self.read(written, depth).rstrip("\r\n")
        path = self.folder / os.path.expanduser(self._plain(written, depth))
        reference = SecretReference("file", f"${{file:{written}}}", name=str(path))
        self.values[reference] = self._secret(text)
        return reference

    def _keyring(self, written: str, depth: int) -> SecretReference:
        name = self._plain(written, depth)
        if fault := name_fault(name):
            said = f"`${{keyring:{shortened(written)}}}` names no secret. {fault}"
            raise ExpandError(said, "Write a name that `aggregator secrets list` has.")
        return SecretReference("keyring", f"${{keyring:{written}}}", name=name)

    def _command(self, written: str, depth: int) -> SecretReference:
        """Return the reference to the output of a program, which the operator has to allow; it is not run here."""
        try:
            # Taken apart before anything is inserted: no value makes two words.
            words = tuple(self._plain(word, depth) for word in split_line(written))
        except ValueError:
            raise ExpandError("A ${command:...} is not a command line.", "Close its quotes.") from None
        if not words or not words[0]:
            raise ExpandError("A ${command:...} names no program.", "Write the program and its arguments.")
        reference = SecretReference("command", f"${{command:{written}}}", words=words, folder=str(self.folder))
        if any("\0" in word for word in words):
            raise ExpandError(f"`{reference.shown}` has a NUL character in it.", "Remove it.")
        if words[0] not in self.commands:
            fix = f'Add "{shortened(words[0])}" to `secrets.commands` if it may be run, or use another source.'
            raise ExpandError(f"`{reference.shown}` runs a program that is not allowed to give secrets.", fix)
        return reference

    def _plain(self, text: str, depth: int) -> str:
        """Return the text inside a reference with its own references resolved; it is part of a name."""
        parts = self.parts(text, depth)
        for part in parts:
            if isinstance(part, SecretReference) and part.kind != "file":
                said = f"`{part.shown}` stands where a name has to, inside another reference."
                raise ExpandError(said, "Write the name itself, or use ${NAME} in it.")
        return "".join(map(self.shown, parts))

    def _now(self, reference: SecretReference) -> str:
        """Return the value of a reference at a place that is read when the program starts."""
        if reference in self.values:
            return self.values[reference]
        if reference.kind == "command":
            raise ExpandError(
                f"`{reference.shown}` cannot stand here, since every command of the aggregator would run its program.",
                "Use ${keyring:name}, ${file:path} or ${NAME}; ${command:...} is for entries of servers.",
            )
        try:
            value: str = resolve_name(_VALUE_OF)(reference, self.limit)
        except SecretUnavailable as error:
            raise ExpandError(error.message, error.fix) from None
        self.values[reference] = self._secret(value)
        return value

    def _input(self, name: str) -> str:
        """Return the value of a VS Code input, from the environment variable named like its id in capitals."""
        variable = "".join(c if c in _NAME_CHARACTERS else "_" for c in name).upper()
        found, default = self.environ.get(variable), self.inputs.get(name)
        self.looked_up[variable] = self.looked_up.get(variable, False) or default is None
        if found is None:
            found = default
        if found is None:
            raise ExpandError(
                f"The input {shortened(name)} is answered by the environment variable {variable}, which is not set.",
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
