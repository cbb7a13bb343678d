"""The bounds of programs, and what ends a call or keeps a program from running."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from aggregator import DISTRIBUTION
from aggregator.code.sandbox.prelude import FunctionCall
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import shell_word

# The modules that a program can import.
MODULES: Final[tuple[str, ...]] = (
    *(
        "abc",
        "ast",
        "asyncio",
        "base64",
        "binascii",
        "bisect",
        "calendar",
        "collections",
        "concurrent.futures",
        "configparser",
        "contextlib",
        "copy",
        "csv",
    ),
    *(
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fnmatch",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "html.parser",
        "io",
        "ipaddress",
        "itertools",
    ),
    *("json", "logging", "math", "operator", "pprint", "random", "re", "secrets", "shlex", "statistics"),
    *("string", "textwrap", "time", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid"),
    *("xml.etree.ElementTree", "xml.dom.minidom", "zlib", "zoneinfo"),
)


class CallFailed(Exception):
    """A function failed; the program gets this text as a `RuntimeError`."""


class TooManyPrograms(Exception):
    """Another program cannot begin: as many run as may."""


# The functions of a program. What they return is a JSON text, and may be `BESIDE` and another text (`prelude`);
# `CallFailed` is raised inside the program.
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
        raise OperatorError(f"`expose: code` needs a sandbox. Run: `pip install {shell_word(f'{DISTRIBUTION}[code]')}`")
