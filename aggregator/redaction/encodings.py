"""The ways in which programs write a secret down: what to look for first, and the pattern that finds the whole of it.

A character is written as it is, escaped for JSON, Python or a shell, percent-encoded, or as an entity, in any mixture
and any number of times over. Base64 is looked for at all three alignments, so that a secret is found inside a longer
text that was encoded whole, such as `user:secret`.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# Characters no encoder touches: where they stand together, a spelling can be looked for as it is.
_UNTOUCHED: Final = re.compile(r"[A-Za-z0-9]{4,}")
_ANCHOR_LENGTH: Final = 6
# Base64 from this length on may be broken into lines.
_BREAKABLE: Final = 24
_LINE_BREAK: Final = r"(?:(?:\\+[rn]|[\r\n])[ \t]*)*"
# One backslash, as it is or encoded.
_BACKSLASH: Final = r"(?:\\|%(?:25)*5[cC]|&(?:amp;)*#(?:0*92|[xX]0*5[cC]);)"
_LETTER_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\0": "0"}
_ENTITIES: Final = {'"': "quot", "&": "amp", "'": "apos", "<": "lt", ">": "gt"}
# What logs are made of, rarest first: a search for rare characters skips most of a line.
_RARE_FIRST: Final = "QZXJYKVWqUHGzBjOFNDPLMRISTEAC7869345201kvxwybgfhmupdclrnsotiae"
_RARITY: Final = {character: rank for rank, character in enumerate(_RARE_FIRST)}


@dataclass(frozen=True, slots=True)
class SecretForm:
    """One way of writing one secret. Where `pattern` matches, at least one of `anchors` stands, if there are any."""

    pattern: str
    anchors: tuple[str, ...]


def spellings(secret: str) -> Iterator[SecretForm]:
    """Every way in which a secret may be written; characters, not bytes, are what is searched."""
    yield _written(secret)
    for text in {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}:
        data = text.encode("utf-8", "surrogatepass")
        yield from (_base64(data, before) for before in range(3))
        yield _hexadecimal(data)


def _written(secret: str) -> SecretForm:
    # However often it is escaped, backslashes stay backslashes: their number says nothing.
    secret = re.sub(r"\\+", r"\\", secret)
    last = len(secret) - 1
    pattern = "".join(_escaped(character, at, last) for at, character in enumerate(secret))
    return SecretForm(pattern, _anchors(secret))


def _escaped(character: str, at: int, last: int) -> str:
    """A character with the backslashes that escaping may put before it; those before the first are nobody's loss."""
    if character in _RARITY:
        return character
    if character != "\\":
        return (f"{_BACKSLASH}{{0,64}}+" if at else "") + _character(character)
    # A run of them is looked at from its beginning, once; at the end, one stands for all.
    return _BACKSLASH if at == last else f"{_BACKSLASH}{{1,512}}+" if at else rf"(?<!\\){_BACKSLASH}{{1,512}}+"


def _character(character: str) -> str:
    code = ord(character)
    data = character.encode("utf-8", "surrogatepass")
    forms = [re.escape(character), _any_case(rf"{_BACKSLASH}*".join(f"u{unit:04x}" for unit in _utf16(character)))]
    if code < 256:
        forms.append(_any_case(f"x{code:02x}"))
    if letter := _LETTER_ESCAPES.get(character):
        forms.append(letter)
    forms.append("".join(rf"%(?:25)*{_any_case(f'{byte:02x}')}" for byte in data))
    entity = "|".join([f"#0*{code}", f"#[xX]0*{_any_case(f'{code:x}')}", _ENTITIES.get(character, f"#{code}")])
    forms.append(f"&(?:amp;)*(?:{entity});")
    if code > 0xFFFF:
        forms.append(_any_case(f"U{code:08x}"))
    if code > 127:
        # Its bytes one by one, escaped or taken for characters.
        forms.append(rf"{_BACKSLASH}*".join(rf"(?:{chr(byte)}|(?i:u00{byte:02x}|x{byte:02x}))" for byte in data))
    if character == " ":
        forms.append(r"\+")
    if character == "'":
        forms += [r"'\\*\"'\\*\"'", r"'\\+''"]
    # What needs an alternative of more characters comes first, or the shorter would hide it.
    return f"(?:{'|'.join(sorted(forms, key=len, reverse=True))})"


def _base64(data: bytes, before: int) -> SecretForm:
    """What base64 makes of the data behind `before` bytes (modulo 3) of something else: what the data alone decides.

    The characters next to it are its neighbours' as well, and go with it.
    """
    encoded = b64encode(bytes(before) + data).decode()
    own = encoded[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
    forms = {"+": r"(?:\\*+\+|-|%(?:25)*2[bB]|\\+u002[bB])", "/": r"(?:\\*+/|_|%(?:25)*2[fF]|\\+u002[fF])"}
    breakable = len(own) >= _BREAKABLE
    pattern = (_LINE_BREAK if breakable else "").join(forms.get(character, character) for character in own)
    edge = "[A-Za-z0-9+/_-]{0,2}"
    halves = (own[: len(own) // 2], own[len(own) // 2 :]) if breakable else (own,)
    found = [_anchors(half) for half in halves]
    # Without one in each half, a line break could fall into the only one.
    anchors = tuple(anchor for anchor_of_half in found for anchor in anchor_of_half) if all(found) else ()
    return SecretForm(f"{edge}{pattern}{edge}={{0,2}}" if before else f"{pattern}{edge}={{0,2}}", anchors)


def _hexadecimal(data: bytes) -> SecretForm:
    written = data.hex()
    start = min(range(len(written) - _ANCHOR_LENGTH + 1), key=lambda at: _RARITY[written[at].upper()])
    anchor = written[start : start + _ANCHOR_LENGTH]
    return SecretForm(f"(?i:{written})", tuple({anchor, anchor.upper()}))


def _anchors(text: str) -> tuple[str, ...]:
    """What to look for first: of the longest pieces the one that begins with the rarest character; or ()."""
    best = None
    for run in _UNTOUCHED.finditer(text):
        length = min(_ANCHOR_LENGTH, len(run[0]))
        for at in range(run.start(), run.end() - length + 1):
            rank = (-length, _RARITY[text[at]])
            if best is None or rank < best[0]:
                best = (rank, text[at : at + length])
    return (best[1],) if best is not None else ()


def _utf16(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]


def _any_case(digits: str) -> str:
    return f"(?i:{digits})" if digits.lower() != digits.upper() else digits
