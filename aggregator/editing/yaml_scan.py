"""A YAML text that is to be edited: its nodes, and their values as YAML 1.2 reads them.

Hosts read YAML 1.2, where `yes` is a text and `12:30` too. Law: time is linear in the length of the text.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import yaml

from aggregator.editing.errors import EditError
from aggregator.editing.yaml_nodes import WORDS, YamlNode, YamlReader

_LARGEST: Final = 2**20
# Aliases repeat what they name: so many values at most.
_MOST_VALUES: Final = 1_000_000
_WHOLE: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)")


class _EditReader(YamlReader):
    """The reader of a file with this name."""

    deepest = 100

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def too_deep(self, line: int) -> NoReturn:
        raise EditError(f"{self._name} is nested too deeply to be edited.")

    def another_document(self, line: int) -> NoReturn:
        raise EditError(f"{self._name} holds more than one document. Edit it by hand.")


def parse(text: str, name: str) -> YamlNode | None:
    """Return the root of a text without a byte order mark; None if it has no values.

    Raises:
        EditError: the text is not YAML, larger than 1 MiB, nested too deeply, or more than one document.
    """
    if len(text) > _LARGEST:
        raise EditError(f"{name} is larger than 1 MiB, which no file of settings in YAML is.")
    try:
        root = _EditReader(name).read(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        why = getattr(error, "problem", None) or "it cannot be read"
        raise EditError(f"{name}{where}: this is not YAML ({why}). Correct it there.") from None
    return None if root is None or (root.empty and root.kind == "scalar") else root


class YamlValues:
    """The values of the nodes of one text as plain objects."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0

    def value(self, node: YamlNode) -> Any:
        """Return the value of a node. Raises EditError where aliases make it too large, or name nothing."""
        before = self._count
        self._count += 1
        if node.kind == "alias":
            if node.anchor not in self._anchors:
                raise EditError(f"{self._name}: the alias {node.text} names nothing that stands before it.")
            made, size = self._anchors[node.anchor]
            self._count += size
            if self._count > _MOST_VALUES:
                raise EditError(f"{self._name} repeats so much with aliases that it cannot be edited.")
            return made
        if node.kind == "mapping":
            made = self._mapping(node)
        elif node.kind == "sequence":
            made = [self.value(item) for item in node.items]
        else:
            made = scalar(node.text) if node.plain else node.text
        if node.anchor is not None:
            self._anchors[node.anchor] = made, self._count - before
        return made

    def _mapping(self, node: YamlNode) -> dict[str, object]:
        made: dict[str, object] = {}
        merged: list[dict[str, object]] = []
        for key, inner in node.pairs:
            value = self.value(inner)
            if key.plain and key.text == "<<":
                merged += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
            elif key.kind == "scalar":
                made[key.text] = self._kept(made, key.text, value)
            else:
                raise EditError(f"{self._name} has a key that is no text. Edit it by hand.")
        for one in merged:
            made = {**one, **made}
        return made

    def _kept(self, made: Mapping[str, object], key: str, value: object) -> object:
        """Return what an object has under a key: of a repeated one, the last value."""
        return value


class EveryYamlValue(YamlValues):
    """The values of the nodes, with the list of all values under each key that is repeated."""

    def _kept(self, made: Mapping[str, object], key: str, value: object) -> object:
        return [made[key], value] if key in made else value


def scalar(text: str) -> object:
    """Return the value of a text without quotes."""
    if text in WORDS:
        return WORDS[text]
    if _WHOLE.fullmatch(text):
        try:
            return int(text, 0 if text[:2] in ("0o", "0x") else 10)
        except ValueError:
            return float(text)
    if _NUMBER.fullmatch(text):
        return float(text.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf"))
    return text
