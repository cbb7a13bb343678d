"""Parse YAML into plain values that know their lines. Loaded only when there is a policy file to read.

Rule 1: only the parser's events are used: no tags, no constructors, nothing in a file can make an object.
Rule 2: YAML 1.2 words: `true`, `false`, `null` and numbers; `yes`, `no`, `12:30` and dates are texts, and keys always.
Rule 3: everything is bounded: depth, and values counted again wherever an alias repeats them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

MOST_VALUES: Final = 200_000
DEEPEST: Final = 40

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
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


@dataclass(slots=True)
class _Node:
    """A scalar, list or object of the file, with its line."""

    line: int
    scalar: object = None
    items: list["_Node"] | None = None
    entries: dict[str, tuple[int, "_Node"]] | None = None
    size: int = 1
    bracket: bool = False  # written with [ ] or { }


@dataclass(slots=True)
class _Build:
    """The nodes that are open while the events come, and the anchors of those that are closed."""

    open: list[tuple[_Node, str | None]] = field(default_factory=list)
    keys: list[tuple[str, int] | None] = field(default_factory=list)
    anchors: dict[str, _Node] = field(default_factory=dict)
    root: _Node | None = None


def parse(text: str, loader: Any = _LOADER) -> YamlTree:
    """Parse one file; the value of an empty file is None.

    Raises:
        YamlError: the file cannot be read.
    """
    build = _Build()
    try:
        for event in yaml.parse(text, Loader=loader):
            _handle(build, event)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise YamlError(line, "The file holds a character that YAML does not allow.", "Remove it.") from None
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text, [node for node, _ in build.open if node.bracket]) from None
    if build.root is None:
        return YamlTree(None, {})
    lines: dict[Path, int] = {}
    return YamlTree(_plain(build.root, (), lines), lines)


def _handle(build: _Build, event: Any) -> None:
    line = event.start_mark.line + 1
    if isinstance(event, yaml.DocumentStartEvent) and build.root is not None:
        raise YamlError(line, "A second document begins here (---).", "Put it into a file of its own.")
    if getattr(event, "tag", None) is not None and not isinstance(event, yaml.DocumentStartEvent):
        raise YamlError(line, f"Tags are not allowed, here {event.tag!r:.40}.", "Quote a text that begins with !.")
    if isinstance(event, yaml.ScalarEvent):
        plain = event.implicit[0]
        if _expects_key(build):
            _key(build, event.value, line, plain)
        else:
            _close(build, _Node(line, _scalar(event.value, line) if plain else event.value), event.anchor)
    elif isinstance(event, yaml.AliasEvent):
        _alias(build, event.anchor, line)
    elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
        if _expects_key(build):
            raise YamlError(line, "A key is a plain text, not a list or an object.", "Quote a key that begins with [.")
        if len(build.open) >= DEEPEST:
            raise YamlError(line, f"The file is nested more than {DEEPEST} levels deep.", "No policy needs that.")
        a_list = isinstance(event, yaml.SequenceStartEvent)
        build.open.append(
            (
                _Node(line, items=[], bracket=bool(event.flow_style))
                if a_list
                else _Node(line, entries={}, bracket=bool(event.flow_style)),
                event.anchor,
            )
        )
        build.keys.append(None)
    elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
        node, anchor = build.open.pop()
        build.keys.pop()
        _close(build, node, anchor)


def _expects_key(build: _Build) -> bool:
    return bool(build.open) and build.open[-1][0].entries is not None and build.keys[-1] is None


def _key(build: _Build, key: str, line: int, plain: bool) -> None:
    entries = build.open[-1][0].entries
    assert entries is not None
    if plain and key == "<<":
        raise YamlError(line, "Merge keys (<<) are not known here.", "Give what is shared to a role.")
    if key in entries:
        raise YamlError(line, f"{key!r} is there twice, first on line {entries[key][0]}.", "Put the two together.")
    build.keys[-1] = (key, line)


def _close(build: _Build, node: _Node, anchor: str | None) -> None:
    """Put a node that is whole into the one that is open."""
    if anchor is not None:
        build.anchors[anchor] = node
    if not build.open:
        build.root = node
        return
    parent = build.open[-1][0]
    parent.size += node.size
    if parent.size > MOST_VALUES:
        raise YamlError(node.line, f"The file holds more than {MOST_VALUES:,} values.", "Aliases count in full.")
    if parent.items is not None:
        parent.items.append(node)
        return
    key = build.keys[-1]
    assert parent.entries is not None
    assert key is not None
    parent.entries[key[0]] = (key[1], node)
    build.keys[-1] = None


def _alias(build: _Build, name: str | None, line: int) -> None:
    meant = build.anchors.get(name or "")
    if meant is None or _expects_key(build):
        raise YamlError(line, f"Nothing is called &{name} above this line.", f'For the pattern, quote it: "*{name}".')
    copy = _Node(line, meant.scalar, meant.items, meant.entries, meant.size)
    _close(build, copy, None)


def _scalar(text: str, line: int) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if text.isascii() and text.lstrip("+-").isdigit():
        raise YamlError(line, "The number is too long.", "Quote it, if it is a text.")
    return text


def _plain(node: _Node, path: Path, lines: dict[Path, int]) -> Any:
    lines.setdefault(path, node.line)
    if node.items is not None:
        return [_plain(item, (*path, at), lines) for at, item in enumerate(node.items)]
    if node.entries is not None:
        made = {}
        for key, (line, item) in node.entries.items():
            lines[*path, key] = line
            made[key] = _plain(item, (*path, key), lines)
        return made
    return node.scalar


def _explained(error: yaml.MarkedYAMLError, text: str, brackets: list[_Node]) -> YamlError:
    """Return the parser's complaint in our words, equal for both parsers PyYAML has."""
    mark = error.problem_mark or error.context_mark
    context, problem = str(error.context or ""), str(error.problem or "")
    at = mark.line if mark is not None else 0
    begun = error.context_mark.line if error.context_mark is not None else at
    row = text.splitlines()[at] if at < len(text.splitlines()) else ""
    if brackets and "flow" in context:
        context = "flow sequence" if brackets[-1].items is not None else "flow mapping"
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
