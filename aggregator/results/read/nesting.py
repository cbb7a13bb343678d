"""The arrays and objects that an offset of a JSON text lies in, with the path that leads there.

Law: one pass without recursion; offsets that only grow cost one pass together.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<closed>")?+)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)', re.DOTALL
)
# Texts that nest deeper have no paths: each level takes memory.
_DEEPEST: Final = 1_000
# A name that a path takes without quotes.
PLAIN_NAME: Final = re.compile(r"[^\W\d][\w-]*")


@dataclass(slots=True)
class Container:
    """An open array or object: its start, the number of commas so far, and the name of its member."""

    start: int
    is_list: bool
    index: int = 0
    name: str | None = None
    is_named: bool = False

    @property
    def key(self) -> str | int | None:
        """Return the index of the item, or the name of the member, that the walk is in."""
        if self.is_list:
            return self.index
        if not self.is_named or self.name is None:
            return None
        try:
            return str(json.loads(self.name))
        except ValueError:
            return self.name[1:-1]

    @property
    def step(self) -> str:
        """Return the step of a path that leads there; empty between two members."""
        key = self.key
        if key is None or isinstance(key, int):
            return "" if key is None else f"[{key}]"
        return f".{key}" if PLAIN_NAME.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


class Nesting:
    """A walk through a JSON text from `start` on that tracks the open containers."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._at = start
        self._is_lost = False
        self.open: list[Container] = []

    def go_to(self, at: int) -> None:
        """Walk up to an offset that is not before the last one; nothing is open where too much would be."""
        if self._is_lost:
            return
        stack = self.open
        for token in _TOKEN.finditer(self._text, self._at, at):
            kind = token.lastgroup
            if kind == "string" and token["closed"] is None:
                # The walk ends within it, and begins here again.
                self._at = token.start()
                return
            self._at = token.end()
            if kind == "open":
                stack.append(Container(token.start(), token[0] == "["))
                if len(stack) > _DEEPEST:
                    self._is_lost = True
                    stack.clear()
                    return
            elif not stack:
                continue
            elif kind == "close":
                stack.pop()
            elif kind == "comma":
                stack[-1].index += 1
                stack[-1].is_named = False
            elif not stack[-1].is_list and not stack[-1].is_named:
                stack[-1].name, stack[-1].is_named = token[0], True

    def path(self, depth: int | None = None) -> str:
        """Return the path to the current place, or to the open container at a depth; empty for the whole."""
        return "".join(container.step for container in self.open[:depth]).removeprefix(".")
