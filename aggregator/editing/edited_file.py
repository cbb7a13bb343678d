"""A file with the document in it: opened, edited, and written back in its own encoding."""

import codecs
from dataclasses import dataclass
from pathlib import Path

from aggregator.editing.document import EditableDocument, Format
from aggregator.editing.errors import EditError
from aggregator.editing.open_document import open_document
from aggregator.editing.replace import read_file, replace_file

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file that is being edited; `was` is its content when it was opened, None if it did not exist."""

    path: Path
    document: EditableDocument
    was: bytes | None
    encoding: str = "utf-8"

    @property
    def content(self) -> bytes:
        """The bytes with all edits so far."""
        return self.document.text.encode(self.encoding)

    @property
    def changed(self) -> bool:
        """Return whether an edit has changed anything."""
        return self.content != (self.was or b"")

    def write(self) -> Path | None:
        """Write the file if anything has changed, and return its backup; None if there is none.

        Raises:
            EditError: the file was changed meanwhile, or cannot be written.
        """
        return replace_file(self.path, self.content, self.was) if self.changed else None


def open_file(path: Path, format: Format, *, missing: bool = False) -> EditedFile:
    """Open a file for edits; with `missing`, one that is not there is opened as an empty one.

    Raises:
        EditError: the file cannot be read, is not text in UTF-8 or UTF-16, or not in this format.
    """
    if missing and not path.exists():
        return EditedFile(path, open_document("", format, str(path)), None)
    return open_content(path, format, read_file(path))


def open_content(path: Path, format: Format, was: bytes) -> EditedFile:
    """Open the current or former content of a file for edits. Raises EditError as `open_file` does."""
    encoding = _UTF16.get(was[:2], "utf-8")
    try:
        text = was.decode(encoding)
    except ValueError:
        raise EditError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None
    return EditedFile(path, open_document(text, format, str(path)), was, encoding)
