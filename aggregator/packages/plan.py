"""The plan of an entry: its fields with questions in them, and the entry made from the answers.

Law: a package's text is never a reference: its `${` is written as `${$}{`, so that no description can read variables or
files of this machine. Only a user's answer may contain a reference.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from aggregator.packages.errors import PackageError

ValueKind = Literal["string", "number", "boolean", "filepath"]
Answers = Mapping[str, Sequence[str]]

_NOT_IN_A_VARIABLE: Final = re.compile("[^A-Za-z0-9]+")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
# An option without a value: `-p`, `--proxy`; not `--`, `-` or `--proxy=x`.
_OPTION: Final = re.compile(r"--?[A-Za-z][^=\s]*")


@dataclass(frozen=True, slots=True)
class AskedValue:
    """A value that only the user knows. `key` is its name in answers, `place` its destination, for display.

    `repeated` takes several answers; `default` and `choices` are the package's, in its own words.
    """

    key: str
    place: str
    description: str = ""
    required: bool = False
    secret: bool = False
    kind: ValueKind = "string"
    default: tuple[str, ...] | None = None
    choices: tuple[str, ...] = ()
    repeated: bool = False
    least: float | None = None
    most: float | None = None

    @property
    def variable(self) -> str:
        """The environment variable that replaces a missing answer."""
        made = _NOT_IN_A_VARIABLE.sub("_", self.key).strip("_").upper()
        return made if made and not made[0].isdigit() else f"VALUE_{made}".rstrip("_")

    def fault(self, answer: str) -> str | None:
        """Return why a text is no answer; None if it is one. A reference is always taken, a value is never quoted."""
        if "${" in answer:
            return None
        if self.choices and answer not in self.choices:
            return f"it is one of {', '.join(self.choices)}"
        if self.kind == "boolean" and answer not in ("true", "false"):
            return "it is true or false"
        if self.kind == "number":
            if not _NUMBER.fullmatch(answer):
                return "it is a number"
            number = float(answer)
            if self.least is not None and number < self.least:
                return f"it is at least {self.least:g}"
            if self.most is not None and number > self.most:
                return f"it is at most {self.most:g}"
        return "it must not be empty" if self.required and not answer else None


Text = tuple[str | AskedValue, ...]
"""A text: what the package wrote, and questions between."""


@dataclass(frozen=True, slots=True)
class PlannedArgument:
    """One or two arguments that stand and fall together: a flag and its value, or a value alone.

    `separate`: the package writes an option and its value as two arguments and does not say that they belong together.
    """

    texts: tuple[Text, ...]
    separate: bool = False


@dataclass(frozen=True, slots=True)
class PlannedProgram:
    """A program with its arguments, variables and folder."""

    command: Text
    arguments: tuple[PlannedArgument, ...] = ()
    env: Mapping[str, Text] = field(default_factory=dict)
    cwd: Text = ()


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """An entry of `mcpServers` before the questions are answered.

    `program` is started and uses stdio; with `url` as well it is started before the connection. `type` is the transport
    of `url`. `description` and `title` are the package's own. `notes` are sentences for the user; `downloads`: the
    first start downloads the package.
    """

    name: str
    origin: str
    program: PlannedProgram | None = None
    url: Text = ()
    type: Literal["http", "sse"] | None = None
    headers: Mapping[str, Text] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    notes: tuple[str, ...] = ()
    downloads: bool = False

    @property
    def questions(self) -> tuple[AskedValue, ...]:
        """The questions by key, in the order of the entry; a repeated one is required if any of its uses is.

        Questions in the command, its folder or the address are always required.
        """
        found: dict[str, AskedValue] = {}
        for text, needed in _texts(self):
            for part in text:
                if isinstance(part, AskedValue):
                    known = found.setdefault(part.key, part)
                    if (needed or part.required) and not known.required:
                        found[part.key] = replace(known, required=True)
        return tuple(found.values())

    def entry(self, answers: Answers) -> dict[str, object]:
        """Return the entry with these answers; a required value without one is a reference to its variable.

        Raises:
            PackageError: an answer is none that the question takes, or answers nothing.
        """
        self._check(answers)
        entry: dict[str, object] = {}
        program = self.program
        made = _filled_program(program, answers) if program is not None else {}
        if not self.url:
            entry |= made
        else:
            if self.type is not None:
                entry["type"] = self.type
            entry["url"] = _needed(self.url, answers)
            headers = _filled_map(self.headers, answers)
            if headers:
                entry["headers"] = headers
            if made:
                entry["launch"] = made
        if self.description:
            entry["description"] = literal(one_line(self.description))
        return entry

    def unanswered(self, answers: Answers) -> tuple[AskedValue, ...]:
        """Return the required questions for which the entry refers to a variable."""
        return tuple(one for one in self.questions if one.required and one.default is None and not answers.get(one.key))

    def left_out(self, answers: Answers) -> tuple[str, ...]:
        """Return a sentence for each separate argument that is left out because its value was not given."""
        program = self.program
        return tuple(_filled_arguments(program.arguments, answers)[1]) if program is not None else ()

    def _check(self, answers: Answers) -> None:
        known = {one.key: one for one in self.questions}
        for key, given in answers.items():
            question = known.get(key)
            if question is None:
                names = ", ".join(known) or "nothing"
                raise PackageError(f"{self.origin} does not ask for {key!r:.80}; it asks for {names}.")
            if len(given) > 1 and not question.repeated:
                raise PackageError(f"{question.place} takes one value, and {len(given)} were given.")
            for answer in given:
                fault = question.fault(answer)
                if fault is not None:
                    raise PackageError(f"The value for {question.key} does not fit: {fault}.")


def literal(text: str) -> str:
    """Return a package's text without references, escaped so that appended text forms none either."""
    made = text.replace("${", "${$}{")
    return f"{made[:-1]}${{$}}" if made.endswith("$") else made


def one_line(text: str, most: int = 300) -> str:
    """Return a text of a package on one line, without characters that a terminal would act on."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _texts(plan: EntryPlan) -> Iterator[tuple[Text, bool]]:
    """Yield the texts of a plan, and whether the entry cannot do without them."""
    program = plan.program
    if program is not None:
        yield program.command, True
        for argument in program.arguments:
            yield from ((text, False) for text in argument.texts)
        yield from ((text, False) for text in program.env.values())
        yield program.cwd, True
    yield plan.url, True
    yield from ((text, False) for text in plan.headers.values())


def _filled_program(program: PlannedProgram, answers: Answers) -> dict[str, object]:
    made: dict[str, object] = {"command": _needed(program.command, answers)}
    args, _ = _filled_arguments(program.arguments, answers)
    env = _filled_map(program.env, answers)
    if args:
        made["args"] = args
    if env:
        made["env"] = env
    if program.cwd:
        made["cwd"] = _needed(program.cwd, answers)
    return made


def _filled_arguments(arguments: Iterable[PlannedArgument], answers: Answers) -> tuple[list[str], list[str]]:
    """Return the arguments, and a sentence for each separate one that is left out.

    An option goes with its value: left alone it would take the next argument for it.
    """
    made: list[str] = []
    said: list[str] = []
    option: str | None = None
    for argument in arguments:
        filled = list(_filled_argument(argument, answers))
        if argument.separate and not filled:
            text = argument.texts[0]
            start = text[0] if text and isinstance(text[0], str) else ""
            if start.startswith("-"):
                option = start.partition("=")[0]
            elif option is not None:
                made.pop()
            missing = [part.key for part in text if isinstance(part, AskedValue) and _answer(part, answers, 0) is None]
            named = one_line(option, 60) if option is not None else "an argument"
            said.append(f"It is started without {named}: {one_line(', '.join(missing), 100)} has no value.")
        made += filled
        option = filled[0] if argument.separate and _is_option(argument) else None
    return made, said


def _is_option(argument: PlannedArgument) -> bool:
    """Tell whether an argument is a literal option of the package, without a value."""
    text = argument.texts[0]
    return len(text) == 1 and isinstance(text[0], str) and _OPTION.fullmatch(text[0]) is not None


def _filled_argument(argument: PlannedArgument, answers: Answers) -> Iterable[str]:
    asked = [part for text in argument.texts for part in text if isinstance(part, AskedValue)]
    repeated = next((one for one in asked if one.repeated), None)
    rounds = len(_given(repeated, answers) or ("",)) if repeated is not None else 1
    for at in range(rounds):
        texts = [_filled(text, answers, at) for text in argument.texts]
        if all(text is not None for text in texts):
            yield from (text for text in texts if text is not None)


def _filled_map(texts: Mapping[str, Text], answers: Answers) -> dict[str, str]:
    made = ((name, _filled(text, answers)) for name, text in texts.items())
    return {name: text for name, text in made if text is not None}


def _needed(text: Text, answers: Answers) -> str:
    return "".join(
        literal(part) if isinstance(part, str) else _answer(part, answers, 0) or f"${{{part.variable}}}"
        for part in text
    )


def _filled(text: Text, answers: Answers, at: int = 0) -> str | None:
    """Return a text with its answers; None if an optional answer is missing."""
    parts = [literal(part) if isinstance(part, str) else _answer(part, answers, at) for part in text]
    return None if None in parts else "".join(part for part in parts if part is not None)


def _answer(question: AskedValue, answers: Answers, at: int) -> str | None:
    given = _given(question, answers)
    if not given:
        return f"${{{question.variable}}}" if question.required else None
    answer = given[at if question.repeated and at < len(given) else 0]
    # What the package wrote after it may begin with a brace.
    return f"{answer[:-1]}${{$}}" if answer.endswith("$") else answer


def _given(question: AskedValue, answers: Answers) -> Sequence[str]:
    """Return the values of a question: the user's, else the package's, which are no references."""
    return answers.get(question.key) or tuple(map(literal, question.default or ()))
