"""Propose labels for a tool from its server's description: name, description, parameters and annotations.

This file decides. Law: an operator reviews every proposal; nothing is applied, and a lying server is believed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from aggregator.domain.text.invisible import escaped
from aggregator.flow.decide import label_words as known
from aggregator.policy.rules import OUTWARD, PRIVATE, UNTRUSTED

_SENTENCE: Final = 300
_PARAMETERS: Final = 100
_SHOWN: Final = 40


class ProposedLabel(NamedTuple):
    """A label for a tool, and in words why."""

    label: str
    why: str


class _ToolWords(NamedTuple):
    """The words a server has for a tool; `whole` with the name of the server. `acts`: it does more than read."""

    words: tuple[str, ...]
    whole: frozenset[str]
    sentence: str
    parameters: tuple[str, ...]
    acts: bool
    open_world: bool


def suggest_labels(server: str, name: str, definition: Mapping[str, Any]) -> tuple[ProposedLabel, ...]:
    """Return the labels that fit a tool, each with its reason. `server` is the id of its server."""
    said = _said(server, name, definition)
    found = (
        (UNTRUSTED, _untrusted(said)),
        (PRIVATE, _private(said)),
        (OUTWARD, _outward(said)),
    )
    return tuple(ProposedLabel(label, why) for label, why in found if why is not None)


def _said(server: str, name: str, definition: Mapping[str, Any]) -> _ToolWords:
    hints = definition.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    schema = definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    parameters = tuple(properties)[:_PARAMETERS] if isinstance(properties, Mapping) else ()
    description = definition.get("description")
    text = description[:_SENTENCE].strip() if isinstance(description, str) else ""
    sentence = text.partition("\n")[0].partition(". ")[0]
    words, own = known.words(name), known.words(server)
    whole = frozenset((*words, *own))
    while len(words) > 1 and words[0] in own and words[0] not in known.WRITING:
        words = words[1:]
    acts = _acts(words, says_read_only=hints.get("readOnlyHint") is True)
    return _ToolWords(words, whole, sentence, parameters, acts, hints.get("openWorldHint") is True)


def _acts(words: tuple[str, ...], *, says_read_only: bool) -> bool:
    """Tell whether a tool does more than read. A tool that sends does, even if its annotations deny it."""
    if _asks(words):
        return False
    first, last = (words[0], words[-1]) if words else ("", "")
    reads_last = last in known.READING | known.READ_LAST and first not in known.WRITING
    if _BOTH.isdisjoint(words) and (first in known.READING or reads_last):
        return False
    if not known.SENDING.isdisjoint(words) or first in known.SENDING_FIRST:
        return True
    return not says_read_only and (not known.WRITING.isdisjoint(words) or _runs(words) is not None)


_BOTH: Final = frozenset({"and", "or"})


def _untrusted(said: _ToolWords) -> str | None:
    address = next((one for one in said.parameters if one.lower() in known.ADDRESSES), None)
    if address is not None and not (said.acts and not _browses(said)):
        return f"it reads the address in {_quoted(address)}"
    if _browses(said):
        return "it answers with what a page shows"
    if not said.acts and _in_browser(said) and (word := _first(said.words, known.SEEING)) is not None:
        return f"it reads what a page shows: {_quoted(word)} in its name"
    if said.acts or _only_about(said.words):
        return None
    if (word := _product(said) or _first(said.words, known.STRANGE)) is not None:
        return f"others may have written what it reads: {_quoted(word)} in its name"
    if (found := known.STRANGE_TEXTS.search(said.sentence)) is not None:
        return f"others may have written what it reads: {_quoted(found[0])} in its description"
    if said.open_world and (word := _first(said.words, _SEARCHING)) is not None:
        return f"it reads from the open world: {_quoted(word)} in its name, and openWorldHint"
    return None


_SEARCHING: Final = frozenset({"search", "fetch", "scrape", "crawl", "extract", "research", "browse"})


def _private(said: _ToolWords) -> str | None:
    if (run := _runs(said.words)) is not None:
        return f"it may read all that can be reached from there: {run}"
    if said.acts or _only_about(said.words):
        return None
    if _asks(said.words):
        return f"it answers questions about data: {_quoted(' '.join(said.words))}"
    word = _product(said) or _pair(said.words, known.PRIVATE_PAIRS) or _first(said.words, known.PRIVATE)
    if word is not None:
        return f"it reads what others may not know: {_quoted(word)} in its name"
    if (found := known.PRIVATE_TEXTS.search(said.sentence)) is not None:
        return f"it reads what others may not know: {_quoted(found[0])} in its description"
    return None


def _outward(said: _ToolWords) -> str | None:
    if (run := _runs(said.words)) is not None:
        return f"it runs what it is given: {run}"
    if _browses(said):
        return "it sends what is typed, and addresses, to pages"
    address = next((one for one in said.parameters if one.lower() in known.ADDRESSES), None)
    if address is not None and not said.acts:
        return f"who has the address in {_quoted(address)} sees what is in it"
    if not said.acts:
        return None
    return next(_sends(said), None)


def _sends(said: _ToolWords) -> Iterator[str]:
    if (word := _first(said.words, known.SENDING)) is not None:
        yield f"it sends: {_quoted(word)} in its name"
    if said.words and said.words[0] in known.SENDING_FIRST:
        yield f"it sends: its name begins with {_quoted(said.words[0])}"
    for one in said.parameters:
        if one.lower() in known.RECIPIENTS:
            yield f"it has a recipient: {_quoted(one)}"
    if (found := known.SENDING_TEXTS.search(said.sentence)) is not None:
        yield f"it sends: {_quoted(found[0])} in its description"
    if not known.BARE.isdisjoint(said.words):
        return
    for seen in (known.PUBLIC, known.SHOWN):
        if (word := _first(said.words, seen)) is not None:
            yield f"others see what it writes: {_quoted(word)} in its name"


def _runs(words: tuple[str, ...]) -> str | None:
    """Return the words of its name that show that a tool runs the caller's input, or None."""
    if (word := _first(words, known.RUNNING)) is not None:
        return f"{_quoted(word)} in its name"
    pair = _pair(words, known.RUNNING_PAIRS)
    return f"{_quoted(pair)} in its name" if pair is not None else None


def _pair(words: tuple[str, ...], pairs: tuple[tuple[str, str], ...]) -> str | None:
    return next((" ".join(pair) for pair in pairs if pair[0] in words and pair[1] in words), None)


def _product(said: _ToolWords) -> str | None:
    """Return the product whose content a tool searches or lists; None for a tool that names its content."""
    if known.READING.issuperset(word for word in said.words if word not in known.PRODUCTS):
        return _first(tuple(sorted(said.whole)), known.PRODUCTS)
    return None


def _browses(said: _ToolWords) -> bool:
    return not known.BROWSING.isdisjoint(said.words) and _in_browser(said)


def _in_browser(said: _ToolWords) -> bool:
    return said.words[:1] == ("browser",) or not _BROWSERS.isdisjoint(said.whole)


_BROWSERS: Final = frozenset({"puppeteer", "playwright", "selenium"})


def _asks(words: tuple[str, ...]) -> bool:
    """Return whether a tool runs a question about data."""
    return not known.ASKING.isdisjoint(words) and not _ASKED.isdisjoint(words) and known.BARE.isdisjoint(words)


_ASKED: Final = frozenset({"run", "execute", "query", "psql"})


def _only_about(words: tuple[str, ...]) -> bool:
    """Tell whether a tool answers about a service rather than with its content."""
    if words[-1:] == ("log",):
        return False
    if not words or words[-1] in known.ABOUT or not known.MACHINERY.isdisjoint(words):
        return True
    return not known.CHECKING.isdisjoint(words[:2])


def _first(words: tuple[str, ...], wanted: frozenset[str]) -> str | None:
    return next((word for word in words if word in wanted), None)


def _quoted(text: str) -> str:
    return f"`{escaped(text if len(text) <= _SHOWN else text[:_SHOWN] + '…')}`"
