"""The text of a file that a reference names."""

import codecs
from pathlib import Path
from typing import Final

from aggregator.domain.ordinary_files import NotOrdinary, read_ordinary
from aggregator.secret_sources.reference import SecretUnavailable, shortened

_LARGEST_FILE: Final = 2**20


def file_text(path: Path, written: str) -> str:
    """Return the text of an ordinary file of at most 1 MiB.

    Raises:
        SecretUnavailable: it cannot be read.
    """
    shown = shortened(written)
    try:
        content = read_ordinary(path, _LARGEST_FILE + 1)
        # Notepad and older PowerShell write UTF-16, with a mark.
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
    except NotOrdinary:
        raise SecretUnavailable(f"{shown} is not an ordinary file.", "Name a text file.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SecretUnavailable(
            f"The file {shown} cannot be read: {reason}.", "Create it, make it readable, or correct the path."
        ) from None
    if len(content) > _LARGEST_FILE:
        raise SecretUnavailable(f"The file {shown} is larger than 1 MiB.", "Name a file that holds the value alone.")
    return text
