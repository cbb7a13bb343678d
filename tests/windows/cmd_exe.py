"""How `cmd.exe` reads a command line, and a program in C the words that a batch file passes on with `%*`.

Written from the description of both by Microsoft and the rules that Rust's standard library relies on; not from a run.
"""

import re
from collections.abc import Mapping
from typing import Final

_VARIABLE: Final = re.compile(r"%([^%:]+)(:~(-?\d*),(-?\d*))?%")
_SPECIAL: Final = frozenset("&|<>()@^")


class ReadAsCommand(Exception):
    """A character of an argument that `cmd.exe` would act on."""


def expanded(line: str, variables: Mapping[str, str]) -> str:
    """Return a line with its variables replaced, from left to right and once, as at the prompt."""
    out, at = [], 0
    while at < len(line):
        found = _VARIABLE.match(line, at) if line[at] == "%" else None
        name = found[1].lower() if found is not None else ""
        if found is None or name not in variables:
            out.append(line[at])
            at += 1
            continue
        value = variables[name]
        out.append(value if found[2] is None else value[int(found[3] or 0) :][: int(found[4] or 0)])
        at = found.end()
    return "".join(out)


def batch_words(line: str, variables: Mapping[str, str]) -> tuple[str, str]:
    """Return the batch file that a line runs, and the text of its arguments.

    Raises:
        ReadAsCommand: something in the line is more than an argument.
    """
    _, _, rest = line.partition(" /c ")
    assert rest[0] == rest[-1] == '"', rest
    text = expanded(rest[1:-1], variables)
    quoted = False
    for character in text:
        if character == '"':
            quoted = not quoted
        elif character in "\r\n\0" or (not quoted and character in _SPECIAL):
            raise ReadAsCommand(text)
    assert not quoted, text
    file, _, arguments = text[1:].partition('"')
    return file, arguments


def words_in_c(text: str) -> list[str]:
    """Return the words of a command line as the C library of Microsoft splits them."""
    words: list[str] = []
    word: str | None = None
    quoted, at = False, 0
    while at < len(text):
        backslashes = len(text) - at - len(text[at:].lstrip("\\"))
        at += backslashes
        following = text[at : at + 1]
        if following == '"':
            word = (word or "") + "\\" * (backslashes // 2)
            if backslashes % 2:
                word += '"'
            elif quoted and text[at + 1 : at + 2] == '"':
                word += '"'
                at += 1
            else:
                quoted = not quoted
            at += 1
            continue
        if backslashes:
            word = (word or "") + "\\" * backslashes
        if not following:
            break
        if following in " \t" and not quoted:
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + following
        at += 1
    return [*words, word] if word is not None else words
