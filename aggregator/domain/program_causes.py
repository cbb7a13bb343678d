"""The causes for which the program of a server ends at once, by its words on stderr: one sentence and one mend each.

Law: `check` and `doctor` take their words from here. This file decides. The words of servers are for operators alone,
and so is what this file makes of them.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from aggregator.domain.patient_files import ON_WINDOWS
from aggregator.domain.shell import shell_word

ProgramCauseKind = Literal["module", "node", "docker", "environment", "machine"]

# Characters of a name or path that a program told.
_SHOWN: Final = 160
_VARIABLE: Final = r"(?!ERR_)([A-Z][A-Z0-9]*_[A-Z0-9_]+)\b"
_OLD_NODE: Final = 20
_OLDER: Final = shell_word("mcp<2")
_NEWER: Final = shell_word("mcp>=2")
_LET_USE: Final = (
    "Close the program that has the file open, or give your user the right to it (`icacls FILE /reset`)"
    if ON_WINDOWS
    else "Give the file to your user (for the cache of npm: `sudo chown -R $USER ~/.npm`)"
)


class ProgramCause(NamedTuple):
    """A cause in words: `sentence` goes on after the name of the server, `mend` is a sentence of its own.

    The kind `machine` is for causes that no variable of an entry can change.
    """

    kind: ProgramCauseKind
    sentence: str
    mend: str


class _Row(NamedTuple):
    """`pattern` is searched in all the words; `{}` in the sentence and the mend is its first group."""

    pattern: re.Pattern[str]
    kind: ProgramCauseKind
    sentence: str
    mend: str


def _row(pattern: str, kind: ProgramCauseKind, sentence: str, mend: str) -> _Row:
    return _Row(re.compile(pattern), kind, sentence, mend)


# In the order of the search: what one program says can fit several, and the first is the most exact.
_ROWS: Final = (
    _row(
        r"(?i)permission denied while trying to connect to the docker",
        "docker",
        "your user may not use Docker",
        "Add your user to the group `docker`, and sign in again.",
    ),
    _row(
        r"(?i)docker daemon|docker api at|docker desktop is not running|docker\.sock|podman\.sock"
        r"|pipe/docker|connect to podman",
        "docker",
        "the Docker daemon does not answer",
        "Start Docker, then try again.",
    ),
    _row(
        r"pull access denied for ([^\s,]+)|manifest for (\S+) not found|manifest unknown",
        "docker",
        "Docker has no image {}",
        "Correct the name of the image in `args`, or sign in with `docker login`.",
    ),
    _row(
        r"internal/preload|is not allowed in NODE_OPTIONS",
        "environment",
        "Node.js cannot start with the NODE_OPTIONS that it gets",
        "Correct NODE_OPTIONS under `env` of its entry, or take it out: it names a missing file or a wrong option.",
    ),
    _row(
        r"No module named 'encodings'",
        "environment",
        "its Python does not find its own library",
        "Take PYTHONHOME out of `env` of its entry; if it is not there, install that Python anew.",
    ),
    _row(
        # The names of version 1 that version 2 has no more: its methods of `Server` were decorators.
        r"No module named 'mcp\.server\.fastmcp|cannot import name '(?:FastMCP|McpError)' from 'mcp\b"
        r"|'Server' object has no attribute '(?:list|call|get|read|subscribe|unsubscribe|set|completion|progress)\w*'",
        "machine",
        "it was written for version 1 of the Python library `mcp`, and gets version 2",
        f"Give it the older one: put `--with` and `mcp<2` first in the `args` of `uvx`, or run `pip install {_OLDER}` "
        "in its environment; or use a newer release of the server.",
    ),
    _row(
        r"No module named 'mcp\.server\.mcpserver|cannot import name '(?:MCPServer|MCPError)' from 'mcp\b",
        "machine",
        "it was written for version 2 of the Python library `mcp`, and gets version 1",
        f"Give it the newer one: put `--with` and `mcp>=2` first in the `args` of `uvx`, or run `pip install {_NEWER}` "
        "in its environment.",
    ),
    _row(
        r"AttributeError: (?:partially initialized )?module '([\w.]+)' has no attribute"
        r"|ImportError: cannot import name '\w+' from (?:partially initialized module )?'([\w.]+)'",
        "environment",
        "another module {} than it needs comes first",
        "Take PYTHONPATH out of `env` of its entry, or rename the file that has the name of that module.",
    ),
    _row(
        r"Read-only file system|\bEROFS\b",
        "environment",
        "it writes to a disk that is read-only",
        "Name a folder for its cache that can be written under `env` of its entry: UV_CACHE_DIR for uv, "
        "NPM_CONFIG_CACHE for npm.",
    ),
    _row(
        r"No space left on device|\bENOSPC\b|not enough space on the disk",
        "environment",
        "a disk that it writes to is full",
        "Make room there, or name a folder on another disk under `env` of its entry: UV_CACHE_DIR for uv, "
        "NPM_CONFIG_CACHE for npm, TMPDIR for others.",
    ),
    _row(
        r"\bEMFILE\b|Too many open files",
        "machine",
        "too many files are open for one process",
        "Run `ulimit -n 4096` where the aggregator is started, or `LimitNOFILE=4096` in its service.",
    ),
    _row(
        r"UNABLE_TO_GET_ISSUER_CERT|UNABLE_TO_VERIFY_LEAF|SELF_SIGNED_CERT|CERTIFICATE_VERIFY_FAILED|CERT_HAS_EXPIRED"
        r"|CERT_NOT_YET_VALID|invalid peer certificate|UnknownIssuer|certificate is not yet valid",
        "environment",
        "it does not accept the certificate at the other end",
        "Name the file of your authority under `env` of its entry: NODE_EXTRA_CA_CERTS for Node.js, SSL_CERT_FILE for "
        "Python and uv; if the date of this machine is wrong, set it.",
    ),
    _row(
        r"npm (?:ERR!|error)[^\n]*(?:ECONNREFUSED|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|ECONNRESET|ENETUNREACH)"
        r"|Failed to fetch: |Request failed after \d+ retr|Could not fetch URL|error sending request for url"
        r"|ConnectTimeoutError|NewConnectionError",
        "environment",
        "the registry that its package comes from does not answer",
        "Look at the network, a proxy (HTTPS_PROXY) and the address of the registry (NPM_CONFIG_REGISTRY, "
        "UV_DEFAULT_INDEX); or install the package, and name its program in `command`.",
    ),
    _row(
        r"\bEACCES\b|root-owned files|Permission denied \(os error 13\)|PermissionError: \[Errno 13\]",
        "environment",
        "it may not read or write a file that it needs",
        f"{_LET_USE}, or name another folder under `env` of its entry.",
    ),
    _row(
        r"npm (?:ERR!|error) Log files were not written due to an error writing to the directory: (\S+)",
        "environment",
        "npm cannot write its cache ({})",
        "Name a folder that can be written under `env` of its entry: NPM_CONFIG_CACHE.",
    ),
    _row(
        r"\bEADDRINUSE\b|[Aa]ddress already in use|Only one usage of each socket",
        "machine",
        "a port of its own is in use by another program",
        "End the other copy of it, or give it another port in `args` or `env`.",
    ),
    _row(
        r"error while loading shared libraries: ([^\s:]+)|Library not loaded: (\S+)",
        "environment",
        "the library {} is missing",
        "Install that library, or a build of the server for this system.",
    ),
    _row(
        r"version `(GLIBC[\w.]*|GLIBCXX[\w.]*)' not found",
        "environment",
        "this system is older than its program needs ({})",
        "Install a build of the server for this system, or run it in a container.",
    ),
    _row(
        r"(?i)unsupported engine|requires? node(?:\.js)?(?: version)? ?[>v\d]|EBADENGINE|ERR_UNKNOWN_BUILTIN"
        r"|No such built-in module|SyntaxError: (?:Unexpected|The requested module|Cannot use import)"
        r"|node:internal.*not supported|node: bad option",
        "node",
        "it needs another version of Node.js",
        "Install a current Node.js (22).",
    ),
    _row(
        r"requires a different Python|[Rr]equires-Python",
        "environment",
        "it needs another version of Python",
        "Start it with a newer one, such as `uvx --python 3.13`.",
    ),
    _row(
        r"can't open file '([^'\n]+)'|Cannot find module '((?:/|[A-Za-z]:)[^'\n]+)'",
        "module",
        "the file {} in its `args` does not exist",
        "Correct that path: write it in full, from the root.",
    ),
    _row(
        r"(?:ModuleNotFoundError: No module named|Error: Cannot find (?:module|package)|ERR_MODULE_NOT_FOUND"
        r"|No module named|could not determine executable|npm (?:ERR!|error) (?:code )?E?404|No solution found"
        r"|ImportError:)"
        r"[ :]*['\"]?([\w@./-]*)",
        "module",
        "a module or package {} is missing",
        "Install it for the program in `command`, or correct the name in `args`.",
    ),
    _row(
        rf"KeyError: '{_VARIABLE}|{_VARIABLE}[^\n]{{0,40}}\b(?:required|not set|missing|must be set|not provided"
        rf"|not defined|undefined|unset)\b|(?i:missing|set|provide)(?i: the| a| required| your| environment| env"
        rf"| variables?| var)*:? ['\"`]?{_VARIABLE}",
        "environment",
        "it lacks the variable {}",
        "Write {} under `env` of its entry.",
    ),
    _row(
        r"\bfetch failed\b|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|connect (?:ECONNREFUSED|ETIMEDOUT|ENETUNREACH)"
        r"|Name or service not known|Temporary failure in name resolution|getaddrinfo failed"
        r"|Max retries exceeded with url",
        "environment",
        "an address that it needs to start does not answer",
        "Look at the network, a proxy (HTTPS_PROXY), and the addresses in `args` and `env` of its entry.",
    ),
)
_NODE: Final = re.compile(r"(?:Reference|Type)Error: [^\n]*(?:\n[^\n]*){0,20}?\nNode\.js v(\d+)\.")


def program_cause(words: Sequence[str]) -> ProgramCause | None:
    """Return the cause that the last lines of a program on stderr tell, without secrets, or None."""
    text = "\n".join(words)
    old = _NODE.search(text)
    if old is not None and int(old[1]) < _OLD_NODE:
        return next(ProgramCause(row.kind, row.sentence, row.mend) for row in _ROWS if row.kind == "node")
    for row in _ROWS:
        if (found := row.pattern.search(text)) is not None:
            name = next(filter(None, found.groups()), "")[:_SHOWN]
            return ProgramCause(row.kind, _filled(row.sentence, name), _filled(row.mend, name))
    return None


def _filled(text: str, name: str) -> str:
    return " ".join(text.replace("{}", "".join(filter(str.isprintable, name))).split())
