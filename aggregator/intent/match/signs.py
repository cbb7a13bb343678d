"""Find the servers that a Chinese clause orders or asks something of, wherever the name stands in it.

`places` reads the clauses that begin with the name or its preposition; here the verb may stand before or after it.

Law: only a name that is hardly anything else counts; a clause that tells, explains or refuses is no order.
"""

import re
from collections.abc import Iterator
from typing import Final

from aggregator.intent.match.clauses import NamedClause, clauses_after, clauses_with_servers
from aggregator.intent.match.explicit import NamedCall
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.slots import end_of
from aggregator.intent.match.text import MessageText
from aggregator.intent.match.words import any_of

_OPENED: Final = rf"\W{{0,6}}(?:{any_of('greetings', '开头')}\W{{0,4}}){{0,6}}"
_VERB: Final = any_of("动手", "那里做", "看那里")
# 新建的, 写了, 用过: what is there or was done.
_DONE: Final = r"(?![了过着的]|完了|好了)"
_VERB_FIRST: Final = re.compile(rf"{_OPENED}{_VERB}{_DONE}")
_WISHED: Final = re.compile(r"\W{0,6}(?:给我|我[想需]?要|我需要|我们需要)(?!用)")
_TAKEN: Final = re.compile(rf"{_OPENED}[^,。]{{0,10}}?(?:把|将|给)[^,。]{{0,60}}{_VERB}{_DONE}")
_TAKES: Final = re.compile(rf"{_OPENED}[^,。]{{0,10}}?(?:把|将|给)[^,。]{{0,20}}$")
_PUT_THERE: Final = re.compile(rf"{_VERB}?(?:到|进|入|在|给|成)(?:我的|我们的|一个|那个|这个|个|一份)?\s*$")
_PUT_IN: Final = re.compile(rf"[^,。]{{2,24}}{_VERB}(?:到|进|入|成)(?:我的|我们的|一个|那个|这个|个|一份)?\s*")
_PLACE: Final = re.compile(
    rf"{_OPENED}[^,。]{{0,16}}?(?:在|去|到|从|往|上|进|让|叫|请|找|问|通过|借助)(?:我的|我们的|那个|这个)?\s*$"
)
_LEADS: Final = re.compile(rf"{_OPENED}(?:我的|我们的|那个|这个)?\s*")
_VERB_LATER: Final = re.compile(rf"[^,。]{{0,24}}?{_VERB}{_DONE}")
_VERB_LAST: Final = re.compile(
    rf"[^,。]{{0,24}}?{_VERB}(?:给?我们?)?(?:一下|下|一遍|一次|出来|给我|掉|一份|[一两三几]?[个条张份遍])[^,。]{{0,12}}$|[^,。]{{1,16}}(?:查查|看看|搜搜|重启"
    rf"|列一下)[^,。]{{0,16}}$"
)
_INSIDE: Final = r"\s*(?:集群|服务器|项目|仓库|库|账户)?(?:里面|里边|里头|上面|那边|后台|里|中|上|内|的)"
# X 打开首页, but not X 打开很慢.
_VERB_NEXT: Final = re.compile(
    r"\s*(?:打开|抓取?|搜索?|查询?|跑一?遍?|读取?|生成|念|转成|导出|列出|统计|数一?下?|截图?|重启|下载|上传|登录|进入|点开)(?![了过着的到不得])"
    r"(?![^,。]{0,12}(?:很|太|失败|慢|快|卡|错|准|贵|质量|速度|功能|效果|结果|不了|不出|不错))[^,。]{2,}"
)
# X 那边又挂了,把它重启一下.
_TROUBLE: Final = re.compile(rf"(?:{_INSIDE}|\s*(?:又|挂|报错|不对劲|卡住|崩|有没有))[^,。]{{0,20}}$")
# 文件都放 X 里了,搜一下政策.
_KEPT_THERE: Final = re.compile(r"[^,。]{0,16}(?:放|存|记|写|丢|都在)(?:在|到|进)?\s*")
_THERE: Final = re.compile(rf"{_INSIDE}了?$")
_THEN_ORDER: Final = re.compile(
    r"\W{0,4}[^,。]{1,16}(?:改成|换成|设成|调成|加到|降到|扩到|缩到|标成|移到|挪到)[^,。]{1,16}$|"
    rf"\W{{0,4}}(?:帮[我忙]|麻烦|请|给我|替我)(?:再|去|先|快)?{_VERB}{_DONE}"
    r"|\W{0,4}(?:帮我|麻烦|请|你|赶紧|快|先|给我|替我|再|就){0,3}(?:把|找|搜|重启|停|关|看看|看一下|看一眼|看下|瞅|查|拉|跑|重跑|扩|打开|列|删|回滚|截)(?![了过])[^,。]{0,30}$"
)
_STATE: Final = re.compile(
    rf"(?:{_INSIDE}|\s*有没有)[^,。]{{0,60}}?(?:{any_of('此刻')}[^,。]{{0,60}}(?:多少|几|哪|谁|什么|有没有|吗|没|呢|情况|状态|怎么回事)|(?:有没有|多少"
    rf"|几[个条台张]|哪[个些台]"
    rf"|谁)[^,。]{{0,60}}{any_of('此刻')}|多少[行条]|有没有新)"
    r"|\s*有没有(?:新|未|我)"
    r"|\s*(?:今天|昨天|昨晚|现在|最近|刚才)[^,。]{0,12}(?:有没有|有啥|有什么|有几|多少|几[个条台]|谁|哪[些个])"
)
# 我想知道 X 里一共多少笔.
_WONDERS: Final = re.compile(rf"{_OPENED}(?:我们?|就)?(?:想|要)(?:知道|了解|问|看)(?:一?下)?\s*")
_WONDERED: Final = re.compile(rf"{_INSIDE}[^,。]{{0,60}}(?:多少|几|哪|谁|什么|有没有|是不是|怎么样了)")
# X 帮我打开首页.
_FOR_ME: Final = re.compile(rf"\s*(?:麻烦你?|请你?|再|也|先)?(?:帮[我忙]们?|给我|替我){_VERB}{_DONE}")
_STATE_BEFORE: Final = re.compile(rf"\W{{0,6}}(?:我们?的?|咱们的?|现在|今天|{any_of('greetings')}){{0,4}}\s*")
_REFUSED: Final = re.compile(r"不要|别(?!忘)|不用|不必|不想|无需|勿|禁止|不准|不许|不能|没法|不会|不是|不再")
# 能不能, 要不要: a question that invites.
_EITHER: Final = re.compile(r"([\u4e00-\u9fff])不\1")
_ABOUT: Final = re.compile(any_of("谈它"))
_HOW: Final = re.compile(
    r"怎么(?!又|还|样|回事)|(?:关于|介绍|解释|讲解|讲讲|说说|写一?篇|推荐|学习|学|像|叫)[^,。]{0,8}$"
)
_TELLER: Final = re.compile(
    r"\W{0,6}(?:昨天|上周|去年|以前|之前|刚才|刚刚|前天|后来)?(?:我们?|咱们?|他们?|她们?|它们?|老板|同事|公司|大家|有人|领导|客户|朋友|同学|团队|很多人|你们)"
    r"(?![想要需得]|[^,。]{0,4}(?:想|要|需要|得))[^,。]{0,60}(?:了|过|着|都|在用)"
)
_SOMEONE: Final = re.compile(
    r"\W{0,6}(?:他们?|她们?|它们?|老板|同事|大家|有人|领导|客户|朋友|同学|团队|很多人)(?![要让催叫想问])"
)
# 从 n8n 迁走以后, 现在是什么值.
_SINCE: Final = re.compile(r"(?:以后|之后|以来|的时候|那[天年时])\s*$")
_NOW_IS: Final = re.compile(r"(?<=现在|目前|当前)是什么")
_PAST: Final = re.compile(r"[^,。]{0,60}(?:了|过)[^,。]{0,8}$")


def find_orders_in_signs(message: MessageText, names: ToolNames) -> Iterator[NamedCall]:
    """Yield the servers of which a clause orders or asks something."""
    for clause in clauses_with_servers(message, names):
        if not message.quoted(clause.place) and (_is_asked(clause) or _goes_before_order(message, clause)):
            yield NamedCall(clause.start, end_of(message, clause.named), clause.named, "server")


def _is_asked(clause: NamedClause) -> bool:
    before, after = _EITHER.sub("", clause.before), clause.after
    # 用 and its sisters are read with the names of tools.
    if before.rstrip().endswith("用"):
        return False
    whole = _NOW_IS.sub("", f"{before}\ue001{after}")
    if (
        _REFUSED.search(before)
        or _ABOUT.search(whole)
        or _HOW.search(before)
        or _TELLER.match(whole)
        or _SOMEONE.match(whole)
        or _SINCE.search(after)
    ):
        return False
    if _HOW.search(after) and not _VERB_FIRST.match(before):
        return False
    if _VERB_FIRST.match(before) or _WISHED.match(before):
        return True
    if _PUT_IN.fullmatch(before) or (_TAKEN.match(before) and _PUT_THERE.search(before)):
        return _PAST.fullmatch(after) is None
    if (_TAKES.fullmatch(before) or _PLACE.fullmatch(before)) and _VERB_LATER.match(after):
        return True
    if _LEADS.fullmatch(before) and any(pattern.match(after) for pattern in (_VERB_LAST, _VERB_NEXT, _FOR_ME)):
        return True
    if _WONDERS.fullmatch(before) and _WONDERED.match(after):
        return True
    return _STATE_BEFORE.fullmatch(before) is not None and _STATE.match(after) is not None


def _goes_before_order(message: MessageText, clause: NamedClause) -> bool:
    """Tell whether an order follows what is wrong there: `heroku 那边又挂了,把 web 重启下`."""
    if _KEPT_THERE.fullmatch(clause.before) and _THERE.match(clause.after):
        return any(_THEN_ORDER.match(text) for text in clauses_after(message, clause.end, 2))
    if not _LEADS.fullmatch(clause.before) or not _TROUBLE.match(clause.after) or _ABOUT.search(clause.after):
        return False
    return any(_THEN_ORDER.match(text) for text in clauses_after(message, clause.end, 2))
