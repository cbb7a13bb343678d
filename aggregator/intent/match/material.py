"""Tell calls inside quoted material from requested calls: code to write, words to translate, reported speech.

Law: a pattern sees at most 160 characters before a call and 80 after it, so that its time is bounded.
"""

import re
from typing import Final

from aggregator.intent.match.text import MessageText
from aggregator.intent.match.words import any_of

_NEAR: Final = 160
# Within one sentence; a point inside a name does not end it.
_ON: Final = r"(?:[^.!?。\n]|\.(?!\s))"
_THEN: Final = re.compile(rf"{any_of('afterwards')}")
# Write a script that calls ...; 写一个函数,里面调用 ...
_WRITTEN_EN: Final = re.compile(
    rf"{any_of('composing')}{_ON}{{0,40}}?{any_of('compositions')}(?P<between>{_ON}{{0,60}})$"
)
_WRITTEN_ZH: Final = re.compile(rf"{any_of('写作')}{_ON}{{0,20}}?{any_of('作品')}(?P<between>{_ON}{{0,20}})$")
# 写一段调用 ... 的代码
_WRITING_ZH: Final = re.compile(rf"{any_of('写作')}[^,。\n]{{0,24}}$")
_OF_WORKS: Final = re.compile(rf"[^,。\n]{{0,12}}的[^,。\n]{{0,14}}?{any_of('作品', '语言')}")
_IN_CODE_ZH: Final = re.compile(rf"用\s?(?:代码|程序|脚本|go|js|{any_of('语言')})[^,。\n]{{0,10}}$")
_SENTENCE_WITH: Final = re.compile(
    r"[`」』”\s]*(?:这个?[词字单]{1,2}|一词)?\s*(?:造[一个]{0,2}句|写[^,。]{0,4}(?:句子|句话))"
    r"|\s*in (?:a|one|the|your|this|every) (?:sentence|paragraph|poem|story|haiku|song|joke)(?![a-z])"
    r"|\s*as an? (?:noun|verb|word|adjective|excuse)(?![a-z])"
)
# My variable create_issue.
_VARIABLE: Final = re.compile(r"(?:variable[ns]?|变量名?|変数|字段)\W{0,3}$")
# Translate to French: ...; he said: ...
_GIVEN: Final = re.compile(
    rf"(?:{any_of('reworking', '改写')}[^:\n]{{0,60}}"
    rf"|{any_of('reviewing')} (?:this|that|these|the following|my|below)(?![a-z])[^:\n]{{0,40}}"
    rf"|{any_of('检查')}[^:\n]{{0,4}}(?:这|以下|下面|下列)[^:\n]{{0,16}}"
    rf"|(?<!i ){any_of('saying')}(?: [a-z]+){{0,3}}|(?<!我){any_of('说')}(?:的是)?):[^\n]*$"
)
_GIVEN_ABOVE: Final = re.compile(rf"(?:{any_of('reworking', '改写')}|following|以下|下面)[^:\n]{{0,60}}:\s*\n[^\n]*$")
# With a tool, by which the text is written, and not in it.
_BY_MEANS: Final = frozenset({"with", "via", "through", "通过", "借助", "利用"})


def is_material(message: MessageText, start: int, end: int) -> bool:
    """Tell whether what stands from `start` to `end` is a part of a text that the message is about."""
    before, after = message.plain[max(0, start - _NEAR) : start], message.after(end)
    if any(pattern.search(before) for pattern in (_GIVEN, _GIVEN_ABOVE)) or _SENTENCE_WITH.match(after):
        return True
    if _VARIABLE.search(before):
        return True
    if _IN_CODE_ZH.search(before) or (_WRITING_ZH.search(before) and _OF_WORKS.match(after)):
        return True
    if any(message.plain.startswith(verb, start) for verb in _BY_MEANS):
        return False
    written = _WRITTEN_EN.search(before) or _WRITTEN_ZH.search(before)
    return written is not None and _THEN.search(written["between"]) is None
