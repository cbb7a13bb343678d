"""Recognize arguments by their form: `PROJ-88` is the key of an issue, `10.2.3.4` is an IP address.

Law: the forms are those of the world, never of one catalog.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from aggregator.catalog.search.terms.stem import stem

# A request has few; a pasted text may have many.
_MOST: Final = 4
# Words in front of a hyphen and a number that are standards and the like, not projects.
_NOT_PROJECTS: Final = (
    "UTF|UCS|ISO|IEC|SHA|AES|RSA|MD|RFC|HTTP|TLS|GPT|COVID|CVE|CWE|IPV|USB|MP|EN|DIN|TOP|VPN|LGA|DDR|PM"
)
# They end like files, and are none.
_LIBRARIES: Final = "(?i:node|next|nuxt|vue|three|express|react|angular|discord|chart|d3|p5)\\.js"
_ENDINGS: Final = "com|org|net|io|dev|app|ai|co|edu|gov|info|de|fr|es|cn|jp|uk|eu|us|ch|at|nl|it"


class _Form(NamedTuple):
    """A form by which an argument shows its kind. terms: what tools call the kind, best first, by their stems."""

    kind: str
    pattern: re.Pattern[str]
    terms: tuple[str, ...]


def _form(kind: str, pattern: str, terms: str) -> _Form:
    alone = re.compile(rf"(?<![A-Za-z0-9_.@/-])(?:{pattern})(?![A-Za-z0-9_-])")
    return _Form(kind, alone, tuple(map(stem, terms.split())))


# In their order: a part of a text has the first form that fits.
_FORMS: Final = (
    _form("vulnerability", r"CVE-\d{4}-\d{4,7}|GHSA(?:-\w{4}){3}", "vulnerability security advisory"),
    _form(
        "page",
        rf"https?://[^\s\"'<>]{{1,500}}|(?:[a-z\d-]{{1,63}}\.){{1,4}}(?:{_ENDINGS})(?:/[^\s\"'<>]{{0,500}})?",
        "url website web",
    ),
    _form("network", r"\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}", "cidr subnet network"),
    _form("IP address", r"\d{1,3}(?:\.\d{1,3}){3}", "ip address"),
    _form("coordinates", r"-?\d{1,3}\.\d{2,9}\s{0,2}[,，]\s{0,2}-?\d{1,3}\.\d{2,9}", "coordinates location latitude"),
    _form("cells", r"\$?[A-Z]{1,3}\$?\d{1,6}:\$?[A-Z]{1,3}\$?\d{1,6}", "cell range"),
    _form("issue", rf"(?!(?:{_NOT_PROJECTS})-)[A-Z][A-Z\d]{{1,9}}-\d{{1,6}}", "issue ticket jira"),
    _form("commit", r"(?=[a-f]*\d)(?=\d*[a-f])[\da-f]{7,40}", "commit"),
    _form("Word file", r"[\w-]{1,40}\.docx?", "document word"),
    _form("spreadsheet", r"[\w-]{1,40}\.xlsx?", "excel workbook spreadsheet"),
    _form("picture", r"[\w-]{1,40}\.(?:png|jpe?g|gif|webp|svg)", "image"),
    _form("recording", r"[\w-]{1,40}\.(?:mp3|wav|m4a|ogg|flac)", "audio"),
    _form("app", r"[\w-]{1,40}\.(?:apk|ipa|aab)", "app"),
    _form(
        "file",
        rf"(?!{_LIBRARIES})[\w-]{{1,40}}\.(?:pdf|txt|md|log|ya?ml|json|toml|ini|py|js|ts|go|rs|java|csv|parquet|zip)",
        "file",
    ),
)


class FormedArgument(NamedTuple):
    """An argument that shows its kind. key: its text with its kind, which has a space, so that no word is the same."""

    text: str
    key: str
    terms: tuple[str, ...]


def formed_arguments(text: str) -> Iterator[FormedArgument]:
    """Yield the first arguments in a text that show their kind."""
    taken: list[tuple[int, int]] = []
    found = ((match, form) for form in _FORMS for match in islice(form.pattern.finditer(text), _MOST))
    for match, form in found:
        start, end = match.span()
        if all(end <= first or last <= start for first, last in taken):
            taken.append((start, end))
            yield FormedArgument(match[0], f"{match[0]} ({form.kind})", form.terms)
            if len(taken) == _MOST:
                return
