"""Removes secrets from texts and JSON values: known ones, in every form, and texts that look like one.

Law: nothing but `[redacted]` is ever inserted, and a value without secrets is returned as the same object.
"""

import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from aggregator.redaction.assignments import assigned_spans
from aggregator.redaction.credentials import PassingCredentials
from aggregator.redaction.field_names import SecretNames
from aggregator.redaction.json_values import redact_json
from aggregator.redaction.key_formats import key_spans
from aggregator.redaction.known_secrets import KnownSecrets
from aggregator.redaction.spans import REDACTED, Span, without
from aggregator.redaction.urls import address_spans, secret_address_spans

__all__ = ["REDACTED", "SHORTEST", "Redactor"]

# Shorter values would hide half of every line.
SHORTEST: Final = 6
# The secrets of a source stay known for the life of the process, unless it returns a new value at each request.
GENERATIONS: Final = 50


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
