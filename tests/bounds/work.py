"""The work of a piece of the program, in byte codes or in calls: no other program on the machine changes them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, ClassVar


class Work:
    """The byte codes of the package that ran in this thread, or its calls, by function.

    is_whole: False if a function was traced for the first time: from CPython 3.12 on it is not counted from its start.
    """

    _traced: ClassVar[set[CodeType]] = set()

    def __init__(self) -> None:
        self.by_function: dict[str, int] = {}
        self.is_whole = True

    @contextmanager
    def called(self) -> Iterator[None]:
        """Count the calls of functions of the package, in place of byte codes."""

        def enter(frame: FrameType, event: str, _: object) -> None:
            module = str(frame.f_globals.get("__name__"))
            if event == "call" and module.startswith("aggregator."):
                name = f"{module}.{frame.f_code.co_qualname}"
                self.by_function[name] = self.by_function.get(name, 0) + 1

        before = sys.getprofile()
        sys.setprofile(enter)
        try:
            yield
        finally:
            sys.setprofile(before)

    @property
    def total(self) -> int:
        return sum(self.by_function.values())

    @contextmanager
    def counted(self) -> Iterator[None]:
        def enter(frame: FrameType, event: str, _: object) -> Any:
            if not str(frame.f_globals.get("__name__")).startswith("aggregator."):
                return None
            if frame.f_code not in self._traced:
                self._traced.add(frame.f_code)
                self.is_whole = False
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return count

        def count(frame: FrameType, event: str, _: object) -> Any:
            if event == "opcode":
                name = f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}"
                self.by_function[name] = self.by_function.get(name, 0) + 1
            return count

        before = sys.gettrace()
        sys.settrace(enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def more_than(self, other: "Work") -> dict[str, tuple[int, int]]:
        """Return the functions with more work than in another count: there, and here."""
        pairs = {name: (other.by_function.get(name, 0), work) for name, work in self.by_function.items()}
        return {name: pair for name, pair in pairs.items() if pair[1] > pair[0]}
