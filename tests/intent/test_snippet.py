"""What is put into the prompt for a match."""

from aggregator.domain.text.tokens import estimate
from aggregator.intent.match.intent import snippet
from tests.intent.message_table import sample_catalogs


def test_level_1_of_the_tools_and_nothing_more() -> None:
    """A5: name and one sentence a tool, no schema, and what it costs."""
    match = sample_catalogs()["seed"].match("帮我查一下天气")
    assert (
        snippet(match)
        == "[工具] weather.weather: 查询指定城市的天气信息\n[工具] weather.air_quality: 查询指定城市的空气质量"
    )
    assert 0 < estimate(snippet(match)) < 60


def test_nothing_for_nothing() -> None:
    """A4, A5: no intent, no text, no cost."""
    match = sample_catalogs()["seed"].match("写一首诗")
    assert snippet(match) == ""
    assert estimate(snippet(match)) == 0


def test_the_label_speaks_the_language_of_the_message() -> None:
    """A5: Chinese characters in the message make it Chinese; a caller may say otherwise."""
    sample = sample_catalogs()["city"]
    assert snippet(sample.match("call tavily_map")) == "[tool] tavily.tavily_map: Map the structure of a site"
    assert snippet(sample.match("调用 tavily_map")).startswith("[工具] tavily.tavily_map: ")
    assert snippet(sample.match("调用 tavily_map"), "en").startswith("[tool] ")
