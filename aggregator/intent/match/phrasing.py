"""Tell requests from other mentions of a tool: refusals, questions and reports.

Law: a pattern sees one clause, at most 80 characters to either side of the call, so that none can take long.
"""

import re
from typing import Final

from aggregator.intent.match.words import any_of

# 别 is part of many words; 要不用 invites.
_DO_NOT: Final = "(?<!要)不用|(?<![特分区级识性类告差个辨])别"
_BETWEEN: Final = rf"(?: {any_of('refused-between')})*"
_NOW: Final = rf"(?: {any_of('bidden-between')})*\s*$"

# 能不能, 要不要: a question that invites.
_EITHER: Final = re.compile(r"([\u4e00-\u9fff])不\1")
_REFUSED_ZH: Final = re.compile(rf"(?:{_DO_NOT}|(?<![得要])不|{any_of('拒绝')})(?:{any_of('拒绝之间')}| )*$")
_REFUSED_EN: Final = re.compile(
    rf"{any_of('refused')}{_BETWEEN}(?: (?:use|call|run|search|look)(?: it)? (?:or|and|nor))?\s*$"
)
_TOLD_OFF: Final = re.compile(
    rf"(?:{_DO_NOT}|{any_of('别')})(?:{any_of('拒绝之间')}|跟|和| )*{any_of('别做')}[^,。]{{0,20}}$"
    rf"|{any_of('told-off')}{_BETWEEN} {any_of('told-off-verbs')}[^,.]{{0,40}}$"
)

# The head of a clause, before its verb. Don't forget to, and don't wait, invite.
_REFUSES: Final = re.compile(
    rf"\s*(?:{any_of('before-refusal')} )*"
    r"(?:(?:don['’]?t|do not|never|avoid|(?:could|can|would|will) you (?:please )?not)"
    rf" (?!{any_of('not-refused')})[a-z]"
    r"|stop [a-z]+ing(?![a-z]))"
)
# German says no behind the place: in notion keine Seite.
_NONE_OF_IT: Final = re.compile(r"\s*(?:bitte )?(?:keine?[mnrs]?|nichts?)(?![a-zäöüß])")
_INVITED: Final = re.compile(any_of("invited") + _NOW)
_BIDDEN: Final = re.compile(any_of("bidden") + _NOW)
_ASKED_EN: Final = re.compile(any_of("asked"))
_ASKED_ZH: Final = re.compile(rf"怎么(?!{any_of('怎么之后')})|{any_of('疑问')}|(?<!不)会$|当$|(?<![我你])说(?!明)")
_TELLING_EN: Final = re.compile(
    rf"(?:{any_of('tellers')}(?:['’](?:ve|d|ll|re|m))?|\S {any_of('modals')})(?: {any_of('telling')})*\s*$"
)
_TO: Final = re.compile(r"(?<![a-z])to" + _NOW)
_WANTED_TO: Final = re.compile(any_of("wanted-to") + " to" + _NOW)
_LOST_TO: Final = re.compile(
    any_of("lost-to") + r" to(?![a-z])|" + any_of("reported") + r"(?: [a-z]+){0,3} to(?![a-z])"
)
_EXPLAINED: Final = re.compile(any_of("explaining"))
_DOING: Final = re.compile(any_of("doing") + r"(?: (?:still|already|now|just))*\s*$")
_BY_DOING: Final = re.compile(any_of("by-doing") + r"\s*$")
_STARTS_TELLING: Final = re.compile(
    rf"\s*(?:(?:and|yesterday|today|also|because|if|that) )?(?:{any_of('starts-telling')}"
    r"|i(?! (?:want|need|would|wish)|['’]d)(?![a-z])|we(?! (?:want|need|would|should|could|can)|['’]d)(?![a-z])"
    r"|the (?:\w{1,30} )?\w{1,30} (?:is|was|are|were|has)(?![a-z]))"
)
_THEN_EN: Final = re.compile(
    r"[\s\"'’”`)\]]{0,6}(?:(?:and|or|vs\.?) \S{1,60} )?(?:tool|server|service|function|api|plugin)?\s*"
    + any_of("then-telling")
)
_TELLING_ZH: Final = re.compile(
    rf"(?<!{any_of('主语之前')}){any_of('叙述主语')}(?!{any_of('主语之后')}|们)[^,。]{{0,12}}$"
)
_TOGETHER: Final = re.compile(r"我们|咱们|大家")
_LETS: Final = re.compile(any_of("一起"))
_TOLD_ZH: Final = re.compile(rf"(?:(?<!现)在(?![^,。]{{1,5}}[里中上内]$)|{any_of('叙述')})[^,。]{{0,6}}$|每次都?$")
_THEN_ZH: Final = re.compile(
    rf"[\s\"'”’`」』》】)]{{0,6}}(?:这个|这款|那个)?(?:工具|服务|接口|插件)?\s*{any_of('谈论之前')}?"
    rf"(?:{any_of('谈论')}|的{any_of('的什么')}|[和跟与][^,。]{{1,40}}(?:区别|哪个|有什么))"
)
# 应该用 X 还是 Y; 用 X 需要密钥吗, 调用 X 安全吗.
_WEIGHED: Final = re.compile(
    r"[\s\"'”’`」』》】)]{0,6}(?:工具|服务|接口|插件)?\s*(?:[^,。]{0,24}还是|[了过](?:吗|么|没)"
    r"|(?:能|会|可以(?!吗)|支持|需要|要|有|是|算|安全|稳定|靠谱|免费|适合|必须)[^,。]{0,20}吗)"
)
# X 是干什么的, X 和 Y 一样吗: the name at the start is the subject of the sentence.
_SUBJECT: Final = re.compile(
    rf"[\s\"'”’`」』》】)]{{0,6}}(?:{any_of('主语之谓')}"
    rf"|[^,。]{{0,12}}{any_of('工具的事')}[^,。]{{0,8}}(?:什么|哪|吗|呢|怎|啥|多少|几)|[^,。]{{0,6}}(?:哪些|什么|几个){any_of('工具的事')})"
)
_AND_ORDERS: Final = re.compile(rf" and (?:then )?{any_of('imperatives', 'commands')}(?![\w-])")
_REALLY: Final = re.compile(r"[\s\"'”’`」』》】)]{{0,6}}(?:工具|服务|接口|插件)?\s*吗")
_MAY: Final = re.compile(rf"{any_of('可以')}[^,。]{{0,6}}$")


def is_request(before: str, verb: str, after: str) -> bool:
    """Tell whether `verb`, with the text of its clause before it and after the name, makes a request."""
    before = _EITHER.sub("", before)
    if verb.isascii():
        return _is_request_en(before, verb, after) and not _REFUSED_ZH.search(before)
    return _is_request_zh(before, after)


def is_refused(call: str, after: str) -> bool:
    """Tell whether the clause of a call, up to its end and after it, refuses it: please don't search with it."""
    return _REFUSES.match(call) is not None or _NONE_OF_IT.match(after) is not None


def is_forbidden(before: str) -> bool:
    """Tell whether the clause before a keyword forbids its use."""
    return _TOLD_OFF.search(_EITHER.sub("", before)) is not None


def is_mention(after: str) -> bool:
    """Tell whether the text after a name talks about the tool instead of asking it for something."""
    return any(pattern.match(after) for pattern in (_THEN_EN, _THEN_ZH, _REALLY, _WEIGHED))


def is_subject(after: str) -> bool:
    """Tell whether the text after a name at the start of a clause makes it the subject of a sentence.

    An order may be joined to the name: `list_issues and tell me the oldest`.
    """
    return _SUBJECT.match(after) is not None and _AND_ORDERS.match(after) is None


def _is_request_en(before: str, verb: str, after: str) -> bool:
    if _INVITED.search(before):
        return True
    if is_mention(after) or _REFUSED_EN.search(before):
        return False
    if _BIDDEN.search(before):
        return True
    if verb in ("via", "with", "through"):
        return not _STARTS_TELLING.match(before)
    if verb == "using":
        return not _DOING.search(before) and not _STARTS_TELLING.match(before)
    if verb.endswith("ing"):
        return _BY_DOING.search(before) is not None
    if verb.endswith(" of") and _EXPLAINED.search(before):
        return False
    if _LOST_TO.search(before) or _TELLING_EN.search(before):
        return False
    if _TO.search(before):
        return _WANTED_TO.search(before) is not None
    return _ASKED_EN.search(before) is None


def _is_request_zh(before: str, after: str) -> bool:
    if any(pattern.search(before) for pattern in (_REFUSED_ZH, _ASKED_ZH, _TOLD_ZH)) or any(
        pattern.match(after) for pattern in (_THEN_ZH, _WEIGHED)
    ):
        return False
    if _REALLY.match(after) and not _MAY.search(before):
        return False
    telling = _TELLING_ZH.search(before)
    return telling is None or (_TOGETHER.match(telling[0]) is not None and _LETS.search(after) is not None)
