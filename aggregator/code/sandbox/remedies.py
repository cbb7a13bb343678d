"""Remedies: the text added to an error of the interpreter that tells the author of a program what to write."""

import re
from typing import Final

from aggregator.code.sandbox.bounds import MODULES

_AWAIT_EACH: Final = (
    "In a program with `await`, every call of a tool needs it, once; in one without `await`, a call gives its result "
    "itself."
)
_ENDS: Final = "A program ends after its last line, or by `return` outside functions."
_AT_ONCE: Final = "Use asyncio.gather: `await asyncio.gather(call_tool(...), call_tool(...))`."
_NO_FILES: Final = "There are no files, no processes and no environment."
_RESULT: Final = (
    "A result is what the tool gave, without `content` around it, and a text if it is no JSON: print it first."
)
_READ: Final = "A result that is JSON is a dict or a list already, without json.loads; any other is a text."


def _missing(*modules: str) -> str:
    return rf"^ModuleNotFoundError: No module named '(?:{'|'.join(modules)})\b"


# The first that is found counts.
_REMEDIES: Final = tuple(
    (re.compile(said), remedy)
    for said, remedy in (
        (_missing("requests", "httpx", "aiohttp", "urllib", "http", "socket"), "There is no network: call a tool."),
        (_missing("pandas", "numpy", "polars"), "Use lists and dicts, sorted, statistics and collections.Counter."),
        (
            _missing("xml", "bs4", "lxml", "html"),
            "Of XML there are xml.etree.ElementTree and xml.dom.minidom; read HTML with re.",
        ),
        (_missing("dateutil", "arrow", "pendulum"), "Use datetime.fromisoformat, datetime.strptime and zoneinfo."),
        (_missing("yaml", "toml", "tomllib", "tabulate"), "Read and write lines, with split, partition and f-strings."),
        (_missing("threading", "multiprocessing", "queue"), "Use asyncio.gather, or concurrent.futures."),
        (_missing("struct"), "Use int.from_bytes(data[0:4], 'big') and the like."),
        (_missing("warnings"), "Catch an error as `e`, and print it."),
        (_missing("os", "pathlib", "subprocess", "shutil", "tempfile", "glob"), _NO_FILES),
        (
            r"^ModuleNotFoundError",
            f"Modules: {', '.join(MODULES)}. call_tool, search_tools and describe_tools need no import.",
        ),
        (
            r"^NameError: name '\w*(list_servers|read_result|match_intent|read_tool|report_tool)'",
            "Call it by call_tool(name, {arguments}).",
        ),
        # Names of our tools as hosts write them.
        (
            r"^NameError: name '(\w+_(call_tool|search_tools|describe_tools)|aggregator|functions|mcp|client|tools)'",
            "In a program, call_tool, search_tools and describe_tools have nothing before their names.",
        ),
        (r"^NameError: name '(exit|quit)'|^AttributeError: module 'sys' has no attribute 'exit'|^SystemExit", _ENDS),
        (r"^RuntimeError: Internal error in monty: exceptions can only be called with", "An exception takes one text."),
        (r"^NameError: name '(bytearray|memoryview)'", "Use bytes: bytes([1, 2]), or b''.join(parts)."),
        (
            r"^NameError",
            "A tool is called by call_tool('server.tool', {arguments}), and raises RuntimeError if it fails.",
        ),
        (
            r"^NotImplementedError: external function .* synchronous context",
            "Call the tools in a loop first, and let the function use what they returned.",
        ),
        (r"^AttributeError: '_Asyncio' object has|^NotImplementedError: .* async context managers", _AT_ONCE),
        (r"^NotImplementedError: .* async comprehensions", "Write a loop."),
        (
            r"^NotImplementedError: .* class inheritance",
            "Write plain classes, and raise RuntimeError or ValueError.",
        ),
        (r"^NotImplementedError: dataclass\(\) does not yet support the order option", "Sort by `key=`."),
        (r"^NotImplementedError: .* method decorators", "Write a plain method, or a function beside the class."),
        (r"^NotImplementedError: .* yield expressions", "Fill a list and return it."),
        (r"^NotImplementedError: .* the 'del' statement", "Use .pop(key), or set it to None."),
        (r"^AttributeError: '_Urllib' object has", "There is no network: call a tool."),
        (r"^AttributeError: '_Io' object has", "Of io there is StringIO."),
        (
            r"^AttributeError: '_Dataclasses' object has",
            "Of dataclasses there are dataclass, field, fields, asdict, astuple, replace and is_dataclass.",
        ),
        (r"^AttributeError: '_Statistics' object has", "Compute it with sum, sorted and math."),
        (r"^AttributeError: '_Functools' object has", "Choose by isinstance in one function."),
        (
            r"^AttributeError: '_ContextLib' object has",
            "Of contextlib there are contextmanager, asynccontextmanager, closing, suppress, nullcontext, ExitStack, "
            "redirect_stdout.",
        ),
        (r"^AttributeError: '_Operator' object has", "Write a lambda."),
        (r"^AttributeError: '_ElementTree' object has", "Of ElementTree there are fromstring and parse."),
        (
            r"^AttributeError: '_Element' object has",
            "Of an element there are tag, text, attrib, get, find, findall, iter.",
        ),
        (r"^AttributeError: '_MiniDom' object has", "Of minidom there are parseString and parse."),
        (
            r"^AttributeError: '_Node' object has",
            "Of a node there are nodeName, nodeValue, childNodes, firstChild, getAttribute, getElementsByTagName.",
        ),
        (r"^AttributeError: '_Futures' object has", "Of concurrent.futures there are the executors and as_completed."),
        (r"^(Type|Attribute)Error: .*(coroutine|can't be awaited|an awaitable is required)", _AWAIT_EACH),
        (
            r"^TypeError: (string|list) indices must|^AttributeError: '(str|dict|list|int|float|bool)' object has no",
            _RESULT,
        ),
        (r"^TypeError: '(int|float|bool)' object is not subscriptable", _RESULT),
        (
            r"^json\.JSONDecodeError: recursion limit",
            "A program cannot read JSON with more than 200 levels: call the tool without a program.",
        ),
        (r"^TypeError: the JSON object must be str|^json\.JSONDecodeError|^JSONDecodeError", _READ),
        (r"^KeyError: '?(content|structuredContent|result|isError)'?$", _RESULT),
        (r"^PermissionError|^RuntimeError: 'os\.\w+' is not supported", _NO_FILES),
        (r"^TimeoutError: feed", "The time of calls and questions does not count: compute less."),
    )
)


def with_remedy(said: str) -> str:
    """Return an error, which begins with its type, with a remedy if there is one."""
    beginning = said[:1_000]
    remedy = next((remedy for pattern, remedy in _REMEDIES if pattern.search(beginning)), None)
    return said if remedy is None else f"{said.rstrip('.')}. {remedy}"
