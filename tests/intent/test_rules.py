"""What fires, what does not, and what is named: one rule after the other."""

from dataclasses import replace

import pytest

from aggregator.catalog.describe.first_sentence import Language
from aggregator.domain.records import ToolRecord
from aggregator.intent.match.intent import IntentMatch, IntentMatcher, ServerWords
from tests.intent.message_table import sample_catalogs, tool

SPELLINGS = ("amap.maps_weather", "amap__maps_weather", "amap/maps_weather", "amap:maps_weather", "AMAP.Maps_Weather")


def _names(match: IntentMatch) -> list[str]:
    return [one.name for one in match.tools]


def _sample(*servers: tuple[ServerWords, tuple[str, ...]]) -> tuple[IntentMatcher, tuple[ToolRecord, ...]]:
    tools = tuple(tool(words.id, words.prefix, name) for words, names in servers for name in names)
    return IntentMatcher([words for words, _ in servers]), tools


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "frame", ["用 {} 工具查一下", "调用{}", "请用{}帮我看看", "use the {} tool", "call {}", "@{} go"]
)
def test_a_tool_is_called_by_its_name_in_every_spelling(frame: str, spelling: str) -> None:
    """A2: 用 xxx 工具, 调用 xxx and their English sisters give the tool's name."""
    match = sample_catalogs()["city"].match(frame.format(spelling))
    assert (match.intent, match.server, _names(match)) == ("mcp", "amap-maps", ["amap.maps_weather"])
    assert match.rule in ("explicit", "handle")
    assert match.matched is not None
    assert spelling in match.matched


@pytest.mark.parametrize(
    "written", ["takeAppScreenshot", "take_app_screenshot", "take app screenshot", "Take-App-Screenshot"]
)
def test_a_tool_is_called_by_its_own_name_and_its_title(written: str) -> None:
    """A2: camelCase, underscores, hyphens and spaces are one name."""
    assert _names(sample_catalogs()["work"].match(f"please call {written}")) == ["browserstack.takeAppScreenshot"]


@pytest.mark.parametrize(
    ("message", "rule", "matched"),
    [
        ("@maps_weather 北京", "handle", "@maps_weather"),
        ("/maps_weather 北京", "handle", "/maps_weather"),
        ("请调用 maps_weather 工具。", "explicit", "调用 maps_weather 工具"),
        ("maps_weather 北京", "name", "maps_weather"),
        ("帮我 maps weather 一下", "ask", "帮我 maps weather 一下"),
        ("调用 maps_wether", "nearest", "调用 maps_wether"),
        ("use the weather tool", "nearest", "use the weather tool"),
        ("调用任意一个 weather 工具", "nearest", "调用任意一个 weather 工具"),
        ("北京天气怎么样", "keyword", "天气"),
    ],
)
def test_each_rule_says_which_words_fired_it(message: str, rule: str, matched: str) -> None:
    """A2, A3: rule and words come with the intent."""
    match = sample_catalogs()["city"].match(message)
    assert (match.rule, match.matched, match.tools[0].name) == (rule, matched, "amap.maps_weather")


@pytest.mark.parametrize(
    "message",
    [
        "帮我看一下",
        "帮我总结一下这篇文章",
        "帮我用一下",
        "调用 no_such_thing",
        "use the hammer tool",
        "用什么工具好",
        "工具箱在哪",
        "what is a tool?",
        "I call my mother every day",
        "use your imagination",
        "me@tavily.com",
        "https://tavily.com/maps_weather",
        "cat /maps_weather/file",
        "```\ncall maps_weather\n```",
        "> call maps_weather\nwhat does that mean?",
    ],
)
def test_no_match_leaves_the_message_to_what_comes_after(message: str) -> None:
    """A4, B1: 帮我……一下 alone, names of nothing, code, quotes and addresses give nothing at all."""
    assert sample_catalogs()["city"].match(message) == IntentMatch("none", None, None, None, (), _language(message))


def _language(message: str) -> Language:
    return "zh" if any("\u4e00" <= char <= "\u9fff" for char in message) else "en"


def test_the_whole_server_is_meant_by_its_id_prefix_or_description() -> None:
    """A2, A9: a server is called by what the operator calls it."""
    for name in ("google-maps", "gmaps", "Google Maps"):
        match = sample_catalogs()["city"].match(f"use the {name} server for the way to the airport")
        assert match.server == "google-maps"
        assert {one.server for one in match.tools} == {"google-maps"}


def test_a_server_without_words_is_called_by_its_name_and_by_no_keyword() -> None:
    """A9: no description and no keywords: only an explicit call gets there."""
    intents, tools = _sample((ServerWords("weather", "weather"), ("now",)))
    assert intents.match("weather in Rome", tools).intent == "none"
    assert intents.match("使用 weather 服务", tools).server == "weather"


def test_a_name_of_several_servers_names_them_all_until_one_is_said() -> None:
    sample = sample_catalogs()["work"]
    both = sample.match("call create_issue")
    assert (both.server, _names(both)) == (None, ["github.create_issue", "gitlab.create_issue"])
    one = sample.match("call create_issue on gitlab")
    assert (one.server, _names(one)) == ("gitlab", ["gitlab.create_issue"])


def test_several_calls_are_named_in_their_order() -> None:
    match = sample_catalogs()["work"].match("First use read_text_file, then call write_file, but don't use move_file.")
    assert (match.server, _names(match)) == ("filesystem", ["filesystem.read_text_file", "filesystem.write_file"])


def test_no_server_takes_the_name_of_another() -> None:
    intents, tools = _sample(
        (ServerWords("github", "github"), ("create_issue",)),
        (ServerWords("other", "other"), ("github",)),
    )
    assert _names(intents.match("use github", tools)) == ["github.create_issue"]
    assert _names(intents.match("use the github tool", tools)) == ["other.github"]


def test_a_chinese_name_may_begin_with_any_sign() -> None:
    words = (ServerWords("m", "m", "地图"), ServerWords("n", "n", "电子表格：计算"), ServerWords("o", "o", "语音"))
    intents, tools = _sample(*((one, ("x",)) for one in words))
    for message, server in (
        ("用地图服务查一下", "m"),
        ("请用电子表格算算", "n"),
        ("调用语音", "o"),
        ("用语音工具念", "o"),
    ):
        assert intents.match(message, tools).server == server, message


def test_the_tools_of_a_server_come_in_the_order_of_the_message() -> None:
    sample = sample_catalogs()["city"]
    assert _names(sample.match("用高德地图查天气"))[0] == "amap.maps_weather"
    assert _names(sample.match("明天天气怎么样"))[0] == "amap.maps_weather"
    plain = _names(sample.match("使用 amap 服务", limit=3))
    assert plain == ["amap.maps_regeocode", "amap.maps_geo", "amap.maps_ip_location"]


def test_a_search_may_order_the_tools_of_a_server() -> None:
    sample = sample_catalogs()["city"]
    asked: list[str] = []

    def backwards(message: str, tools: tuple[ToolRecord, ...]) -> list[ToolRecord]:
        asked.append(message)
        stranger = tool("elsewhere", "elsewhere", "thing")
        return [stranger, *reversed(tools[1:])]

    match = sample.intents.match("使用 tavily 服务", sample.tools, rank=backwards)
    assert _names(match) == [f"tavily.tavily_{name}" for name in ("research", "map", "crawl", "extract", "search")]
    assert asked == ["使用 tavily 服务"]


@pytest.mark.parametrize(
    ("message", "server"),
    [
        ("open a merge request", "gitlab"),
        ("OPEN A MERGE  REQUEST", "gitlab"),
        ("ｍｅｒｇｅ　ｒｅｑｕｅｓｔ", "gitlab"),
        ("jira里的任务", "atlassian"),
        ("帮我截图吧", "playwright"),
        ("in the newsroom", None),
        ("podcasts", None),
        ("news@example.com", "brave-search"),
        ("me@news", None),
        ("my_sql_dump", None),
        ("see https://news.example.com/sql", None),
    ],
)
def test_keywords_stand_alone_in_latin_and_anywhere_in_chinese(message: str, server: str | None) -> None:
    """A3: case and width do not count; Latin keywords are whole words, Chinese ones need no boundary."""
    match = sample_catalogs()["work"].match(message)
    assert (match.server, match.rule) == (server, "keyword" if server else None)


def test_the_longest_keyword_wins_and_leaves_room_for_others() -> None:
    """A3: the server of the longest keyword is the one; what it covers does not count, what else is there follows."""
    intents, tools = _sample(
        (ServerWords("a", "a", "", ("york", "天气")), ("one",)),
        (ServerWords("b", "b", "", ("new york city", "天气预报")), ("two",)),
        (ServerWords("c", "c", "", ("city guide", "新闻")), ("three",)),
    )
    longest = intents.match("a new york city guide", tools)
    assert (longest.server, longest.matched, _names(longest)) == ("b", "new york city", ["b.two"])
    assert _names(intents.match("明天的天气预报", tools)) == ["b.two"]
    together = intents.match("新闻和天气预报", tools)
    assert (together.server, _names(together)) == ("b", ["b.two", "c.three"])
    assert intents.match("新闻和天气", tools).server == "c"


def test_a_keyword_of_two_servers_is_tied_to_none() -> None:
    """A3: the tools of both, by turns."""
    words = (ServerWords("a", "a", "", ("地图",)), ServerWords("b", "b", "", ("地图",)))
    intents, tools = _sample((words[0], ("x", "y")), (words[1], ("z",)))
    match = intents.match("看地图", tools)
    assert (match.server, _names(match)) == (None, ["a.x", "b.z", "a.y"])
    assert intents.match("看地图", tools[2:]).server == "b"


@pytest.mark.parametrize(
    "message", ["不要查天气", "别用天气工具", "don't check the elevation", "不要调用 maps_weather"]
)
def test_what_is_refused_is_not_named(message: str) -> None:
    """A4: neither by name nor by keyword."""
    assert sample_catalogs()["city"].match(message).intent == "none"


@pytest.mark.parametrize(
    "message", ["别忘了看天气", "不知道明天天气怎么样", "能不能调用 maps_weather", "why not use maps_weather?"]
)
def test_a_refusal_in_words_only_is_none(message: str) -> None:
    assert _names(sample_catalogs()["city"].match(message))[0] == "amap.maps_weather"


def test_servers_that_are_not_ready_are_as_if_they_were_not() -> None:
    """A1, A4: only what can be called now is named."""
    sample = sample_catalogs()["city"]
    for message in ("调用 maps_weather", "北京天气", "用高德地图查一下"):
        assert sample.intents.match(message, sample.tools, ready={"time"}).intent == "none"
        assert sample.intents.match(message, sample.tools, ready=["time", "amap-maps"]).server == "amap-maps"


def test_at_most_as_many_tools_as_asked_for() -> None:
    sample = sample_catalogs()["city"]
    assert [len(sample.match("用高德地图", limit).tools) for limit in (0, 1, 3, 100)] == [0, 1, 3, 12]


def test_another_list_is_not_taken_for_one_that_is_kept() -> None:
    """Lists are kept by identity and held; a list that may change is read each time."""
    sample = sample_catalogs()["seed"]
    intents = IntentMatcher([ServerWords("weather", "weather"), ServerWords("legal-example", "legal")])
    changing = list(sample.tools)
    assert intents.match("call air_quality", changing).intent == "mcp"
    changing[:] = [one for one in changing if one.own_name != "air_quality"]
    assert intents.match("call air_quality", changing).intent == "none"
    for at in range(100):
        renamed = tuple(replace(one, own_name=f"{one.own_name}_{at}") for one in sample.tools)
        assert _names(intents.match(f"call air_quality_{at}", renamed)) == [f"weather.air_quality_{at}"]
    assert "32 lists ready" in repr(intents)
