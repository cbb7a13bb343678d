"""References to secrets that are resolved when they are needed, the texts around them, and why one has no value.

Law: no message shows a value, or anything that a program printed.
"""

from dataclasses import dataclass
from typing import Final, Literal

SourceKind = Literal["keyring", "command", "file"]
LONGEST_NAME: Final = 200
# Characters that end a reference, or begin one.
_OF_REFERENCES: Final = "${}"


class SecretUnavailable(Exception):
    """A reference that has no value now. `message` and `fix` are sentences without any value in them."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A reference to a secret.

    written: as it stands in the file.
    name: the name in the keyring, or the absolute path of the file.
    words: the program and its arguments.
    folder: the folder that the program runs in.
    """

    kind: SourceKind
    written: str
    name: str = ""
    words: tuple[str, ...] = ()
    folder: str = ""

    def __repr__(self) -> str:
        return f"<SecretReference {self.shown}>"

    @property
    def shown(self) -> str:
        """The reference as messages have it; of a command, the program alone, since its arguments may hold a key."""
        if self.kind == "command" and len(self.words) > 1:
            return f"${{command:{shortened(self.words[0])} ...}}"
        return shortened(self.written)


@dataclass(frozen=True, slots=True, repr=False)
class DeferredText:
    """A text of an entry with references in it that are resolved for each connection.

    where: its place in the entry, under our names.
    parts: the texts between the references, in which secrets may stand, and the references.
    """

    where: tuple[str | int, ...]
    parts: tuple[str | SecretReference, ...]

    def __repr__(self) -> str:
        return f"<DeferredText {self.where}>"

    @property
    def references(self) -> tuple[SecretReference, ...]:
        """The references in the text, in their order."""
        return tuple(part for part in self.parts if isinstance(part, SecretReference))

    @property
    def unknown(self) -> bool:
        """True if part of the text is unknown until a connection opens."""
        return any(reference.kind != "file" for reference in self.references)


def name_fault(name: str) -> str | None:
    """Return why a text cannot be the name of a secret in the keyring; None for one that can."""
    if not name:
        return "It is empty."
    if len(name) > LONGEST_NAME:
        return f"It is longer than {LONGEST_NAME} characters."
    if not name.isprintable() or name != name.strip() or any(character in _OF_REFERENCES for character in name):
        return "It has a character that a reference cannot have: $, {, }, a control character, a space at an end."
    return None


def shortened(text: str) -> str:
    """Return a text that is short enough for a message."""
    return text if len(text) <= 60 else f"{text[:57]}..."
