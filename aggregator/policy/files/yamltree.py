"""Parse YAML into plain values that know their lines. Loaded only when there is a policy file to read.

Rule 1: only the parser's events are used: no tags, no constructors, nothing in a file can make an object.
Rule 2: YAML 1.2 words: `true`, `false`, `null` and numbers; `yes`, `no`, `12:30` and dates are texts, and keys always.
Rule 3: everything is bounded: depth, and values counted again wherever an alias repeats them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from aggregator.editing.yaml_nodes import LOADER, WORDS, YamlNode, YamlReader

MOST_VALUES: Final = 200_000
DEEPEST: Final = 40

_LONGEST_WHOLE: Final = 18
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?", re.ASCII)
_BARE_STAR: Final = re.compile(r"(^|[\s,\[{:-])\*")

Path = tuple[str | int, ...]


class YamlTree(NamedTuple):
    """The value of a file, and the line of every key and item in it, counted from 1."""

    value: Any
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest that stands in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class YamlError(ValueError):
    """The file cannot be read; `line` counts from 1."""

    def __init__(self, line: int, message: str, fix: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message
        self.fix = fix


class _PolicyReader(YamlReader):
    """The reader of a policy file: it refuses what policies have no use for, and counts what aliases repeat."""

    deepest = DEEPEST

    def __init__(self) -> None:
        super().__init__()
        # By anchor: the last value that is closed and has it.
        self._anchors: dict[str, YamlNode] = {}
        # By the identity of a node: the value that an alias stands for, the lines of the keys of a mapping, the number
        # of values in a container.
        self._meant: dict[int, YamlNode] = {}
        self._lines: dict[int, dict[str, int]] = {}
        self._sizes: dict[int, int] = {}

    def met(self, node: YamlNode, *, is_key: bool) -> None:
        line = node.line
        if node.tag is not None:
            raise YamlError(line, f"Tags are not allowed, here {node.tag!r:.40}.", "Quote a text that begins with !.")
        if is_key and node.kind in ("mapping", "sequence"):
            raise YamlError(line, "A key is a plain text, not a list or an object.", "Quote a key that begins with [.")
        if node.kind == "alias":
            meant = self._anchors.get(node.anchor or "")
            if meant is None or is_key:
                fix = f'For the pattern, quote it: "*{node.anchor}".'
                raise YamlError(line, f"Nothing is called &{node.anchor} above this line.", fix)
            self._meant[id(node)] = meant
        elif is_key:
            self._key(node, self._lines.setdefault(id(self.open[-1]), {}))
        elif node.plain and len(node.text) > _LONGEST_WHOLE:
            _scalar(node.text, line)

    def _key(self, node: YamlNode, lines: dict[str, int]) -> None:
        if node.plain and node.text == "<<":
            raise YamlError(node.line, "Merge keys (<<) are not known here.", "Give what is shared to a role.")
        if node.text in lines:
            said = f"{node.text!r} is there twice, first on line {lines[node.text]}."
            raise YamlError(node.line, said, "Put the two together.")
        lines[node.text] = node.line

    def closed(self, node: YamlNode) -> None:
        if node.anchor is not None and node.kind != "alias":
            self._anchors[node.anchor] = node
        if self.open:
            parent = id(self.open[-1])
            own = 1 if node.kind == "scalar" else self._sizes.get(id(self.meant(node)), 1)
            size = self._sizes[parent] = self._sizes.get(parent, 1) + own
            if size > MOST_VALUES:
                raise YamlError(
                    node.line, f"The file holds more than {MOST_VALUES:,} values.", "Aliases count in full."
                )

    def meant(self, node: YamlNode) -> YamlNode:
        """Return the value that an alias stands for; any other node itself."""
        return self._meant.get(id(node), node)

    def too_deep(self, line: int) -> NoReturn:
        raise YamlError(line, f"The file is nested more than {DEEPEST} levels deep.", "No policy needs that.")

    def another_document(self, line: int) -> NoReturn:
        raise YamlError(line, "A second document begins here (---).", "Put it into a file of its own.")


def parse(text: str, loader: Any = LOADER) -> YamlTree:
    """Parse one file; the value of an empty file is None.

    Raises:
        YamlError: the file cannot be read.
    """
    reader = _PolicyReader()
    try:
        root = reader.read(text, loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise YamlError(line, "The file holds a character that YAML does not allow.", "Remove it.") from None
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text, [node for node in reader.open if node.flow]) from None
    if root is None:
        return YamlTree(None, {})
    lines: dict[Path, int] = {}
    return YamlTree(_plain(reader, root, (), lines), lines)


def _scalar(text: str, line: int) -> object:
    if text in WORDS:
        return WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if text.isascii() and text.lstrip("+-").isdigit():
        raise YamlError(line, "The number is too long.", "Quote it, if it is a text.")
    return text


def _plain(reader: _PolicyReader, node: YamlNode, path: Path, lines: dict[Path, int]) -> Any:
    lines.setdefault(path, node.line)
    if node.kind == "alias":
        node = reader.meant(node)
    if node.kind == "sequence":
        return [_plain(reader, item, (*path, at), lines) for at, item in enumerate(node.items)]
    if node.kind == "mapping":
        made = {}
        for key, item in node.pairs:
            inner = (*path, key.text)
            lines[inner] = key.line
            made[key.text] = _plain(reader, item, inner, lines)
        return made
    return _scalar(node.text, node.line) if node.plain else node.text


def _explained(error: yaml.MarkedYAMLError, text: str, brackets: list[YamlNode]) -> YamlError:
    """Return the parser's complaint in our words, equal for both parsers PyYAML has."""
    mark = error.problem_mark or error.context_mark
    context, problem = str(error.context or ""), str(error.problem or "")
    at = mark.line if mark is not None else 0
    begun = error.context_mark.line if error.context_mark is not None else at
    row = text.splitlines()[at] if at < len(text.splitlines()) else ""
    if brackets and "flow" in context:
        context = "flow sequence" if brackets[-1].kind == "sequence" else "flow mapping"
        begun = brackets[-1].line - 1
    for where, sentences in _sentences(context, problem, row):
        return YamlError((begun if where == "begun" else at) + 1, *sentences)
    return YamlError(at + 1, "This is not YAML.", "Correct the line; the one before it may be at fault.")


def _sentences(context: str, problem: str, row: str) -> Iterator[tuple[str, tuple[str, str]]]:
    if "alias" in context or (_BARE_STAR.search(row) and "anchor" not in context):
        yield "at", ("A text that begins with * must be in quotes.", 'Write it like this: "*.delete_*".')
    if "\t" in row and "cannot start any token" in problem:
        yield "at", ("YAML does not take tabs for indentation.", "Use spaces.")
    if "cannot start any token" in problem:
        yield "at", ("A text that begins with this character must be in quotes.", "Put the whole text in quotes.")
    if "quoted scalar" in context:
        yield "begun", ("A text that begins here has no closing quote.", "Close it.")
    if "flow sequence" in context:
        yield (
            "begun",
            ("A list that begins here with [ is not closed, or a comma is missing in it.", "Close it."),
        )
    if "flow mapping" in context:
        yield "begun", ("An object that begins here with { is not closed, or a comma is missing in it.", "Close it.")
    if "mapping values are not allowed" in problem:
        yield "at", ("A colon stands where no value can.", "Quote a text that holds a colon; check the indentation.")
    if "block" in context or "simple key" in context:
        yield "at", ("This line does not fit the ones above it.", "Check the indentation, and the colon after a key.")
