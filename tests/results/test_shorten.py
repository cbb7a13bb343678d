"""The beginning of a large result: where it ends, what stays whole, and what is said of the rest."""

import json
from typing import Any

import pytest

from aggregator.domain.text.tokens import estimate
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.shorten import NOTE_TOKENS, Shortened, fits, shorten

MOST, PREVIEW = 500, NOTE_TOKENS + 300
ROWS = [{"id": number, "title": f"Login fails, number {number}", "open": True} for number in range(400)]


def text(content: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": content}]}


def cut(result: dict[str, Any]) -> Shortened:
    shortened = shorten(result, MOST, PREVIEW)
    assert shortened is not None
    return shortened


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("form", ["{}", "Found 400 items:\n{}", "\ufeff{}"])
def test_an_array_ends_behind_an_item_and_counts_are_true(form: str, indent: int | None) -> None:
    shortened = cut(text(form.format(json.dumps(ROWS, indent=indent))))
    shown = shortened.blocks[0]["text"].strip().removeprefix("Found 400 items:").lstrip("\ufeff\n")
    items = json.loads(shown.removesuffix(",") + "]")
    assert items == ROWS[: len(items)]
    assert shortened.about.startswith(f"the first {len(items)} of 400 items; ")
    assert 150 <= estimate(shown) <= 300


def test_the_shallowest_array_that_fills_the_page_is_cut() -> None:
    shortened = cut(text(json.dumps({"total": 400, "data": {"items": ROWS}, "next": None})))
    shown = shortened.blocks[0]["text"]
    assert shown.endswith("}, ")
    assert "of 400 items of `data.items`; " in shortened.about


def test_a_first_element_that_is_too_large_is_cut_inside() -> None:
    body = " ".join(f"Sentence number {number} of a body." for number in range(400))
    shortened = cut(text(json.dumps([{"id": 1, "body": body}, {"id": 2}])))
    assert shortened.blocks[0]["text"].endswith("of a body. ")
    assert "member" in shortened.about
    assert "of `[0]`" in shortened.about


@pytest.mark.parametrize(
    ("content", "ends", "about"),
    [
        ("\n".join(map(json.dumps, ROWS)), "}\n", "of 400 lines"),
        ("| id | name |\n| - | - |\n" + "".join(f"| {n} | a name |\n" for n in range(400)), "|\n", "of 402 lines"),
        ("id,body\n" + "".join(f'{n},"one\ntwo, {n}"\n' for n in range(400)), '"\n', "characters"),
        ("".join(f"## Part {n}\n\nSome words.\n\nMore words of it.\n\n" for n in range(200)), "of it.\n\n", "lines"),
        ("".join(f"A paragraph {n}.\nIts second line.\r\n\r\n" for n in range(200)), "line.\r\n\r\n", "lines"),
        ("".join(f"- item {n}\n  more of it\n" for n in range(200)), "more of it\n", "of 400 lines"),
        ("".join(f"Sentence {n} has some words. " for n in range(400)), "words. ", "characters"),
        ("这是一个很长的句子，有很多字。" * 100, "。", "characters"),
        ("👩‍👩‍👧‍👦" * 600, "👦", "characters"),
        ("[INFO] started, all is well\n" * 300, "well\n", "of 300 lines"),
    ],
    ids=["JSON lines", "table", "CSV", "sections", "paragraphs", "list", "sentences", "Chinese", "emoji", "log"],
)
def test_each_form_ends_behind_an_element(content: str, ends: str, about: str) -> None:
    shortened = cut(text(content))
    assert shortened.blocks[0]["text"].endswith(ends)
    assert about in shortened.about.partition(";")[0]


def test_a_line_of_a_megabyte_and_one_word() -> None:
    for content in ("x" * 1_000_000, "word " * 200_000, '["' + "y" * 1_000_000 + '"]'):
        assert estimate(cut(text(content)).blocks[0]["text"]) <= 300


def test_errors_are_never_cut() -> None:
    assert shorten({**text("word " * 5_000), "isError": True}, MOST, PREVIEW) is None


def test_what_is_no_text_stays_and_does_not_count() -> None:
    image = {"type": "image", "data": "aGVsbG8=" * 10_000, "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    assert shorten({"content": [image, {"type": "text", "text": "small"}, link]}, MOST, PREVIEW) is None
    shortened = cut({"content": [image, *text(json.dumps(ROWS))["content"], link]})
    assert [block["type"] for block in shortened.blocks] == ["image", "text", "resource_link"]
    assert shortened.blocks[0] is image


def test_of_several_texts_those_that_fit_stay_whole() -> None:
    blocks = [{"type": "text", "text": f"Block {number}: some words of it."} for number in range(200)]
    shortened = cut({"content": blocks})
    assert list(shortened.blocks) == blocks[: len(shortened.blocks)]
    assert shortened.about.startswith(f"the first {len(shortened.blocks)} of 200 texts; ")


def test_an_embedded_text_is_cut_to_a_text() -> None:
    resource = {"uri": "file:///a", "mimeType": "application/json", "text": json.dumps(ROWS)}
    shortened = cut({"content": [{"type": "resource", "resource": resource}]})
    assert shortened.blocks[0]["type"] == "text"
    assert shortened.blocks[0]["text"] == resource["text"][: shortened.next]


def test_a_structured_result_alone_is_shown_as_text() -> None:
    shortened = cut({"content": [], "structuredContent": {"items": ROWS}})
    assert shortened.blocks[0]["text"].startswith('{"items":[{"id":0,')
    assert "of 400 items of `items`" in shortened.about


@pytest.mark.parametrize(
    ("texts", "structured"),
    [
        ([json.dumps({"items": ROWS}, indent=1)], {"items": ROWS}),
        ([json.dumps(ROWS)], {"result": ROWS}),
        ([json.dumps(row) for row in ROWS], {"result": ROWS}),
        (["word " * 3_000], {"result": "word " * 3_000}),
    ],
    ids=["same", "wrapped", "block for each item", "text"],
)
def test_a_structured_result_that_the_text_says_is_not_repeated(texts: list[str], structured: Any) -> None:
    content = [{"type": "text", "text": one} for one in texts]
    document = cut({"content": content, "structuredContent": structured}).document
    assert document.text == "\n".join(texts)


def test_a_structured_result_that_says_more_follows_the_text() -> None:
    shortened = cut({**text("Found 400 items."), "structuredContent": {"items": ROWS}})
    assert shortened.blocks[0] == {"type": "text", "text": "Found 400 items."}
    assert shortened.blocks[1]["text"].startswith('{"items":')
    assert "of `items` of text 2 of 2" in shortened.about


def test_an_empty_structured_result_is_one() -> None:
    """C9: it says that nothing was found, and is what paths lead into."""
    empty: object
    for empty in ({}, []):
        document = ResultDocument.of({**text("Nothing."), "structuredContent": empty})
        assert (document.text, document.data) == (f"Nothing.\n{json.dumps(empty)}", empty)


def test_small_results_are_told_at_once() -> None:
    assert fits(text("word " * 80), MOST)
    assert not fits(text("word " * 800), MOST)
    assert fits({**text("word " * 800), "isError": True}, MOST)
    assert fits(text("word " * 800), 0)
    assert fits({**text("word"), "structuredContent": {"a": 1}}, MOST)
    assert not fits({**text("word"), "structuredContent": {"a": ["word"] * 200}}, MOST)
    assert not fits({"content": [], "structuredContent": {"a": ["word"] * 200}}, MOST)
    assert not fits({**text("word"), "structuredContent": {"a": [{}] * 100_000}}, MOST)
    assert shorten(text("word " * 80), MOST, PREVIEW) is None


def test_names_that_stand_twice_give_no_wrong_count() -> None:
    rows = json.dumps(ROWS)
    shortened = cut(text(f'{{"a": {rows}, "a": [1, 2]}}'))
    assert " of 2 " not in shortened.about
    assert "items of `a`" in shortened.about


def test_an_object_with_one_name_many_times_has_no_count() -> None:
    about = cut(text("{" + ", ".join(['"a": "some words of it"'] * 900) + "}")).about
    assert "members" in about
    assert " of 1 " not in about


@pytest.mark.parametrize("content", ["[" * 60_000, "[" * 60_000 + "]" * 60_000, '{"a":' * 20_000, "[NaN, 1, " * 9_000])
def test_json_that_is_none_or_too_deep_is_cut_even_so(content: str) -> None:
    shortened = cut(text(content))
    assert content.startswith(shortened.blocks[0]["text"])
