"""What holds for any message: nothing unseen is named, and only what is said counts, not how it is written."""

from string import punctuation, whitespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.domain.records import ToolRecord
from aggregator.intent.match.intent import IntentMatch, IntentMatcher, ServerWords
from aggregator.intent.match.names import leading_name
from tests.intent.message_table import rows, sample_catalogs
from tests.laws import examples

_WORDS = st.sampled_from(
    [
        *(
            "用",
            "调用 ",
            "use ",
            "call the ",
            "@",
            "/",
            "帮我",
            "一下",
            "工具",
            " tool",
            " server",
            " 服务",
            "不要",
            "don't ",
        ),
        *(
            "天气",
            "导航",
            "配音",
            "time zone",
            "elevation",
            "what is ",
            "怎么",
            "。",
            ", ",
            "\n",
            "`",
            '"',
            " ",
            "我",
            "you ",
        ),
        *(
            "maps_weather",
            "amap",
            "高德地图",
            "Google Maps",
            "time",
            "get_current_time",
            "tavily",
            "voice clone",
            "weather",
        ),
    ]
)
_MESSAGES = st.one_of(
    st.sampled_from([row.message for row in rows()]),
    st.lists(_WORDS, max_size=12).map("".join),
    st.text(max_size=60),
)
_REFUSALS_EN = ("don't ", "do not ", "Never ", "please do not ", "You should not ", "Please don't ever ")
_REFUSALS_ZH = ("不要", "别", "请勿", "不需要", "先不要", "无需", "禁止", "请不要再")
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def _found(match: IntentMatch) -> tuple[object, ...]:
    return match.intent, match.rule, match.server, [tool.name for tool in match.tools]


def _city() -> tuple[ToolRecord, ...]:
    return sample_catalogs()["city"].tools


@settings(deadline=None, max_examples=examples(200))
@given(_MESSAGES, st.sets(st.integers(0, len(_city()) - 1)), st.integers(0, 12))
def test_only_what_is_seen_is_named(message: str, seen: set[int], limit: int) -> None:
    """A2, A3: neither a tool nor a server of which nothing is seen; and what is not seen changes nothing."""
    tools = tuple(tool for at, tool in enumerate(_city()) if at in seen)
    match = sample_catalogs()["city"].intents.match(message, tools, limit)
    assert all(any(tool is one for one in tools) for tool in match.tools)
    assert len({id(tool) for tool in match.tools}) == len(match.tools) <= limit
    assert match.server is None or match.server in {tool.server for tool in tools}
    assert (match.intent == "none") == (match.rule is None) == (match.matched is None)
    alone = IntentMatcher(_words({tool.server for tool in tools}))
    assert alone.match(message, list(tools), limit) == match


def _words(servers: set[str]) -> list[ServerWords]:
    known = {
        "amap-maps": ServerWords(
            "amap-maps", "amap", "高德地图", ("天气", "天气预报", "路线", "导航", "附近", "怎么走")
        ),
        "google-maps": ServerWords(
            "google-maps", "gmaps", "Google Maps", ("street view", "elevation", "driving directions")
        ),
        "time": ServerWords("time", "time", "time", ("time zone", "timezone", "时区", "几点")),
        "tavily": ServerWords("tavily", "tavily", "Tavily"),
        "elevenlabs": ServerWords(
            "elevenlabs", "elevenlabs", "ElevenLabs", ("text to speech", "voice over", "语音合成", "配音")
        ),
    }
    return [words for id, words in known.items() if id in servers]


@settings(deadline=None, max_examples=examples(50))
@given(_MESSAGES)
def test_the_same_message_has_the_same_answer(message: str) -> None:
    sample = sample_catalogs()["city"]
    assert sample.match(message) == sample.match(message)


@pytest.mark.parametrize("catalog", ["seed", "city", "work"])
def test_case_width_and_spaces_do_not_count(catalog: str) -> None:
    """A2, A3: however it is written."""
    sample = sample_catalogs()[catalog]
    for message in (row.message for row in rows() if row.catalog == catalog):
        expected = _found(sample.match(message))
        for written in (
            message.upper(),
            message.lower(),
            # Fences are looked for before anything is made even.
            message.translate(_FULL_WIDTH) if "```" not in message else message,
            f" \t\n{message}\u3000 \n",
            message.replace(" ", "   "),
        ):
            assert _found(sample.match(written)) == expected, written


@pytest.mark.parametrize("catalog", ["seed", "city", "work"])
def test_every_tool_is_called_by_name_and_not_when_refused(catalog: str) -> None:
    """A2, A4: in every frame, by the whole name; with a refusal before it, never."""
    sample = sample_catalogs()[catalog]
    for tool in sample.tools:
        for name in (tool.name, f"{tool.prefix}__{tool.own_name}"):
            for call in (f"use {name} to do it", f"call the {name} tool", f"run {name} with x=1"):
                assert _found(sample.match(call))[2:] == (tool.server, [tool.name]), call
                for refusal in _REFUSALS_EN:
                    assert sample.match(refusal + call).intent == "none", refusal + call
            for call in (f"用 {name} 工具看看", f"调用 {name}", f"使用{name}处理"):
                assert _found(sample.match(call))[2:] == (tool.server, [tool.name]), call
                for refusal in _REFUSALS_ZH:
                    assert sample.match(refusal + call).intent == "none", refusal + call


@settings(deadline=None)
@given(st.text(alphabet=punctuation + whitespace + "。，！？、「」…\u200b\ufeff😀", max_size=40))
def test_no_words_no_intent(message: str) -> None:
    """A4: nor is there one in an empty message."""
    assert sample_catalogs()["work"].match(message) == IntentMatch("none", None, None, None, (), "en")


@given(st.sampled_from(["Maps and routes in China, with weather", "查询天气、路线、地点以及更多的信息", "", "a b c d"]))
def test_a_description_that_is_a_sentence_is_no_name(description: str) -> None:
    assert leading_name(description) == ""


def test_a_description_may_begin_with_a_name() -> None:
    """A9: of the description, the name before the first stop."""
    assert leading_name("高德地图：路线、天气") == "高德地图"
    assert leading_name("Google Maps - places and routes") == "Google Maps"
