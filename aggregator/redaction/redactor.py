"""Removes secrets from texts and JSON values: known ones, in every form, and texts that look like one.

Law 1: nothing but `[redacted]` is ever inserted, and a value without secrets is returned as the same object. Law 2: a
JSON value is searched once, all of its texts as one, by their content and by the names of their fields; only a value
with a secret is copied.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Final

from aggregator.redaction.assignments import assigned_spans
from aggregator.redaction.field_names import NameVerdict, SecretNames, is_schema, is_secret
from aggregator.redaction.key_formats import key_spans
from aggregator.redaction.known_secrets import KnownSecrets, PassingCredentials
from aggregator.redaction.spans import REDACTED, Span, without
from aggregator.redaction.urls import address_spans, secret_address_spans

__all__ = ["REDACTED", "SHORTEST", "Redactor"]

# Shorter values would hide half of every line.
SHORTEST: Final = 6
# The secrets of a source stay known for the life of the process, unless it returns a new value at each request.
GENERATIONS: Final = 50

# Only an attacker nests this deeply; if the value has a secret anywhere, the part below is dropped.
_DEEPEST: Final = 100

# Separates texts that are searched together: occurs in no secret, word or number.
_BETWEEN: Final = "\n\0\n"


class Redactor:
    """The known secrets, and the rules that recognise others.

    Values of `secrets` with fewer than `shortest` characters are ignored. `patterns`: whether to search for forms of
    keys, names of fields and addresses. `fields` are further names, `also` further regular expressions, which always
    count; for an expression with groups, the groups are hidden, else the whole match.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        shortest: int = SHORTEST,
        *,
        patterns: bool = True,
        fields: Sequence[str] = (),
        also: Iterable[str | re.Pattern[str]] = (),
    ) -> None:
        self._shortest = shortest
        self._secrets = frozenset(secrets)
        self._learned: dict[str, deque[frozenset[str]]] = {}
        self._known = KnownSecrets(self._secrets, shortest)
        self._credentials = PassingCredentials(shortest)
        self._lock = threading.Lock()
        self._patterns = patterns
        self._names = SecretNames(fields, built_in=patterns)
        self._named = patterns or bool(fields)
        self._also = tuple(re.compile(pattern) for pattern in also)

    def add(self, secrets: Iterable[str]) -> None:
        """Add known secrets."""
        with self._lock:
            more = self._secrets.union(secrets)
            if more != self._secrets:
                self._secrets = more
                self._known = self._all_known()

    def learn(self, source: str, secrets: Iterable[str]) -> None:
        """Add the current values of a source of secrets; of each source, the latest `GENERATIONS` stay known.

        Takes a while for many: call it in a thread.
        """
        found = frozenset(secrets)
        with self._lock:
            generations = self._learned.setdefault(source, deque(maxlen=GENERATIONS))
            if found in generations:
                generations.remove(found)
                generations.append(found)
                return
            generations.append(found)
            known = self._all_known()
            known.prepare()
            self._known = known

    def learn_credentials(self, source: str, named: Mapping[str, str]) -> None:
        """Hide credentials of a source, by their names, from now on until a while after others took their place.

        Takes some milliseconds for a new one: call it in a thread, before the credential is sent anywhere.
        """
        self._credentials.learn(source, named)

    def knows_credentials(self, source: str, named: Mapping[str, str]) -> bool:
        """Return whether these are hidden as the credentials of the source."""
        return self._credentials.knows(source, named)

    def update(self, other: "Redactor") -> None:
        """Hide the secrets of `other` from now on; earlier secrets may still turn up, and stay hidden."""
        self.add(other._secrets)
        self._patterns, self._also = other._patterns, other._also
        self._names, self._named = other._names, other._named

    def __call__(self, text: str) -> str:
        """Return a text for operators (log lines, reasons) without secrets and without the query strings of
        addresses.
        """
        spans = self._spans(text)
        if self._patterns:
            spans += address_spans(text)
        return without(text, spans) if spans else text

    def known(self, value: Any) -> Any:
        """Return a text or any JSON value that is passed on without the known secrets; all else stays."""
        return redact_json(value, self._without_known, None)

    def value(self, value: Any) -> Any:
        """Return a text or JSON value (arguments, results) in the form to store: an address without secrets stays.

        The value itself is never changed; without a secret in it, it is returned.
        """
        return redact_json(value, self._kept, self._names if self._named else None, together=not self._also)

    def _all_known(self) -> KnownSecrets:
        learned = (found for generations in self._learned.values() for found in generations)
        return KnownSecrets(self._secrets.union(*learned), self._shortest)

    def _kept(self, text: str) -> str:
        spans = self._spans(text)
        if self._patterns:
            spans += secret_address_spans(text, self._names)
        return without(text, spans) if spans else text

    def _without_known(self, text: str) -> str:
        spans = [*self._known.spans(text), *self._credentials.spans(text)]
        return without(text, spans) if spans else text

    def _spans(self, text: str) -> list[Span]:
        spans = [*self._known.spans(text), *self._credentials.spans(text)]
        if self._patterns:
            spans += key_spans(text)
        if self._named:
            spans += assigned_spans(text, self._names)
        for pattern in self._also:
            spans += _matches(pattern, text)
        return spans


def _matches(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for found in pattern.finditer(text):
        spans = [found.span(group) for group in range(1, pattern.groups + 1)] or [found.span()]
        yield from (span for span in spans if span[0] < span[1])


def redact_json(value: Any, redact: Callable[[str], str], names: SecretNames | None, *, together: bool = True) -> Any:
    """Return the value without secrets in texts and without the values of secret names; itself without any.

    `together`: whether `redact` finds the same in joined texts, separated by lines, as in each.
    """
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, dict | list):
        return value
    texts, is_named = _look(value, names)
    whole = _BETWEEN.join(texts)
    if together and redact(whole) == whole:
        return _made_anew(value, str, names, NameVerdict.NOTHING, 0) if is_named else value
    return _made_anew(value, redact, names, NameVerdict.NOTHING, 0)


def _look(value: Any, names: SecretNames | None) -> tuple[list[str], bool]:
    """Return every text and every name of a field; and whether there is a name whose value may have to go."""
    texts: list[str] = []
    is_named = False
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict):
            is_named = is_named or (names is not None and any(map(names.verdict, part)))
            texts += part
            stack += part.values()
        elif isinstance(part, list):
            stack += part
    return texts, is_named


def _made_anew(
    value: Any, redact: Callable[[str], str], names: SecretNames | None, verdict: NameVerdict, depth: int
) -> Any:
    """Return a value without secrets, or itself if it has none. `verdict` is the verdict on the name above it."""
    if isinstance(value, str):
        return REDACTED if is_secret(verdict, value) else redact(value)
    if isinstance(value, dict | list) and depth == _DEEPEST:
        return REDACTED
    if isinstance(value, dict):
        # A name that is surely secret counts for all that is under it.
        under = verdict if verdict is NameVerdict.SURELY and not is_schema(value) else NameVerdict.NOTHING
        fields = {}
        for name, item in value.items():
            own = names.verdict(name) if names is not None else NameVerdict.NOTHING
            fields[redact(name)] = _made_anew(item, redact, names, max(under, own), depth + 1)
        same = fields.keys() == value.keys() and all(map(is_, fields.values(), value.values()))
        return value if same else fields
    if isinstance(value, list):
        items = [_made_anew(item, redact, names, verdict, depth + 1) for item in value]
        return value if all(map(is_, items, value)) else items
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return REDACTED if is_number and verdict is NameVerdict.SURELY else value
