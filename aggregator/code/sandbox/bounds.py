"""The bounds of programs, and what ends a call or keeps a program from running."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from aggregator import DISTRIBUTION
from aggregator.code.sandbox.prelude import FunctionCall
from aggregator.domain.errors import OperatorError

# The modules that a program can import.
MODULES: Final = (
    *("asyncio", "base64", "bisect", "collections", "concurrent.futures", "copy", "csv", "dataclasses", "datetime"),
    *("decimal", "functools", "hashlib", "heapq", "io", "itertools", "json", "logging", "math", "operator", "pprint"),
    *("random", "re", "statistics", "string", "textwrap", "time", "typing", "unicodedata", "urllib.parse"),
    *("xml.etree.ElementTree", "xml.dom.minidom"),
)


class CallFailed(Exception):
    """A function failed; the program gets this text as a `RuntimeError`."""


class TooManyPrograms(Exception):
    """Another program cannot begin: as many run as may."""


# The functions of a program. What they return is a JSON text; `CallFailed` is raised inside the program.
ProgramFunctions = Callable[[FunctionCall], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """The bounds of one program: its calls, the seconds it may compute, and as many to sleep, and its memory."""

    calls: int
    seconds: float
    memory: int


def check_installed() -> None:
    """Check that programs can be run here.

    Raises:
        OperatorError: the package that runs them is not installed.
    """
    if find_spec("pydantic_monty") is None:
        raise OperatorError(f"`expose: code` needs a sandbox. Run: pip install '{DISTRIBUTION}[code]'")
