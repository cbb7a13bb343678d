"""Summarise a tool in one line, from any form of its description: pages, headings, boilerplate, or nothing."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

from aggregator.catalog.describe.markdown import Block, blocks, columns, inline, is_cjk
from aggregator.catalog.describe.shorten import is_third_person, is_verb, shorten
from aggregator.catalog.describe.truncate import truncate, without_asides

Language = Literal["en", "zh"]

# The columns of the words of level 1: a limit that few lines reach; their mean is about 50.
LINE: Final = 76

_SENTENCE_END: Final = re.compile(
    r"(?:[.!?]+[\"')\]”’]*(?=\s|$)|(?<=[a-z)])\.(?=[A-Z][a-z]+\s)|[。！？]+[”’」』）]*)\s*"
)
_BREAK: Final = re.compile(r"(?<=[.!?])(?:\\n)+")
_ABBREVIATED: Final = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|max|min|no|nr|fig|dr|mr|mrs|ms|st|inc|ltd|corp|dept|est)|\b[a-z])\.$",
    re.IGNORECASE,
)
_THING: Final = r"(?:tool|function|method|endpoint|command|operation|action|api|utility|call)"
_WHOM: Final = r"(?:(?:you|users?|the user|an? user|agents?|the agent|an? agent|llms?|clients?|developers?)\s+)?"
_LEADS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:description|summary|purpose|overview|功能描述|工具描述|功能|描述|说明|用途|简介|概述)\s*[:：]\s*",
        rf"(?:you\s+(?:can|should|may|must)\s+)?(?:use|call|invoke|run)\s+(?:this|the)(?:\s+{_THING})?\s+"
        r"(?:to|for|when(?:ever)?|if)\s+(?:you\s+(?:want|need|have|wish|would like)\s+to\s+|you\s+need\s+)?",
        rf"(?:(?:this|the)(?:\s+[\w-]+){{0,3}}?\s+{_THING}\s+(?:is\s+)?|this\s+is\s+)an?\s+(?:[\w-]+\s+){{0,2}}?{_THING}\s+"
        r"(?:to|for|that|which)\s+",
        rf"(?:this|the)(?:\s+[\w-]+){{0,2}}?\s+{_THING}\s+(?:is|can be|may be|should be|must be)\s+"
        r"(?:used|designed|meant|intended|useful|responsible)\s+(?:to|for|when)\s+",
        rf"(?:this|the)(?:\s+[\w-]+){{0,2}}?\s+{_THING}\s+(?:is\s+for|will|can|does|should|allows?|enables?|lets?|helps?)\s+"
        rf"{_WHOM}(?:to\s+)?",
        rf"(?:this|the(?:\s+[\w-]+){{0,3}}?\s+{_THING}|this\s+{_THING})\s+(?=[a-z]{{3,}}s\s)",
        r"(?:when(?:ever)?\s+)?(?:the\s+|an?\s+)?users?\s+(?:wants?|needs?|asks?|would like)\s+(?:you\s+)?to\s+",
        rf"(?:an?\s+|the\s+)?(?:mcp\s+|simple\s+|powerful\s+)?{_THING}\s+(?:(?:used\s+)?(?:to|for)|that|which)\s+",
        r"(?:can be\s+|is\s+)?(?:used\s+(?:to|for)\s+"
        rf"|(?:allows?|enables?|lets|helps)\s+(?:{_WHOM}to\s+|{_WHOM[:-1]}))(?=[a-z])",
        r"(?:provides?|gives?)\s+(?:you\s+)?(?:the\s+)?(?:ability|capability|functionality|a way|access)\s+to\s+",
        r"(?:(?:这|该|本|此)(?:个|是一个|是)?(?:MCP)?(?:工具|接口|函数|方法|服务|功能))[，,：:]?"
        r"(?:是)?(?:可以|可|能够|能|会|将)?(?:被)?(?:用于|用来|用以|帮助您?你?|让您?你?|允许您?你?|支持|提供)?",
        r"(?:请)?(?:使用|调用|通过)(?:此|该|本|这个)(?:工具|接口|函数|方法|服务)(?:，|,)?(?:可以|来|可|能够|能)?",
        r"(?:一个|一种)?(?:可以|可)?(?:用于|用来)",
    )
)
# `Weather API provides forecasts` says `provides forecasts`; `Commits from other branches` begins with its subject.
_SUBJECT: Final = re.compile(
    rf"(?:(?:the|this)\s+)?(?:[\w.'/-]+\s+){{0,3}}?(?:{_THING}|server|service|integration|mcp)\s+(?=([a-z]{{3,}}s)\s+\S)",
    re.IGNORECASE,
)
# In front of the sentence, in brackets or capitals.
_BANNER: Final = re.compile(
    r"(?:[\[(（【](?:deprecated|beta|alpha|experimental|preview|read[- ]only|legacy|internal|new|destructive"
    r"|弃用|测试版)[^\])）】]{0,60}[\])）】]"
    r"|(?:REQUIRED|MANDATORY|CRITICAL|IMPORTANT)\s*:)\s*[:：-]?\s*(?=\w)",
    re.IGNORECASE,
)
# `Once it is done, the user must call this tool to approve`: the clause before says when.
_WHEN_CALLED: Final = re.compile(
    r"(?:once|after|when|before|if) [^.]{3,120}?, "
    r"(?:(?:the )?(?:user|assistant|agent|you) (?:must|should|can) (?:call|use) this tool to|this tool) (?=[a-z])",
    re.IGNORECASE,
)
_GIVEN: Final = re.compile(
    r"given [^.]{3,120}?, (?:(?:(?:this|the) tool|it) (?:will |can )?(?=[a-z])"
    r"|(?=(?:return|get|find|list|fetch|create|generate|compute|calculate|convert)s? ))",
    re.IGNORECASE,
)
_API: Final = re.compile(r"[^\s，。：]{2,12}\s*(?:API|接口|工具|服务)\s*(?:可以|能够|可|用于)+")
_LIMITED: Final = re.compile(r"(?:[A-Z][\w ]{2,20} tool|(?:START HERE|Start here)[^.:]{0,40})\s*:\s*(?=\w)")
_QUESTIONS: Final = re.compile(r"any [\w/ -]{3,60} questions$", re.IGNORECASE)
_INSTEAD: Final = re.compile(r"use \S*[_.]\S+|use \S+ instead|please use |replaced by ", re.IGNORECASE)
_OF_A_TOOL: Final = re.compile(r"的(?:工具|接口|函数|方法|服务)$")
_ENDING: Final = " \t.。:：,，;；、-–—!！"
_STARTING: Final = " #\t.。:：,，;；、-–—!！)）]】>•·|/\\"

# Labels of a part of the description; they say nothing about the tool.
_LABELS: Final = frozenset(
    {
        *("description", "overview", "summary", "purpose", "usage", "about", "introduction", "details", "general"),
        *(
            "features",
            "key features",
            "capabilities",
            "functionality",
            "when to use",
            "when to use this tool",
            "how to use",
        ),
        *("use cases", "use case", "best for", "instructions", "workflow", "tool description", "what it does", "notes"),
        *(
            "note",
            "important",
            "warning",
            "caution",
            "tip",
            "tips",
            "info",
            "example",
            "examples",
            "prerequisites",
            "mcp tool",
        ),
        *(
            "功能",
            "描述",
            "说明",
            "概述",
            "简介",
            "用途",
            "介绍",
            "功能描述",
            "工具描述",
            "工具说明",
            "使用场景",
            "注意",
            "示例",
            "使用说明",
        ),
    }
)
# Sentences read of a description, and the weight of a leading verb against a later position.
_SENTENCES: Final = 24
_VERB: Final = 8
# A remark, or a late sentence that begins with no verb, says less of the tool than its name.
_LATE: Final = -4
_OF_RESULTS: Final = frozenset({"returns", "return", "returning", "shows", "includes", "creates"})
_FIRST_WORDS: Final = re.compile(r"[a-z]+")
# Banners, hints when to use a tool, remarks on its result and texts for another role: they do not say what it does.
_NOT_ABOUT: Final = re.compile(
    r"\W*(?:deprecated|beta|alpha|experimental|legacy|obsolete|internal|start here|read this|no other|you are"
    r"|your (?:task|role|job)"
    r"|as an?\s|act as|if (?:you|the|a|an|no|not|all|omitted)\b|when (?:you|the|a|an)\b"
    r"|(?:the )?users? (?:wants?|needs?|asks?|says?)"
    r"|access to this|this (?:is|was|will|creates?|does|should|must|can|may)\b"
    r"|it (?:is|was|will|does|should|must|can|may)\b"
    r"|they |we |i |otherwise\b|anything\b|(?:the )?(?:result|response|output|answer)s?\b"
    r"|returns? (?:the )?(?:created|updated|deleted|same)\b"
    r"|ignore\b|system\s*:|assistant\s*:|available (?:only|in|on|for|to)|supports?\b|works?\b|useful\b|helpful\b"
    r"|triage tool|given\b|(?:in|on) (?:such|this|that) (?:a )?(?:case|scenario|situation)s?\b"
    # A demand on an argument or a plan.
    r"|[^.,]{0,50}\b(?:(?:is|are) (?:required|only available|mandatory)|must (?:be|contain|have|start|match))\b"
    r"|(?:已)?(?:弃用|废弃)|你是|如果|当用户|适用于)",
    re.IGNORECASE,
)
# Error texts, warnings and orders to the model: no description, not even if there is nothing else.
_WARNING: Final = re.compile(
    r"\W*(?:[1-5]\d\d\s*[:–—-]|(?:http )?errors?\b[^.]{0,30}:|raises\b|throws\b|mandatory\b|[\w -]{0,30}\bwarning\s*:"
    r"|(?:tool )?calls? without\b|(?:any|every) (?:call|violation)|repeated violations|omitting\b|failure to\b"
    r"|the (?:handler|server) (?:will|may) (?:reject|refuse)|(?:ai )?agents? (?:must|should)\b"
    r"|if your (?:client|host)\b|only if neither\b|rate limit|you (?:must|have to)\b|tell the user\b"
    r"|data modification\b)",
    re.IGNORECASE,
)
# The label of the part of a description that says what the tool does.
_PURPOSE: Final = re.compile(
    r"\W*(?:purpose|what it does|description|summary|功能|功能描述|用途|描述)\W*", re.IGNORECASE
)
# From here on a description is about arguments and results.
_ARGUMENTS: Final = re.compile(
    r"(?:args?|arguments?|param(?:eter)?s?|inputs?|returns?|outputs?|raises|yields|response|required parameters"
    r"|optional parameters|example usage|errors|status codes"
    r"|error (?:responses|codes|handling)|参数|参数说明|输入参数|输入|返回|返回值|输出)\s*[:：]?$"
    r"|(?:args|arguments|parameters|returns|参数|返回值)\s*[:：]",
    re.IGNORECASE,
)
# Remarks on how to use a tool; used only when a description has nothing else.
_ASIDES: Final = re.compile(
    r"\W*(?:note|important|critical|warning|caution|tip|attention|remember|always|never|do not|don't|must|you must"
    r"|please|before|prefer|only use|use (?:for|when|only|it)|requires?|required|prerequisites?|see also|see"
    r"|for example|e\.g|i\.e|best for|not recommended|common mistakes|version|since|author|copyright|source|https?:)\b"
    r"|[(（]|\W*(?:注意|重要|警告|提示|必须|请先|切勿|请务必|例如)",
    re.IGNORECASE,
)
_ARTICLE: Final = re.compile(r"\A(?:the|an?|optional|required|\(optional\)|\(required\))[,:.]?\s+(?=\w)", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_TAKES: Final[Mapping[Language, str]] = {"en": "takes", "zh": "参数"}
_NAMES_SHOWN: Final = 6
# A full stop within parentheses ends nothing, unless they are never closed.
_ASIDE_READ: Final = 600
# List items this short are read as one sentence.
_SHORT_ITEM: Final = 24


def first_sentence(definition: Mapping[str, Any], limit: int = LINE, language: Language = "en") -> str:
    """Return the purpose of the tool in at most `limit` columns, without a full stop; empty only if nothing is
    known.
    """
    return shorten(_best(definition, language), limit)


def summary(definition: Mapping[str, Any], limit: int, language: Language = "en") -> str:
    """Return the purpose of the tool, with as many of the following sentences as fit whole in `limit` columns."""
    first = _best(definition, language)
    if columns(first) >= limit:
        return shorten(first, limit)
    text = definition.get("description")
    sentences = list(_sentences(text, str(definition.get("name", "")))) if isinstance(text, str) else []
    if first in sentences:
        for sentence in sentences[sentences.index(first) + 1 :]:
            longer = f"{first}。{sentence}" if is_cjk(first[-1]) else f"{first}. {sentence}"
            if columns(longer) > limit or _ASIDES.match(sentence) or _is_label(sentence):
                break
            first = longer
    return first


def sentences_after(definition: Mapping[str, Any], most: int = 4) -> list[str]:
    """Return the sentences of a description behind the first that say something of the tool, `most` at most."""
    text = definition.get("description")
    found = _sentences(text, str(definition.get("name", ""))) if isinstance(text, str) else iter(())
    useful = (sentence for sentence in found if _says_something(sentence) and not _ASIDES.match(sentence))
    return list(islice(useful, 1, most + 1))


def gist(text: Any, limit: int) -> str:
    """Return the first useful sentence of any text, truncated; for the descriptions of parameters."""
    if not isinstance(text, str):
        return ""
    sentences = _ARTICLE.sub("", next(_sentences(text, ""), ""), 1)
    short = truncate(sentences[:1].upper() + sentences[1:] if sentences[1:2].islower() else sentences, limit)
    return short if short == sentences or _says_something(short) else ""


def words_of(name: str) -> list[str]:
    """Split an identifier into words: `getUserByID` -> get, user, by, id."""
    return [word.lower() for word in _WORD.findall(name)]


def _best(definition: Mapping[str, Any], language: Language) -> str:
    """Return the sentence that describes the tool best: the first one, unless a later one is clearly more specific."""
    name = str(definition.get("name", ""))
    text = definition.get("description")
    best, most = "", -1
    late = []
    found = list(islice(_sentences(text, name), _SENTENCES)) if isinstance(text, str) else []
    found = [sentence for sentence in found if not _WARNING.match(sentence)]
    for at, sentence in enumerate(found):
        if not _useful(sentence, name):
            late.append(sentence)
            continue
        merit = _merit(sentence, name, first=at == 0) - at
        if merit > most or not best:
            best, most = sentence, merit
        if most >= _VERB - at:
            break
    title = _title(definition, name)
    if most <= 2 and (instead := _of_deprecated(found)):
        return instead
    if best and (most >= 0 or (not title and most > _LATE)):
        return _with_verb(best, name)
    if best and not is_verb(best.partition(" ")[0].casefold()):
        return title or _from_name(definition, name, language)
    late_sentence = next((sentence for sentence in late if _says_something(sentence) and not _is_label(sentence)), "")
    return title or best or late_sentence or _from_name(definition, name, language) or (late[0] if late else "")


def _merit(sentence: str, name: str, *, first: bool) -> int:
    """Return how well a sentence describes a tool: highest if it begins with a verb, lowest for a remark."""
    words = [
        word for word in _FIRST_WORDS.findall(sentence.casefold()[:60]) if is_verb(word) or not word.endswith("ly")
    ]
    if _NOT_ABOUT.match(sentence) or sentence.endswith(("?", "？")):
        return -_VERB
    if words[:1] == ["use"] or (not first and words[:1] and words[0] in _OF_RESULTS):
        return 2
    named = set(words_of(name))
    if any(map(is_cjk, sentence)) or any(map(is_verb, words[:1])) or named.intersection(words[:1]):
        return _VERB
    return 5 if named.intersection(words_of(sentence[:200])) else 1


def _of_deprecated(found: list[str]) -> str:
    """Return what to use in place of a tool that says so of itself and nothing else."""
    if any(sentence[:10].casefold() == "deprecated" for sentence in found):
        instead = next((sentence for sentence in found if _INSTEAD.match(sentence)), "")
        return f"Deprecated: {instead[0].lower()}{instead[1:]}" if instead else ""
    return ""


def _sentences(text: str, name: str) -> Iterator[str]:
    """Yield the sentences of the prose, in order, without what leads up to them; headings last."""
    headings: list[str] = []
    # Some servers send the two characters for a line break.
    for block in _purpose_first(list(_joined(blocks(_BREAK.sub("\n", text))))):
        if _ARGUMENTS.match(block.text):
            break
        if block.kind == "heading":
            headings.append(_without_lead(block.text, name))
            continue
        for sentence in _split(block):
            bare = _without_lead(sentence, name)
            if bare:
                yield bare
    yield from filter(None, headings)


def _purpose_first(found: list[Block]) -> list[Block]:
    """Return the blocks of a text that begins with a heading, first those below one such as `Purpose:`."""
    if not found or found[0].kind != "heading":
        return found
    starts = (at for at, block in enumerate(found) if block.kind == "heading" and _PURPOSE.fullmatch(block.text))
    start = next(starts, 0)
    return found[start + 1 :] + found[:start] if start else found


def _joined(found: Iterator[Block]) -> Iterator[Block]:
    """Join short items that follow each other into one."""
    last: Block | None = None
    for block in found:
        short = block.kind == "item" and columns(block.text) <= _SHORT_ITEM
        if short and last is not None and len(last.text) < _ASIDE_READ:
            last = Block("item", f"{last.text.rstrip(_ENDING)}, {block.text}")
            continue
        if last is not None:
            yield last
        last = block if short else None
        if last is None:
            yield block
    if last is not None:
        yield last


def _split(block: Block) -> Iterator[str]:
    start = 0
    for found in _SENTENCE_END.finditer(block.text):
        if _ABBREVIATED.search(block.text, max(0, start, found.start() - 12), found.start() + 1) and found[0][0] == ".":
            continue
        inside = block.text[start : found.end()]
        if inside.count("(") > inside.count(")") and len(inside) < _ASIDE_READ:
            continue
        yield inside
        start = found.end()
    if start < len(block.text):
        yield block.text[start:]


def _without_lead(sentence: str, name: str) -> str:
    """Strip the tool's own name in front, `This tool is used to` and the like, and the full stop."""
    text = sentence.lstrip(_STARTING).rstrip(_ENDING)
    if name and text[: len(name)].casefold() == name.casefold() and re.match(r"\s*[:：–—-]\s", text[len(name) :]):
        text = text[len(name) :].lstrip(_STARTING)
    text = _BANNER.sub("", text, 1)
    for _ in range(3):
        shorter = next((text[m.end() :] for m in (lead.match(text) for lead in _LEADS) if m), None)
        if shorter is None or columns(shorter) < 4:
            break
        text = shorter.lstrip(_STARTING)
        text = _OF_A_TOOL.sub("", text)
    text = _without_subject(text, name).lstrip(_STARTING)
    return text[:1].upper() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def _with_verb(sentence: str, name: str) -> str:
    """Return `Describe a workbook's sheets` for `describe_workbook` if its sentence lacks the verb."""
    verb = next(iter(words_of(name)), "")
    if sentence.partition(" ")[0].casefold() in ("a", "an", "the") and is_verb(verb):
        return f"{verb.capitalize()} {sentence[0].lower()}{sentence[1:]}"
    return sentence


def _without_subject(text: str, name: str) -> str:
    """Return a sentence from its verb on if it begins with the tool as its subject."""
    if found := _QUESTIONS.match(text):
        return f"Answer {text[0].lower()}{text[1:]}"
    for lead in (_GIVEN, _WHEN_CALLED, _API, _LIMITED):
        if (found := lead.match(text)) and columns(text[found.end() :]) >= 4:
            return text[found.end() :]
    words = _FIRST_WORDS.findall(text.casefold()[:60])
    if not words or words[0].endswith("ly") or (is_verb(words[0]) and not _own_name(text, name)):
        return text
    found = _own_name(text, name) or _SUBJECT.match(text)
    return text[found.end() :] if found and is_third_person(found[1].casefold()) else text


def _own_name(text: str, name: str) -> re.Match[str] | None:
    """Return the tool's own name in front of a verb, written as it is or in words, or None."""
    words = words_of(name)
    if not words:
        return None
    written = r"[\W_]*".join(map(re.escape, words))
    subject = rf"(?:[\w-]+\s+)?`?{written}`?(?:\s+{_THING})?\s+(?=([a-z]{{3,}}s)\s+\S)"
    return re.match(subject, text, re.IGNORECASE)


def _is_label(sentence: str) -> bool:
    return sentence.rstrip(_ENDING).casefold() in _LABELS


def _says_something(sentence: str) -> bool:
    """Tell whether there are enough words to say something."""
    return columns(sentence) >= 4 and (len(sentence.split()) > 1 or any(map(is_cjk, sentence)))


def _useful(sentence: str, name: str) -> bool:
    if not _says_something(sentence) or _is_label(sentence) or _ASIDES.match(sentence):
        return False
    sentences = words_of(sentence)
    return sentences != words_of(name) or len(sentences) > 2


def _title(definition: Mapping[str, Any], name: str) -> str:
    annotations = definition.get("annotations")
    for title in (definition.get("title"), annotations.get("title") if isinstance(annotations, Mapping) else None):
        if isinstance(title, str):
            text = without_asides(inline(title[:300])).strip(_ENDING)
            if _says_something(text) and words_of(text) != words_of(name):
                return text
    return ""


def _from_name(definition: Mapping[str, Any], name: str, language: Language) -> str:
    """Return `Get user (takes id, fields)`, for a tool without a usable description."""
    words = " ".join(words_of(name)[:12])
    schema = definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    names = [inline(str(key)[:40]) for key in properties] if isinstance(properties, Mapping) else []
    text = words[:1].upper() + words[1:]
    taken = ", ".join(key for key in names[:_NAMES_SHOWN] if key)
    if not taken:
        return text
    return f"{text}：{_TAKES[language]} {taken}" if language == "zh" else f"{text}: {_TAKES[language]} {taken}"
