"""Random results of tools: every form of text, in every odd way that servers send it."""

import csv
import io
import json
from random import Random
from typing import Any, Final

_WORDS: Final = [
    "login",
    "fails",
    "after",
    "update",
    "the",
    "parser",
    "returns",
    "nothing",
    "Über",
    "straße",
    "naïve",
    "查询",
    "天气",
    "飞书",
    "文档",
    "データ",
    "한국어",
    "👩\u200d👩\u200d👧\u200d👦",
    "🇩🇪🇫🇷",
    "👍🏽",
    "é",
    "क्षि",
    "한",
    "https://example.org/a?b=c",
    "getUserByID",
    "2026-11-24T01:02:03Z",
    "3.14159",
    "say",
    '"yes"',
    "C:\\new\\table",
    "{brace}",
    "[bracket]",
    "a,b;c",
    "|",
    "�",
    "�",
    "\u200b",
    "\x00",
    "\x1b[0m",
    "\u2028",
]


def any_result(random: Random) -> dict[str, Any]:
    """Return a result of one to four blocks, at times with a structured part, which may say the same."""
    result: dict[str, Any] = {"content": [_block(random) for _ in range(random.choice((1, 1, 1, 2, 4)))]}
    chance = random.random()
    if chance < 0.1:
        result["structuredContent"] = _object(random, 3)
    elif chance < 0.2:
        value = _value(random, 3)
        structured = value if isinstance(value, dict) else {"result": value}
        shown = value if isinstance(value, list) and random.random() < 0.5 else [value]
        texts = [item if isinstance(item, str) else _dumped(random, item) for item in shown]
        result = {"content": [{"type": "text", "text": text} for text in texts], "structuredContent": structured}
    elif chance < 0.25:
        result = {"content": [], "structuredContent": _object(random, 4)}
    if random.random() < 0.05:
        result["isError"] = True
    if random.random() < 0.1:
        result["_meta"] = {"x": 1}
    return result


def _block(random: Random) -> dict[str, Any]:
    chance = random.random()
    if chance < 0.08:
        return {"type": "image", "data": "aGVsbG8=" * random.randrange(400), "mimeType": "image/png"}
    if chance < 0.1:
        return {"type": "resource_link", "uri": "file:///a", "name": "a"}
    if chance < 0.12:
        return {"type": "resource", "resource": {"uri": "file:///a", "blob": "aGVsbG8="}}
    text = any_text(random)
    if chance < 0.2:
        return {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": text}}
    return {"type": "text", "text": text, **({"annotations": {"priority": 1}} if chance < 0.3 else {})}


def any_text(random: Random) -> str:
    """Return a text of one of the forms, now and then with something before it, cut off, or with other line breaks."""
    make = random.choice((_json, _json, _json, _json_lines, _csv, _table, _markdown, _prose, _log, _one_line, _noise))
    text = make(random)
    chance = random.random()
    if chance < 0.05:
        return text[: random.randrange(len(text) + 1)]
    if chance < 0.1:
        return text.replace("\n", "\r\n")
    if chance < 0.13:
        return "\ufeff" + text
    if chance < 0.2:
        return f"Found {random.randrange(100)} items:\n{text}"
    if chance < 0.23:
        return f"```json\n{text}\n```\n"
    return text


def _sentence(random: Random, most: int = 12) -> str:
    return " ".join(random.choices(_WORDS, k=random.randrange(1, most)))


def _value(random: Random, depth: int) -> Any:
    chance = random.random()
    if depth and chance < 0.35:
        return [_value(random, depth - 1) for _ in range(random.choice((0, 1, 3, 6)))]
    if depth and chance < 0.7:
        return _object(random, depth - 1)
    if chance < 0.75:
        return random.choice((None, True, False, 10**25, -1, 0.5, 1e300))
    if chance < 0.8:
        return "x" * random.randrange(300)
    if chance < 0.85:
        return _markdown(random)
    return random.randrange(10**6) if chance < 0.9 else _sentence(random)


def _object(random: Random, depth: int) -> dict[str, Any]:
    return {_name(random): _value(random, depth) for _ in range(random.choice((0, 1, 2, 4, 6)))}


def _name(random: Random) -> str:
    return random.choice(("id", "name", "items", "a b", 'q"q', "a.b", "标题", "", "0")) + str(random.randrange(9))


def _dumped(random: Random, value: Any) -> str:
    separators = random.choice(((",", ":"), (", ", ": ")))
    indent = random.choice((None, None, 2, "\t"))
    return json.dumps(value, ensure_ascii=random.random() < 0.5, indent=indent, separators=separators)


def _json(random: Random) -> str:
    chance = random.random()
    if chance < 0.04:
        deep = random.randrange(1, 400)
        return "[" * deep + "]" * random.randrange(deep + 1)
    if chance < 0.08:
        return '{"a": NaN, "a": [Infinity, -Infinity, 1e999], "b": "' + _sentence(random).replace('"', "") + '"}'
    if chance < 0.5:
        rows = [{"id": number, "title": _sentence(random)} for number in range(random.randrange(20))]
        return _dumped(random, rows if random.random() < 0.5 else {"total": len(rows), "items": rows})
    return _dumped(random, _value(random, 4))


def _json_lines(random: Random) -> str:
    rows = [json.dumps(_object(random, 1), ensure_ascii=random.random() < 0.5) for _ in range(random.randrange(1, 20))]
    return random.choice(("\n", "\n", "\r\n", "\n\n")).join(rows)


def _csv(random: Random) -> str:
    out = io.StringIO()
    writer = csv.writer(out, quoting=random.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)))
    writer.writerow(("id", "title", "body"))
    for number in range(random.randrange(12)):
        writer.writerow((number, _sentence(random), f'line one\nline "two" {number}, and more'))
    return out.getvalue()


def _table(random: Random) -> str:
    rows = [f"| {number} | {_sentence(random, 5)} |" for number in range(random.randrange(12))]
    return "\n".join(("| id | title |", "| --- | --- |", *rows))


def _markdown(random: Random) -> str:
    parts = []
    for _ in range(random.randrange(6)):
        parts.append("#" * random.randrange(1, 5) + " " + _sentence(random, 4))
        parts.append(_prose(random))
        if random.random() < 0.3:
            parts.append("```sh\n# no heading\n\nls\n```")
    return "\n\n".join(parts)


def _prose(random: Random) -> str:
    return random.choice((". ", "。", "! ", "\n\n")).join(_sentence(random) for _ in range(random.randrange(1, 12)))


def _log(random: Random) -> str:
    levels = ("[INFO]", "[1]", "{x}", "2026-11-24", "    at")
    return "\n".join(f"{random.choice(levels)} {_sentence(random)}" for _ in range(random.randrange(20)))


def _one_line(random: Random) -> str:
    return random.choice(
        ("a", "aGVsbG8=", "  ", "中", "👍🏽", "e\u0301\u0302", "\\", '"', "\\\\u00e9", "=-=-", "\r\n", "1")
    ) * random.randrange(600)


def _noise(random: Random) -> str:
    return "".join(
        chr(random.choice((random.randrange(128), random.randrange(0x11_0000)))) for _ in range(random.randrange(150))
    )
