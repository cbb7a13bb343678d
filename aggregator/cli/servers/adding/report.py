"""The words of `aggregator add`: the preview without plain-text secrets, the trial, the written entry; text or JSON."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from aggregator.cli.runtime.setup import environment
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.cli.servers.adding.entries import BuiltEntry
from aggregator.cli.servers.adding.trial import AgentAccess, TrialReport
from aggregator.config.servers.secret_places import secret_places
from aggregator.config.servers.secrets import secrets_in
from aggregator.config.settings import Expose
from aggregator.domain.shell import shell_line
from aggregator.packages.plan import AskedValue
from aggregator.pins.decide.upgrade import ADDS_TOOLS, SHOW_NEW
from aggregator.redaction.field_names import is_opaque
from aggregator.redaction.redactor import Redactor

_TOOLS_SHOWN: Final = 40
_WARNINGS_SHOWN: Final = 12
_AGENTS_SHOWN: Final = 6
_REFERENCE: Final = re.compile(r"\$\{[^{}]*(\{[^{}]*\}[^{}]*)*\}")
# What may stand before a reference without being a secret: `Bearer`, `token=`.
_SCHEME: Final = re.compile(r"[A-Za-z_-]*[\s:=]*")
_SHORTEST: Final = 3
# A variable of so many random-looking characters counts as a secret under any name. Arguments do not: users have to see
# the command.
_LONG: Final = 16


class ClearSecret(NamedTuple):
    """A plain-text secret: its place, and a name to store it by."""

    label: str
    name: str


class PrintableEntry:
    """An entry without its secrets. `clear` are those that stand in it in the clear.

    `declared` are values that its source calls secret, by the names it gives them.
    """

    def __init__(self, entry: Mapping[str, Any], declared: Mapping[str, str]) -> None:
        self._entry = entry
        self.secrets = frozenset(_secrets(entry)) | frozenset(declared.values())
        self._redact = Redactor(self.secrets, _SHORTEST)
        self.clear = tuple(_clear(entry, declared))

    def __repr__(self) -> str:
        return f"<PrintableEntry {sorted(self._entry)}>"

    def data(self) -> Any:
        """Return the entry as plain JSON values, without secrets."""
        return self._without(self._entry)

    def text(self) -> str:
        """Return the entry as JSON for display, one field a line."""
        fields = ((json.dumps(key), json.dumps(value, ensure_ascii=False)) for key, value in self.data().items())
        lines = [f"  {key}: {_plain(value)}" for key, value in fields]
        return "{\n" + ",\n".join(lines) + "\n}"

    def action(self) -> str:
        """Return in a line the program that the entry starts, in shell syntax, or the address it reaches."""
        entry = _unescaped(self.data())
        program = entry if "command" in entry else entry.get("launch")
        started = ""
        if isinstance(program, dict):
            started = f"starts: {_plain(shell_line([str(program['command']), *map(str, program.get('args', []))]))}"
        reached = f"connects to: {_plain(str(entry['url']))}" if "url" in entry else ""
        return ", then ".join(part for part in (started, reached) if part)

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return "[redacted]" if value in self.secrets else self._redact(value)
        if isinstance(value, Mapping):
            return {key: self._without(item) for key, item in value.items()}
        return [self._without(item) for item in value] if isinstance(value, list | tuple) else value


def _clear(entry: Mapping[str, Any], declared: Mapping[str, str]) -> Iterator[ClearSecret]:
    told = set()
    for place in (*secret_places(entry), *secret_places(entry.get("launch") or {})):
        told.add(place.secret)
        yield ClearSecret(place.label, place.name)
    yield from (ClearSecret(key, AskedValue(key, key).variable) for key, value in declared.items() if value not in told)


def _secrets(entry: Mapping[str, Any]) -> Iterator[str]:
    for found in secrets_in(entry):
        if not _SCHEME.fullmatch(_REFERENCE.sub("", found)) or ("${" not in found and found):
            yield found
    for part in (entry, entry.get("launch") or {}):
        values = (part.get("env") or {}).values()
        yield from (value for value in values if isinstance(value, str) and len(value) >= _LONG and is_opaque(value))


def _unescaped(value: Any) -> Any:
    """Return a value with its texts as a program gets them, but for references."""
    if isinstance(value, str):
        return value.replace("${$}", "$")
    if isinstance(value, Mapping):
        return {key: _unescaped(item) for key, item in value.items()}
    return [_unescaped(item) for item in value] if isinstance(value, list) else value


def _plain(text: str) -> str:
    """Return a text without characters that a terminal would act on."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass
class AddReport:
    """The outcome of one run of `aggregator add`. `gone` are variables that the entry needs and that are not set.

    `config` is the file as named by the user; `next` is the command that connects an account, if one is required, and
    `given_auth` tells whether the entry got its `auth` from the trial.
    """

    name: str
    file: Path
    built: BuiltEntry
    shown: PrintableEntry
    notes: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    expose: Expose = "all"
    trial: TrialReport | None = None
    written: bool = False
    unpacked: bool = False
    backup: Path | None = None
    said: str = ""
    config: Path | None = None
    next: str | None = None
    given_auth: bool = False

    def preview(self) -> None:
        """Print the planned entry before anything is started."""
        say(f"{self.name}: {self.shown.action()}")
        say(f'goes into {self.file} as "{one_line(self.name)}": {self.shown.text()}')
        for question in self.built.asked:
            say(one_line(question_line(question)))
        for note in self.notes:
            say(one_line(f"note: {note}"))
        for secret in self.shown.clear:
            say(one_line(f"warning: {clear_line(secret, self.file)}"))

    def tried(self) -> None:
        """Print the outcome of the trial."""
        trial = self.trial
        if trial is None:
            return
        if trial.login:
            say(f"{self.name} answers, and asks for a login (OAuth).")
            return
        if trial.problem is not None:
            say(f"{self.name} did not connect: {one_line(trial.problem)}")
            for line in trial.last_lines:
                say(f"  its stderr: {one_line(line)}")
            if trial.mend is not None:
                say(f"{self.name}: {one_line(trial.mend)}")
            return
        took = f" in {trial.seconds:.1f} s" if trial.seconds is not None else ""
        say(f"{self.name} connected{took} ({trial.era}).")
        self._tools(trial)
        for line in _some(trial.warnings, _WARNINGS_SHOWN, "warnings"):
            say(f"warning: {one_line(line)}")
        for line in access_lines(trial.access, len(trial.tools)):
            say(line)
        if trial.adds_tools:
            say(f"{self.name} {ADDS_TOOLS}: {SHOW_NEW}.")

    def end(self) -> None:
        """Print whether it was written, and the remaining steps."""
        if self.given_auth:
            say(
                'Its entry got "auth": {"type": "oauth", "per": "shared"}: one account for all agents. For one each, '
                "add it with --per agent or --per user."
            )
        if self.written:
            kept = f" What it was is in {self.backup}." if self.backup is not None else ""
            say(f"Wrote {self.file}.{kept} A running gateway loads it by itself.")
        else:
            say(self.said)
        for variable in self.gone if self.written else ():
            say(f"Set {variable} before the gateway starts; until then {self.name} stays switched off.")
        if self.written and self.next is not None:
            say(f"Next: `{self.next}` connects the account; its tools are listed after that.")

    def data(self) -> dict[str, Any]:
        """Return all of it as plain JSON values."""
        trial = self.trial
        return {
            "name": self.name,
            "config": str(self.file),
            "entry": self.shown.data(),
            "does": self.shown.action(),
            "written": self.written,
            "backup": str(self.backup) if self.backup is not None else None,
            "said": self.said or None,
            "next": self.next,
            "asked": [{"name": one.key, "variable": one.variable} for one in self.built.asked],
            "not_set": self.gone,
            "in_the_clear": [secret.label for secret in self.shown.clear],
            "notes": self.notes,
            "trial": None if trial is None else {**asdict(trial), "tokens": trial.tokens},
        }

    def print_json(self) -> None:
        """Print all of it as JSON."""
        say(json.dumps(self.data(), ensure_ascii=False, indent=2))

    def _tools(self, trial: TrialReport) -> None:
        tools = sorted(trial.tools, key=lambda tool: -tool.tokens)
        if tools:
            rows = [("TOOL", "TOKENS"), *((one_line(tool.name), f"{tool.tokens:,}") for tool in tools[:_TOOLS_SHOWN])]
            if len(tools) > _TOOLS_SHOWN:
                left = tools[_TOOLS_SHOWN:]
                rows.append((f"{len(left)} more", f"{sum(tool.tokens for tool in left):,}"))
            print_rows(rows)
        say(cost_line(trial, self.expose))


def question_line(question: AskedValue) -> str:
    """Return a question in one line, with the variable for its answer."""
    said = f": {question.description.rstrip('.')}" if question.description else ""
    choices = f" One of {', '.join(question.choices)}." if question.choices else ""
    if question.variable in environment():
        taken = f"It gets {question.variable}, which is set here; --set {question.key}=VALUE gives it another."
    else:
        taken = f"Set {question.variable}, or give --set {question.key}=VALUE."
    return f"needs {question.place}{said}.{choices} {taken}"


def clear_line(secret: ClearSecret, file: Path) -> str:
    """Return the warning about a secret in the clear."""
    return (
        f"{secret.label} looks like a secret and stands in {file} in the clear. To keep it in the keyring, run "
        f"`aggregator secrets set {secret.name}` and write ${{keyring:{secret.name}}} in its place."
    )


def cost_line(trial: TrialReport, expose: Expose) -> str:
    """Return the total cost of the tools for a model, and the cost of the other way of listing."""
    count = len(trial.tools)
    if not count:
        return "It has no tools."
    said = f"{count} {'tool' if count == 1 else 'tools'}, about {trial.tokens:,} tokens in every list"
    if expose in ("search", "code"):
        return f"{said} that shows them all; with `expose: {expose}`, as here, they add nothing to a list."
    return f'{said}; with "expose": "search" all servers together cost about {trial.search_tokens:,}.'


def access_lines(access: Iterable[AgentAccess], tools: int) -> Iterator[str]:
    """Yield the policies' decisions on the tools, agent by agent."""
    lines = []
    for one in access:
        parts = [f"{count} {word}" for count, word in ((one.allow, "allowed"), (one.confirm, "to confirm")) if count]
        said = "none" if not parts else "all allowed" if one.allow == tools else f"{', '.join(parts)} of {tools}"
        lines.append(f"policies, {one_line(one.agent)}: {said}")
    if tools:
        yield from _some(lines, _AGENTS_SHOWN, "agents")


def warn(text: str) -> None:
    """Print a sentence to stderr."""
    say(f"aggregator: {one_line(text)}", file=sys.stderr)


def _some(lines: Iterable[str], most: int, what: str) -> Iterator[str]:
    every = list(lines)
    yield from every[:most]
    if len(every) > most:
        yield f"{len(every) - most} more {what}; --json has them all"
