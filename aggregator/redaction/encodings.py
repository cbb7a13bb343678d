"""The encodings in which programs write a secret: URL, JSON, base64, shell and others.

A character is written plain, escaped for JSON, Python or a shell, percent-encoded, or as an entity, in any mixture and
any number of times over. The search covers all three alignments of base64, so that a secret is found inside a longer
encoded text, such as `user:secret`. Forms are patterns, not lists of texts: an alternation of all results of two
successive encodings takes a tenth of a second to compile for each secret.
"""

import json
import re
from base64 import b64encode
from typing import Final, NamedTuple

# Characters that no encoder changes: a run of them can be searched for literally.
_UNTOUCHED: Final = re.compile(r"[A-Za-z0-9]{4,}")
_ANCHOR_LENGTH: Final = 6
# Base64 from this length on may be broken into lines.
_BREAKABLE: Final = 24
_LINE_BREAK: Final = r"(?:(?:\\+[rn]|[\r\n])[ \t]*)*"
# One backslash, plain or encoded.
_BACKSLASH: Final = r"(?:\\|%(?:25)*5[cC]|&(?:amp;)*#(?:0*92|[xX]0*5[cC]);)"
_ENTITIES: Final = {'"': "quot", "&": "amp", "'": "apos", "<": "lt", ">": "gt"}
# What only one encoder does: letters behind a backslash, a form's space, a shell's quotes.
_MORE: Final = {
    **{"\n": ["n"], "\r": ["r"], "\t": ["t"], "\b": ["b"], "\f": ["f"], "\0": ["0"]},
    **{" ": [r"\+"], "'": [r"'\\*\"'\\*\"'", r"'\\+''"]},
}
# The usual characters of logs, rarest first: a search for rare characters skips most of a line.
_RARE_FIRST: Final = "QZXJYKVWqUHGzBjOFNDPLMRISTEAC7869345201kvxwybgfhmupdclrnsotiae"
_RARITY: Final = {character: rank for rank, character in enumerate(_RARE_FIRST)}


class SecretForm(NamedTuple):
    """One way of writing one secret. Where `pattern` matches, at least one of `anchors` stands, if there are any."""

    pattern: str
    anchors: tuple[str, ...]


def forms(secret: str) -> list[SecretForm]:
    """Return every form of a secret; the search is over characters, not bytes."""
    found = [_written(secret)]
    for text in {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}:
        data = text.encode("utf-8", "surrogatepass")
        found += [_base64(data, before) for before in range(3)]
        digits, anchors = data.hex(), _anchors(data.hex())
        found.append(SecretForm(f"(?i:{digits})", (*anchors, *map(str.upper, anchors))))
    return found


def _written(secret: str) -> SecretForm:
    # However often it is escaped, backslashes stay backslashes: their number says nothing.
    secret = re.sub(r"\\+", r"\\", secret)
    parts = []
    for at, character in enumerate(secret):
        if character in _RARITY:
            parts.append(character)
        elif character != "\\":
            # Behind the backslashes that escaping may put before it; those before the first need not be hidden.
            parts.append((f"{_BACKSLASH}{{0,64}}+" if at else "") + _character(character))
        elif at == len(secret) - 1:
            parts.append(_BACKSLASH)  # one stands for all
        else:
            # A run of backslashes is examined from its beginning, once.
            parts.append(("" if at else r"(?<!\\)") + f"{_BACKSLASH}{{1,512}}+")
    return SecretForm("".join(parts), _anchors(secret))


def _character(character: str) -> str:
    code = ord(character)
    data = character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass").hex(" ", 2).split()
    coded = [
        rf"{_BACKSLASH}*".join(f"u{unit}" for unit in units),
        "".join(f"%(?:25)*{byte:02x}" for byte in data),
        f"&(?:amp;)*(?:#0*{code}|#x0*{code:x}|{_ENTITIES.get(character, f'#{code}')});",
        *([f"x{code:02x}"] if code < 256 else []),
        *([f"U{code:08x}"] if code > 0xFFFF else []),
    ]
    if code > 127:
        # Its bytes one by one, escaped or taken for characters.
        coded.append(rf"{_BACKSLASH}*".join(f"(?:{chr(byte)}|u00{byte:02x}|x{byte:02x})" for byte in data))
    # The plain character comes last: it may be the beginning of another form.
    return f"(?:(?i:{'|'.join((*_MORE.get(character, ()), *coded))})|{re.escape(character)})"


def _base64(data: bytes, before: int) -> SecretForm:
    """Return the part of the base64 of data after `before` bytes (modulo 3) that depends on the data alone.

    The characters next to it depend on its neighbours too, and are hidden with it.
    """
    encoded = b64encode(bytes(before) + data).decode()
    own = encoded[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
    signs = {"+": r"(?:\\*+\+|-|%(?:25)*2[bB]|\\+u002[bB])", "/": r"(?:\\*+/|_|%(?:25)*2[fF]|\\+u002[fF])"}
    breakable = len(own) >= _BREAKABLE
    pattern = (_LINE_BREAK if breakable else "").join(signs.get(character, character) for character in own)
    edge = "[A-Za-z0-9+/_-]{0,2}"
    # Without an anchor in each half, a line break could fall into the only one.
    halves = [_anchors(half) for half in ((own[: len(own) // 2], own[len(own) // 2 :]) if breakable else (own,))]
    anchors = tuple(anchor for half in halves for anchor in half) if all(halves) else ()
    return SecretForm(f"{edge if before else ''}{pattern}{edge}={{0,2}}", anchors)


def _anchors(text: str) -> tuple[str, ...]:
    """Return what to look for first: of the longest pieces the one that begins with the rarest character; or ()."""
    pieces = [
        run[at : at + _ANCHOR_LENGTH]
        for run in _UNTOUCHED.findall(text)
        for at in range(max(1, len(run) - _ANCHOR_LENGTH + 1))
    ]
    return (min(pieces, key=lambda piece: (-len(piece), _RARITY[piece[0]])),) if pieces else ()
