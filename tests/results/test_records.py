"""The outline of records: messages, commits, articles, blocks of fields, tables between text, JSON encoded twice."""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from aggregator.results.read.document import ResultDocument
from aggregator.results.read.read import read_page
from tests.results.test_outline import ROWS, WORDS, outline_of

PROSE: Final = "The parties agree on what follows, and keep it in good faith. " * 4


def _who(number: int) -> str:
    return "Ann Lee" if number % 3 else "Bob"


def messages_as_json() -> Any:
    said = [{"user": _who(n), "text": f"message {n}: {'words ' * 9}", "ts": 1_700_000_000 + n} for n in range(300)]
    return {"messages": said, "more": False}


def messages_with_their_times() -> str:
    return "\n".join(f"[2026-03-01 10:{n // 60:02d}:{n % 60:02d}] {_who(n)}: {PROSE}" for n in range(99))


def messages_at_times_of_a_day_of_twelve_hours() -> str:
    return "\n".join(f"[3/1/26, 1:{n % 60:02d}:00 PM] {_who(n)}: {PROSE}" for n in range(99))


def messages_with_their_dates() -> str:
    return "\n".join(f"01.03.2026, 1:{n % 60:02d} - {_who(n)}: {PROSE}" for n in range(99))


def messages_under_their_names() -> str:
    return "\n\n".join(f"{_who(n)} — 9:{n % 60:02d}\n{PROSE}" for n in range(99))


def speakers_of_a_transcript() -> str:
    return "\n".join(f"0{n // 60}:{n % 60:02d}:00 {_who(n)}: {PROSE}" for n in range(99))


def commits() -> str:
    heads = [f"commit {n:040x}\nAuthor: {_who(n)} <a@x.org>\nDate:   Mar {n}\n" for n in range(10, 60)]
    return "\n".join(f"{head}\n    Fix {n}\n\n    {PROSE}\n" for n, head in enumerate(heads, 10))


def commits_in_one_line_each() -> str:
    return "\n".join(f"{n:07x} Fix {n}" for n in range(2_000))


def a_contract() -> str:
    return "Agreement\n\n" + "\n".join(f"Article {n}\n{_who(n)}\n\n{PROSE * 9}" for n in range(1, 8))


def a_law() -> str:
    lines = []
    for n in range(60):
        lines += [f"第{n // 20 + 1}章 总则"] if n % 20 == 0 else []
        lines.append(f"第{n}条 当事人应当按照约定{'全面' * 90}")
    return "\n".join(lines)


def paragraphs() -> str:
    return "\n".join(f"§ {n} Of {_who(n)}\n{PROSE * 3}" for n in range(1, 30))


def numbered_headings() -> str:
    return "\n".join(f"{n}. FEES AND TERM\n{n}.1 {PROSE * 9}" for n in range(1, 8))


def blocks_of_fields() -> str:
    return "\n\n".join(f"Title: title {n}\nKind: {'new' if n % 2 else 'old'}\nSaid: {PROSE}" for n in range(90))


def mails() -> str:
    return "\n---\n".join(f"From: {_who(n)}\nSubject: subject {n}\n\n{PROSE}" for n in range(90))


def markdown_with_tables() -> str:
    first = "# Usage\n\n| plan | users |\n|:--|--:|\n" + "| a | 1 |\n" * 900
    return first + "\n## More\n\nplan | n\n--- | ---\n" + "b | 2\n" * 900


def a_table_in_a_frame() -> str:
    rows = "".join(f"│ {n} │ {'on' if n % 2 else 'off'} │\n" for n in range(900))
    return f"┌────┬───────┐\n│ id │ state │\n├────┼───────┤\n{rows}└────┴───────┘"


def encoded_twice() -> str:
    return json.dumps(json.dumps({"total": 3, "note": WORDS}))


PARAGRAPHS: Final = [f"§ {n} Of {_who(n)}" for n in range(1, 30)]
OUTLINES: Final[tuple[tuple[Callable[[], Any], list[str]], ...]] = (
    (
        messages_as_json,
        [
            "messages: 300 items {user, text, ts}",
            "more: false",
            'messages[*].user: 200 "Ann Lee", 100 "Bob"',
            "messages[0].text: text, 65 characters",
            "messages[0].ts: 1700000000",
        ],
    ),
    (
        messages_with_their_times,
        ["99 messages, [2026-03-01 10:00:00] to [2026-03-01 10:01:38]: 66 Ann Lee, 33 Bob"],
    ),
    (
        messages_at_times_of_a_day_of_twelve_hours,
        ["99 messages, [3/1/26, 1:00:00 PM] to [3/1/26, 1:38:00 PM]: 66 Ann Lee, 33 Bob"],
    ),
    (messages_with_their_dates, ["99 messages, 01.03.2026, 1:00 to 01.03.2026, 1:38: 66 Ann Lee, 33 Bob"]),
    (messages_under_their_names, ["99 messages, 9:00 to 9:38: 66 Ann Lee, 33 Bob"]),
    (speakers_of_a_transcript, ["99 messages, 00:00:00 to 01:38:00: 66 Ann Lee, 33 Bob"]),
    (
        commits,
        ["50 commits, Mar 10 to Mar 59: 34 Ann Lee, 16 Bob", "offset 0: Fix 10", "offset 356: Fix 11"],
    ),
    (commits_in_one_line_each, ["2,000 commits; the last: 00007cf Fix 1999"]),
    (a_contract, [f"offset {place}: Article {n} {_who(n)}" for n, place in enumerate((11, 2_263, 4_515), 1)]),
    (a_law, ["63 parts, 第1章 总则 to 第59条 当事人应当按照约定全面:", "第1章 总则, 第2章 总则, 第3章 总则"]),
    (paragraphs, [f"29 parts, § 1 Of Ann Lee to {PARAGRAPHS[-1]}:", ", ".join(PARAGRAPHS[:5])]),
    (numbered_headings, ["offset 0: 1. FEES AND TERM", "offset 2254: 2. FEES AND TERM"]),
    (
        blocks_of_fields,
        [
            "90 records {Title, Kind, Said}",
            "Kind: 45 old, 45 new",
            f"Said: 90 {PROSE[:40]}",
            "Title: title 0 to title 89",
        ],
    ),
    (mails, ["90 records {From, Subject}", "From: 60 Ann Lee, 30 Bob", "Subject: subject 0 to subject 89"]),
    (
        markdown_with_tables,
        [
            "offset 0: # Usage",
            "offset 9: table of 900 rows: plan, users",
            "offset 9037: ## More",
            "offset 9046: table of 900 rows: plan, n",
        ],
    ),
    (a_table_in_a_frame, ["900 rows: id, state", "state: 450 off, 450 on", "The last line: └────┴───────┘"]),
    (encoded_twice, ["total: 3", "note: text, 33,000 characters"]),
)


@pytest.mark.parametrize(("made", "expected"), OUTLINES, ids=lambda one: getattr(one, "__name__", ""))
def test_the_outline_of_records(made: Callable[[], Any], expected: list[str]) -> None:
    value = made()
    assert outline_of(value)[: len(expected)] == expected
    for line in expected:
        if isinstance(value, str) and (place := re.match(r"offset (\d+): (#+ )?(?!table)(\w+)", line)):
            assert place[3] in value[int(place[1]) :][:400]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"at 10:{n % 60:02d} he said that it was late and {n} more" for n in range(200)),
        "\n".join(f"As article {n} says: {PROSE}" for n in range(90)),
        "commit\n" * 2_000,
    ],
    ids=["times in sentences", "articles in sentences", "words"],
)
def test_what_only_looks_like_records_has_its_last_line(text: str) -> None:
    lines = outline_of(text)
    assert [line for line in lines if not line.startswith(("The last line: ", "Lines that"))] == []


def test_a_path_leads_into_json_that_is_encoded_several_times() -> None:
    text = json.dumps({"rows": ROWS})
    for _ in range(3):
        text = json.dumps(text)
        document = ResultDocument.of({"content": [{"type": "text", "text": text}]})
        assert read_page(document, path="rows[2].name").body == "row 2"
        assert ResultDocument.from_bytes(document.to_bytes()).text == document.text


@pytest.mark.parametrize("text", ['"{broken', '"[a]" and words', '"\\ud800{"', '"no JSON"'])
def test_a_text_in_quotes_stays(text: str) -> None:
    assert ResultDocument.of({"content": [{"type": "text", "text": text}]}).text == text
