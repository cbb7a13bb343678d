"""The request of `aggregator add`: its words and options, checked and told apart."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from aggregator.cli.servers.adding.hints import hint
from aggregator.config.durations import parse_duration
from aggregator.config.servers.foreign import is_comment
from aggregator.config.servers.names import usable
from aggregator.domain.errors import OperatorError

RemoteType = Literal["auto", "http", "sse"]
AccountOwner = Literal["user", "agent", "shared"]

_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_PAIR: Final = re.compile(r"([^=:]+)([=:])(.*)", re.DOTALL)
_NOT_IN_A_VARIABLE: Final = re.compile("[^A-Za-z0-9]+")
_USAGE: Final = (
    "Write `aggregator add NAME -- COMMAND ARGS...`, `aggregator add NAME URL`, or `aggregator add --from SOURCE`."
)


@dataclass(frozen=True, slots=True)
class AddRequest:
    """A server to add, and the options. Exactly one of `command`, `url` and `source` is set.

    `more` are arguments for the program of `source`. `env`, `headers` and `answers` are as typed.
    """

    name: str | None
    command: tuple[str, ...] = ()
    url: str | None = None
    source: str | None = None
    more: tuple[str, ...] = ()
    type: RemoteType | None = None
    per: AccountOwner | None = None
    env: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    use: str | None = None
    cwd: str | None = None
    config: Path | None = None
    yes: bool = False
    connect: bool = True
    anyway: bool = False
    replace: bool = False
    disabled: bool = False
    as_json: bool = False
    seconds: float | None = None


def read_words(words: list[str], source: str | None) -> tuple[str | None, tuple[str, ...], str | None]:
    """Return the name, the words after it, and the address if those are one.

    Raises:
        OperatorError: the words are no server.
    """
    name = words[0] if words else None
    rest = tuple(words[1:])
    if source is None and (meant := hint(words)) is not None:
        raise OperatorError(meant)
    if name is not None:
        _check_name(name)
    if source is not None:
        return name, rest, None
    if name is None or not rest:
        raise OperatorError(_USAGE if name is None else f"The command or the address of {name} is missing. {_USAGE}")
    _check_scheme(rest[0])
    if _ADDRESS.match(rest[0]):
        if len(rest) > 1:
            raise OperatorError(f"An address takes no arguments. {_USAGE}")
        return name, (), rest[0]
    return name, rest, None


def read_pairs(given: Iterable[str], what: str, *, headers: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the pairs in `K=V` texts, and in `K: V` for headers; a name alone refers to the variable of that name.

    Raises:
        OperatorError: a text has no name.
    """
    pairs: list[tuple[str, str]] = []
    for text in given:
        found = _PAIR.fullmatch(text) if headers else None
        name, separator, value = found.groups() if found else text.partition("=")
        name = name.strip()
        if not name or not name.isprintable() or (headers and " " in name):
            raise OperatorError(f"A {what} has no name that can be used. Write NAME=VALUE.")
        if not separator:
            value = f"${{{_NOT_IN_A_VARIABLE.sub('_', name).strip('_').upper() if headers else name}}}"
        pairs.append((name, value.strip() if headers else value))
    return tuple(pairs)


def read_seconds(text: str | None) -> float | None:
    """Return a duration such as `90s` in seconds. Raises OperatorError when it is none."""
    if text is None:
        return None
    try:
        return float(parse_duration(text))
    except ValueError:
        raise OperatorError("--timeout is not a duration. Write one such as 90s or 2m.") from None


def read_type(text: str | None) -> RemoteType | None:
    """Return the transport of an address. Raises OperatorError for one that is not known."""
    known: dict[str, RemoteType] = {
        "auto": "auto",
        "http": "http",
        "streamable-http": "http",
        "streamablehttp": "http",
        "sse": "sse",
    }
    if text is not None and text.lower() not in known:
        raise OperatorError(f"--type {text!r:.40} is not known. Write http, sse or auto.")
    return known[text.lower()] if text is not None else None


def read_per(text: str | None) -> AccountOwner | None:
    """Return the owner of the account that a server is used with. Raises OperatorError for an unknown one."""
    known: dict[str, AccountOwner] = {"user": "user", "agent": "agent", "shared": "shared"}
    if text is not None and text.lower() not in known:
        raise OperatorError(f"--per {text!r:.40} is not known. Write shared, agent or user.")
    return known[text.lower()] if text is not None else None


def _check_scheme(word: str) -> None:
    """Refuse an address with another scheme than http and https, which would look like a program."""
    scheme, separator, after = word.partition("://")
    if separator and not _ADDRESS.match(word):
        meant = "https" if scheme.lower().endswith("s") else "http"
        raise OperatorError(
            f"{scheme[:20]!r} cannot begin a server's address, which begins with http:// or https://. "
            f"Did you mean {meant}://{after.partition('?')[0][:80]}?"
        )


def _check_name(name: str) -> None:
    made = usable(name)
    if made is None or is_comment(name) or _ADDRESS.match(name):
        raise OperatorError(f"{name!r:.80} cannot be a server's name: use letters, digits, `_` and `-`. {_USAGE}")
    if made != name:
        raise OperatorError(f"{name!r:.80} cannot be a server's name: names of tools cannot hold it. Write {made}.")
