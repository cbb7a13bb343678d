"""Values written down as people do, in random spacing, quotes and line ends, with numbered comments between them."""

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

_KEYS = st.sampled_from(["a", "b", "my server", "é", "x.y", "#no", "//no", "yes", "c-d", "7", ": ", "", '"'])
_TEXTS = st.one_of(
    st.sampled_from(["# no", "// no", "/* no */", "a, b", "}", "]", "{", "[", '"', "\\", "yes", "1.5", "a: b", "-y"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8),
)
_SCALARS = st.one_of(_TEXTS, st.booleans(), st.integers(-(10**20), 10**20), st.floats(-1e9, 1e9))


def objects(*, null: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of plain objects; TOML has no null."""
    scalars = st.one_of(_SCALARS, st.none()) if null else _SCALARS
    values = st.recursive(
        scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3))
    )
    return st.dictionaries(_KEYS, values, max_size=4)


class Writer:
    """A writer of one text; every comment has a number of its own."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.newline = self.random.choice(["\n", "\n", "\r\n"])
        self.unit = self.random.choice(["  ", "    ", "\t"])
        self._comments = 0

    def chance(self, share: float = 0.3) -> bool:
        return self.random.random() < share

    def comment(self) -> str:
        self._comments += 1
        return f'c{self._comments:04d} "}}]{{[,: '

    def line_ends(self, text: str) -> str:
        return text.replace("\n", self.newline)


def comments(text: str) -> list[str]:
    """Return the numbers of the comments of a text, sorted."""
    return sorted(re.findall(r'c\d{4}(?= "\}\])', text))


class JsonWriter(Writer):
    """A writer of JSON with comments and trailing commas."""

    def text(self, value: object, depth: int = 0, several: bool | None = None) -> str:
        if not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=self.chance())
        several = self.chance(0.7) if several is None else several
        start, end = "{}" if isinstance(value, dict) else "[]"
        inner = "\n" + self.unit * (depth + 1) if several else self.random.choice(["", " "])
        items = [*value.items()] if isinstance(value, dict) else [(None, item) for item in value]
        parts = [start]
        for at, (key, item) in enumerate(items):
            parts += self._between(inner)
            if key is not None:
                parts.append(json.dumps(key) + self.random.choice([":", ": ", " : "]))
            parts.append(self.text(item, depth + 1, None if several else False))
            if at < len(items) - 1 or self.chance():
                parts.append("," + (f" // {self.comment()}\n" if several and self.chance() else ""))
            elif several and self.chance():
                parts.append(f" // {self.comment()}\n")
        parts += self._between("\n" + self.unit * depth if several else inner)
        return "".join(parts) + end

    def _between(self, space: str) -> Iterator[str]:
        yield space
        if self.chance(0.2):
            line = "\n" in space and self.chance()
            yield f"// {self.comment()}{space}" if line else f"/* {self.comment()} */{space}"


class TomlWriter(Writer):
    """A writer of TOML: pairs, then tables, with comments on lines of their own and at the end of lines."""

    def text(self, value: dict[str, Any], path: tuple[str, ...] = ()) -> str:
        tables = {key: item for key, item in value.items() if isinstance(item, dict) and self.chance(0.7)}
        lines = []
        if path:
            lines.append(f"[{'.'.join(map(self._key, path))}]{self._end()}")
        for key, item in value.items():
            if key not in tables:
                lines += self._comment_lines()
                lines.append(f"{self._key(key)}{self.random.choice(['=', ' = '])}{self._value(item)}{self._end()}")
        parts = ["\n".join(lines) + "\n" if lines else ""]
        for key, item in tables.items():
            parts.append("\n" * self.chance(0.7) + "".join(f"{line}\n" for line in self._comment_lines()))
            parts.append(self.text(item, (*path, key)))
        return "".join(parts)

    def _end(self) -> str:
        return f" # {self.comment()}" if self.chance(0.2) else ""

    def _comment_lines(self) -> Iterator[str]:
        if self.chance(0.2):
            yield f"# {self.comment()}"

    def _key(self, key: str) -> str:
        return key if re.fullmatch("[a-z-]+", key) else json.dumps(key, ensure_ascii=False)

    def _value(self, value: object) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self._key(key)} = {self._flat(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list) and value and self.chance():
            rows = (f"  {self._flat(item)},{self._end()}\n" for item in value)
            return "[\n" + "".join(rows) + "]"
        return self._flat(value)

    def _flat(self, value: object) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self._key(key)} = {self._flat(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self._flat, value)) + "]"
        if isinstance(value, str) and "'" not in value and self.chance():
            return f"'{value}'"
        return json.dumps(value, ensure_ascii=False)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class YamlWriter(Writer):
    """A writer of YAML in lines and in brackets, with comments on lines of their own and at the end of lines."""

    def text(self, value: dict[str, Any]) -> str:
        return "".join(f"{line}\n" for line in self._lines(value)) if value else ""

    def _lines(self, value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, item in value.items():
                yield from self._comment_lines()
                yield from self._below(f"{self._scalar(key)}:", item)
        else:
            for item in value:
                yield from self._comment_lines()
                if isinstance(item, dict | list) and item and self.chance(0.7):
                    first, *others = self._lines(item)
                    if first.startswith("#"):
                        yield from ("-", *(f"  {line}" for line in (first, *others)))
                    else:
                        yield from (f"- {first}", *(f"  {line}" for line in others))
                else:
                    yield f"- {self._flow(item)}{self._end()}"

    def _below(self, key: str, value: Any) -> Iterator[str]:
        if not isinstance(value, dict | list) or not value or self.chance(0.2):
            yield f"{key} {self._flow(value)}{self._end()}"
            return
        yield key + self._end()
        indent = "" if isinstance(value, list) and self.chance() else " " * self.random.choice([2, 4])
        yield from (f"{indent}{line}" for line in self._lines(value))

    def _flow(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self._scalar(key)}: {self._flow(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self._flow, value)) + "]"
        return self._scalar(value)

    def _scalar(self, value: object) -> str:
        if isinstance(value, str):
            if re.fullmatch("[a-z][a-z-]*", value) and value not in ("yes", "true", "false", "null"):
                return value
            if "'" not in value and value.isprintable() and self.chance():
                return f"'{value}'"
        if isinstance(value, float):
            return re.sub(r"^(-?\d+)e", r"\1.0e", json.dumps(value))
        # A character that YAML must not hold is written as an escape.
        return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", _escaped, json.dumps(value, ensure_ascii=False))

    def _end(self) -> str:
        return f" # {self.comment()}" if self.chance(0.2) else ""

    def _comment_lines(self) -> Iterator[str]:
        if self.chance(0.2):
            yield f"# {self.comment()}"
