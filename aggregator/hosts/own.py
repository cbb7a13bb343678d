"""Entries of hosts that lead to the aggregator itself, and entries that are the same server.

Law: an entry of our own is never taken into our configuration: the aggregator would start itself without end.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

_MODULE: Final = "aggregator"
# Our commands; the second is also the name of the package.
_PROGRAMS: Final = frozenset({"aggregator", "aggregator-mcp"})
_RUNNERS: Final = frozenset({"uvx", "uv", "pipx", "npx", "npm", "bunx", "pnpm", "poetry", "hatch"})
_SHELLS: Final = frozenset({"cmd", "sh", "bash", "zsh"})
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ENDINGS: Final = (".exe", ".cmd", ".bat", ".ps1")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# The words for user names and passwords in the addresses of two entries that differ.
LOGIN: Final = "the login in its address"
# What does not change which server `npx` and its like start.
_NO_MATTER: Final = frozenset({"-y", "--yes", "-q", "--quiet", "--silent"})


def is_own(fields: Mapping[str, Any], ports: Collection[int] = (), name: str = "") -> bool:
    """Tell whether an entry, in our form, leads to the aggregator; `ports` are its listening ports here.

    An entry with the `name` of our own entries may use a former port.
    """
    if "url" in fields:
        address = str(fields["url"])
        return _is_own_address(address, ports) or (name.lower() in _PROGRAMS and _address(address)[1] in _LOCAL)
    words = [str(fields.get("command", "")), *map(str, fields.get("args", ()))]
    if any(_is_own_address(word, ports) for word in words[1:]):  # a program that passes on to an address
        return True
    program = program_name(words[0])
    if program in _PROGRAMS:
        return True
    if program.startswith("python"):
        return words[1:3] == ["-m", _MODULE]
    if program in _RUNNERS | _SHELLS:
        return any(
            program_name(re.split(r"[@=\[<>~]", word)[0]) in _PROGRAMS
            and (at + 2 == len(words) or words[at + 2] in ("stdio", "serve"))
            for at, word in enumerate(words[1:])
        )
    return False


def identity(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what tells one server from another: its program and arguments, or its address, in one spelling."""
    if "url" in fields:
        return ("url", *_address(str(fields["url"])))
    words = [str(fields.get("command", "")), *map(str, fields.get("args", ()))]
    if program_name(words[0]) == "cmd" and [word.lower() for word in words[1:2]] == ["/c"]:
        words = words[2:] or words
    program = program_name(words[0])
    rest = [word.removesuffix("@latest") for word in words[1:] if program not in _RUNNERS or word not in _NO_MATTER]
    return ("program", program, *rest)


def conflicts(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables and headers that two entries have different values for, none a reference, the login in
    their address, and `cwd`.
    """
    for part in ("env", "headers"):
        mine, theirs = one.get(part), other.get(part)
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            for name, value in mine.items():
                if name in theirs and value != theirs[name] and "${" not in f"{value} {theirs[name]}":
                    yield str(name)
    if one.get("cwd") and other.get("cwd") and one["cwd"] != other["cwd"]:
        yield "cwd"
    logins = login_of(one), login_of(other)
    if logins[0] != logins[1] and not (all(logins) and "${" in "".join(logins)):
        yield LOGIN


def lacking(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    """Yield the variables and headers that the first entry has and the second has not."""
    for part in ("env", "headers"):
        mine, theirs = one.get(part), other.get(part)
        if isinstance(mine, Mapping):
            yield from (str(name) for name in mine if not isinstance(theirs, Mapping) or name not in theirs)


def login_of(fields: Mapping[str, Any]) -> str:
    """Return the user name and password in the address of an entry, a secret; empty without them."""
    try:
        return urlsplit(str(fields.get("url", ""))).netloc.rpartition("@")[0]
    except ValueError:
        return ""


def program_name(command: str) -> str:
    """Return the name of a program without its folder and ending."""
    name = re.split(r"[/\\]", command.strip())[-1].lower()
    return next((name.removesuffix(ending) for ending in _ENDINGS if name.endswith(ending)), name)


def _is_own_address(text: str, ports: Collection[int]) -> bool:
    scheme, host, port, *_ = _address(text)
    return scheme in _DEFAULT_PORTS and host in _LOCAL and port in {str(number) for number in ports}


def _address(text: str) -> tuple[str, ...]:
    try:
        parts = urlsplit(text)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme.lower(), 0)
        return parts.scheme.lower(), (parts.hostname or "").lower(), str(port), parts.path.rstrip("/"), parts.query
    except ValueError:
        return "", text, "", "", ""
