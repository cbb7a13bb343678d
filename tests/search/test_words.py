"""Text and names to terms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.words import folded, split, terms


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("getUserByID", ["get", "user", "by", "id"]),
        ("maps_direction_driving", ["maps", "direction", "driving"]),
        ("create-pull-request", ["create", "pull", "request"]),
        ("server.tool/sub:part", ["server", "tool", "sub", "part"]),
        ("HTTPServer", ["http", "server"]),
        ("listPRs", ["list", "p", "rs"]),
        ("IDs", ["id"]),
        ("s3_copy2", ["s", "3", "copy", "2"]),
        ("Café", ["cafe"]),
        ("ｆｕｌｌ＿ｗｉｄｔｈ", ["full", "width"]),
        ("查天气", ["查天气"]),
        ("", []),
        ("---", []),
    ],
)
def test_names_are_split(name: str, words: list[str]) -> None:
    assert split(name) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("repositories", "repository"),
        ("searching", "search"),
        ("translation", "translate"),
        ("deleted", "delete"),
        ("children", "child"),
        ("ran", "running"),
        ("queries", "query"),
        ("files", "file"),
        ("sent", "sending"),
        ("calculations", "calculate"),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


@pytest.mark.parametrize(
    ("word", "published"),
    [
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("sing", "sing"),
        ("conflated", "conflat"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("filing", "file"),
        ("happy", "happi"),
        ("sky", "sky"),
        ("relational", "relat"),
        ("conditional", "condit"),
        ("triplicate", "triplic"),
        ("formalize", "formal"),
        ("hopefulness", "hope"),
        ("revival", "reviv"),
        ("replacement", "replac"),
        ("adoption", "adopt"),
        ("probate", "probat"),
        ("rate", "rate"),
        ("controlling", "control"),
        ("oed", "o"),
        ("as", "as"),
        ("s3", "s3"),
        ("天气", "天气"),
    ],
)
def test_stems_are_as_published(word: str, published: str) -> None:
    assert stem(word) == published


@pytest.mark.parametrize("word", ["news", "status", "analysis", "address", "class"])
def test_what_only_looks_like_a_plural_stays(word: str) -> None:
    assert stem(word) != word[:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("天气预报", ["天气", "气预", "预报", "天", "气", "预", "报"]),
        ("查", ["查"]),
        ("看PR日志", ["看", "pr", "日志", "日", "志"]),
        ("地图 API", ["地图", "地", "图", "api"]),
    ],
)
def test_chinese_is_read_in_pairs_and_signs(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("John's files", ["john", "file"]),
        ("GitHub", ["git", "hub", "github"]),
        ("OAuth2", ["auth", "oauth2"]),
        ("don’t", ["dont"]),
    ],
)
def test_latin_words_and_identifiers(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize("name", ["create_issue", "create-issue", "createIssue", "CreateIssue", "create.issue"])
def test_every_spelling_folds_to_one(name: str) -> None:
    assert folded(name) == "createissue"


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_any_text_has_terms(text: str) -> None:
    """Lone surrogates and marks of any script included; the same text has the same terms."""
    assert terms(text) == terms(text)
    assert all(terms(text))
    assert all(split(text))
    assert all(stem(word) for word in split(text))
