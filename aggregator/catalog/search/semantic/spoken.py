"""The language of a request, by the vectors of a multilingual model, and the part of a vector that it explains.

To such a model, texts of one language resemble each other, whatever they say: a Japanese request is most similar to the
tool whose text is most similar to Japanese. So the mean of sentences that say nothing in particular is taken away.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aggregator.catalog.search.semantic.index import TextEncoder
from aggregator.catalog.search.semantic.models import Spoken
from aggregator.catalog.search.terms.tables import lines

# So much more similar to another language than to English is a request that counts as written in it.
_MARGIN: Final = 0.15
_ENGLISH_CODE: Final = "en"
_CHINESE_CODE: Final = "zh"


def neutral_sentences() -> dict[str, list[str]]:
    """Return sentences that ask for nothing in particular, by the code of their language (ISO 639-1)."""
    sentences: dict[str, list[str]] = {}
    for line in lines("neutral.txt"):
        language, _, sentence = line.partition("\t")
        sentences.setdefault(language, []).append(sentence)
    return sentences


def read_languages(encoder: TextEncoder, most: int) -> "tuple[Languages, Any]":
    """Return the languages as a model has them, and what the texts of tools have in common. Takes some seconds."""
    sentences = neutral_sentences()
    rows = np.concatenate([encoder.encode_queries(several, most) for several in sentences.values()])
    names = [language for language, several in sentences.items() for _ in several]
    return Languages(rows, names), encoder.encode_tools(sentences[_ENGLISH_CODE], most).mean(0)


class Languages:
    """The mean vector of each language, by one model."""

    def __init__(self, rows: Any, languages: Sequence[str]) -> None:
        """Take the vector of each neutral sentence, as a query, and its language."""
        self._names = sorted({*languages})
        which = np.array(languages)
        self._means = np.stack([rows[which == name].mean(0) for name in self._names])
        self._all = self._means.mean(0)
        directions = self._means - self._all
        self._directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        self._english = self._names.index(_ENGLISH_CODE)

    def separate(self, vector: Any) -> tuple[Spoken, Any]:
        """Return the language of a request, by its vector, and the rest of the vector, of length 1."""
        apart = vector - self._all
        alike = self._directions @ apart / max(float(np.linalg.norm(apart)), 1e-9)
        at = int(np.argmax(alike))
        if alike[at] - alike[self._english] < _MARGIN:
            at = self._english
        left = vector - self._means[at]
        name = self._names[at]
        spoken: Spoken = "english" if name == _ENGLISH_CODE else "chinese" if name == _CHINESE_CODE else "other"
        return spoken, left / max(float(np.linalg.norm(left)), 1e-9)
