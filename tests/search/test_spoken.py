"""Requests in several languages: which model reads them, and what their language alone explains is taken away."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from aggregator.catalog.search.index import search
from aggregator.catalog.search.semantic import installed
from aggregator.catalog.search.semantic.index import MeaningIndex
from aggregator.catalog.search.semantic.merge import QueryMeaning, merge_hits
from aggregator.catalog.search.semantic.models import ENGLISH, MULTILINGUAL, KnownModel
from aggregator.catalog.search.semantic.spoken import Languages, neutral_sentences
from aggregator.domain.errors import OperatorError
from aggregator.gateway.views import model_vectors
from aggregator.gateway.views.embeddings import MeaningProgress, ToolEmbeddings
from tests.search.sample_index import build_index, tool
from tests.search.test_semantic import ALL, CAR, PAY, SUN, ByHand

SENTENCES: Final = {
    "weather": ("Wird es morgen regnen", "Il va pleuvoir demain", "明日は雨が降りますか", "明天会下雨吗"),
    "money": ("Die Rechnung bezahlen", "payer la facture", "請求書を支払う", "支付发票"),
}


def row(*values: float) -> Any:
    made = np.zeros(384, np.float32)
    made[: len(values)] = values
    return made / np.linalg.norm(made)


def languages() -> Languages:
    """English along the first axis, Chinese along the second, French along the third; the fourth is a subject."""
    return Languages(np.stack([row(1), row(0, 1), row(0, 0, 1)]), ["en", "zh", "fr"])


@pytest.mark.parametrize(
    ("vector", "language"),
    [
        (row(1, 0, 0, 0.5), "english"),
        (row(0, 1, 0, 0.5), "chinese"),
        (row(0, 0, 1, 0.5), "other"),
        (row(0.5, 0.5, 0, 0.5), "english"),
        (row(0.5, 0, 0.52, 0.5), "english"),
    ],
)
def test_a_language_is_taken_from_a_request(vector: Any, language: str) -> None:
    """Proves: F5. What is left is the subject, of length 1; in doubt a request is English."""
    spoken, left = languages().separate(vector)
    assert spoken == language
    assert np.linalg.norm(left) == pytest.approx(1, abs=1e-5)
    assert int(np.argmax(left)) == 3 or language == "english"


def test_the_neutral_sentences_are_as_many_in_each_language() -> None:
    """Proves: F5. Each once, and nothing but letters of it."""
    sentences = neutral_sentences()
    assert {len(several) for several in sentences.values()} == {12}
    assert {"en", "zh", "de", "fr", "es", "ja"} <= sentences.keys()
    counts = Counter(one for several in sentences.values() for one in several)
    assert max(counts.values()) == 1


def test_what_tools_have_in_common_is_taken_away() -> None:
    """Proves: F5. Tools whose vectors are nearly the same are told apart; a single one has a vector too."""
    usual = row(1)
    index = MeaningIndex(ALL, latin=False, usual=usual)
    texts = dict(index.missing())
    rows = [row(1, 0.1), row(1, 0, 0.1), row(1, 0, 0, 0.1)]
    index.add(dict(zip(texts, rows, strict=True)))
    index.publish()
    likes = index.similarities(row(0, 1), {each.name for each in ALL})
    assert max(likes, key=likes.__getitem__) == SUN.name
    assert likes[SUN.name] > 0.5 > likes[CAR.name]
    alone = MeaningIndex([SUN], latin=False, usual=usual)
    alone.add(dict.fromkeys(dict(alone.missing()), row(1, 0.1)))
    alone.publish()
    assert alone.similarities(row(0, 1), {SUN.name})[SUN.name] > 0.5


class Bilingual(ByHand):
    """Vectors by hand of a model that knows three languages: the last axes are for these."""

    def encode_queries(self, texts: Sequence[str], most: int = 0) -> Any:
        return self.encode_tools(texts)

    def encode_tools(self, texts: Sequence[str], most: int = 0) -> Any:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> Any:
        self.asked.append(text)
        words = {"rain": 0, "pluie": 0, "雨": 0, "journey": 1, "voyage": 1, "invoice": 2, "facture": 2}
        subject = np.zeros(384, np.float32)
        for word, axis in words.items():
            subject[axis] += word in text.lower()
        spoken = 11 if any(character > "\u2e80" for character in text) else 10 if "la " in text.lower() else 12
        subject[spoken] = 3
        return subject / np.linalg.norm(subject)


async def asked(monkeypatch: pytest.MonkeyPatch, models: Sequence[KnownModel], query: str) -> QueryMeaning | None:
    """Return what the models say of a query and all tools."""
    encoders = {ENGLISH.name: ByHand(), MULTILINGUAL.name: Bilingual()}
    monkeypatch.setattr(model_vectors, "_open_encoder", lambda model: encoders[model.name])
    monkeypatch.setattr(installed, "installed_models", lambda: models)
    said = {"en": ["the thing", "the other"], "fr": ["la chose", "la autre"], "zh": ["东西", "其他"]}
    monkeypatch.setattr("aggregator.catalog.search.semantic.spoken.neutral_sentences", lambda: said)
    embeddings = ToolEmbeddings()
    running = asyncio.create_task(embeddings.run())
    embeddings.set_tools(ALL)
    await embeddings.wait_complete()
    similarity = await embeddings.similarities_to(query)
    running.cancel()
    return similarity({each.name for each in ALL}) if similarity is not None else None


BOTH: Final = (ENGLISH, MULTILINGUAL)
# The models, a query, the weights of the likenesses, that of keywords, what judges if anything fits.
READ_BY: Final = {
    "English by both": (BOTH, "the rain", [1.0, 0.25], 1.5, "words and likeness"),
    "French by one": (BOTH, "la pluie", [1.0], 1.5, "likeness"),
    "Chinese by one": (BOTH, "下雨", [0.75], 1.0, "words and likeness"),
    "English, one model": ((ENGLISH,), "the rain", [1.0], 1.5, "words and likeness"),
    "French, one model that is not told": ((ENGLISH,), "la pluie", [1.0], 1.5, "words and likeness"),
    "English, the other model": ((MULTILINGUAL,), "the rain", [0.5], 1.5, "words"),
    "French, the other model": ((MULTILINGUAL,), "la pluie", [1.0], 1.5, "likeness"),
}


@pytest.mark.parametrize("kind", READ_BY)
async def test_each_model_counts_for_what_it_reads(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Proves: F5."""
    models, query, weights, keywords, judges = READ_BY[kind]
    meaning = await asked(monkeypatch, models, query)
    assert meaning is not None
    assert [one.weight for one in meaning.likenesses] == weights
    assert meaning.keywords == keywords
    judge = meaning.judge
    assert ("words" if judge is None else "likeness" if judge.alone else "words and likeness") == judges
    for one in meaning.likenesses:
        assert one.similarities.keys() == {each.name for each in ALL}


async def test_a_model_for_latin_letters_reads_no_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. Keywords alone answer."""
    assert await asked(monkeypatch, (ENGLISH,), "下雨") is None


async def test_a_request_in_french_finds_an_english_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. It shares no word with the tool."""
    meaning = await asked(monkeypatch, BOTH, "la pluie")
    assert meaning is not None
    visible = {each.name: each for each in ALL}
    hits = search(build_index(*ALL).visible_to(visible), "la pluie", 10)
    assert merge_hits(hits, meaning, visible, 10)[0].tool.name == SUN.name


async def test_how_far_the_models_are_is_told_until_all_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F5. Nothing while it is off; the numbers while it runs; nothing once it is done."""
    goes_on = threading.Event()

    class Held(ByHand):
        def encode_tools(self, texts: Sequence[str], most: int = 0) -> Any:
            assert goes_on.wait(30)
            return super().encode_tools(texts)

    monkeypatch.setattr(model_vectors, "_open_encoder", lambda model: Held())
    monkeypatch.setattr(installed, "installed_models", lambda: [ENGLISH])
    embeddings = ToolEmbeddings()
    assert embeddings.progress is None
    running = asyncio.create_task(embeddings.run())
    embeddings.set_tools([SUN, CAR, PAY])
    assert embeddings.progress == MeaningProgress(0, 3)
    goes_on.set()
    await embeddings.wait_complete()
    assert embeddings.progress is None
    embeddings.set_tools([SUN, CAR, PAY, tool("maps.other", "Rain.")])
    assert embeddings.progress is not None
    await embeddings.wait_complete()
    embeddings.set_tools(None)
    assert embeddings.progress is None
    running.cancel()


async def test_a_model_that_cannot_be_read_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: F5. The other one finds tools, and it is logged which is damaged."""

    def opened(model: KnownModel) -> Any:
        if model is MULTILINGUAL:
            raise OperatorError("The model cannot be used.")
        return ByHand()

    monkeypatch.setattr(model_vectors, "_open_encoder", opened)
    monkeypatch.setattr(installed, "installed_models", lambda: [ENGLISH, MULTILINGUAL])
    embeddings = ToolEmbeddings()
    logged = asyncio.Event()
    monkeypatch.setattr("aggregator.gateway.views.embeddings.log.error", lambda *_: logged.set())
    running = asyncio.create_task(embeddings.run())
    embeddings.set_tools(ALL)
    async with asyncio.timeout(30):
        await logged.wait()
    similarity = await embeddings.similarities_to("zorblex")
    assert similarity is not None
    assert [one.weight for one in similarity({SUN.name}).likenesses] == [1.0]
    running.cancel()


def test_the_installed_model_tells_languages_and_finds_across_them() -> None:
    """Proves: F5. Sentences that the table does not have; and the tool that each asks for."""
    try:
        encoder = installed.open_encoder(MULTILINGUAL)
    except OperatorError as error:
        pytest.skip(f"NOT RUN with the real model: {error}")
    told, usual = model_vectors._languages(encoder)
    spoken = {
        text: told.separate(encoder.encode_queries([text])[0])[0] for several in SENTENCES.values() for text in several
    }
    assert [spoken[text] for several in SENTENCES.values() for text in several] == ["other"] * 3 + ["chinese"] + [
        "other"
    ] * 3 + ["chinese"]
    for text in ("get_link_types", "will it rain tomorrow", "JQL", "list all open pull requests"):
        assert told.separate(encoder.encode_queries([text])[0])[0] == "english", text
    index = MeaningIndex(ALL, latin=False, usual=usual)
    texts = dict(index.missing())
    index.add(dict(zip(texts, encoder.encode_tools(list(texts.values())), strict=True)))
    index.publish()
    for subject, wanted in (("weather", SUN), ("money", PAY)):
        for text in SENTENCES[subject]:
            likes = index.similarities(told.separate(encoder.encode_queries([text])[0])[1], {each.name for each in ALL})
            assert max(likes, key=likes.__getitem__) == wanted.name, text
