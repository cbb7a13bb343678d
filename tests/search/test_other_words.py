"""What is asked for in other words than the tools have: abbreviations, Chinese, everyday words, compounds."""

import pytest

from aggregator.catalog.search.index import SearchIndex
from aggregator.catalog.search.needs import needs
from aggregator.catalog.search.query import read
from aggregator.catalog.search.terms.language import abbreviations, segments, translations
from tests.search.sample_index import build_index, found, tool

TOOLS = (
    tool("cluster.list_pods", "Lists the pods of Kubernetes."),
    tool("speech.synthesize", "Turns text to speech, with a voice of choice."),
    tool("code.create_pull_request", "Opens a pull request on GitHub."),
    tool("bus.peek", "Shows what is in the dead letter queue."),
    tool("charts.generate_pie_chart", "Draws a pie chart."),
    tool("charts.generate_bar_chart", "Draws a bar chart."),
    tool("home.switch_light", "Turns a light in a room on or off."),
    tool("home.set_air_conditioner", "Sets an air conditioner."),
    tool("net.speed_test", "Measures the speed of the network."),
    tool("chat.feishu_send", "Sends a message with Feishu."),
    tool("blog.blame", "Tells the author of each line of a file."),
    tool("old.db_ec2_status", "Tells the state of EC2 and of the db."),
)
INDEX = build_index(*TOOLS)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("k8s", "cluster.list_pods"),
        ("tts", "speech.synthesize"),
        ("open a PR", "code.create_pull_request"),
        ("gh", "code.create_pull_request"),
        ("DLQ", "bus.peek"),
        ("database", "old.db_ec2_status"),
        ("饼图", "charts.generate_pie_chart"),
        ("柱状图", "charts.generate_bar_chart"),
        ("关灯", "home.switch_light"),
        ("把空调打开", "home.set_air_conditioner"),
        ("测一下网速", "net.speed_test"),
        ("用飞书发消息", "chat.feishu_send"),
        ("who wrote this line", "blog.blame"),
    ],
)
def test_a_tool_is_found_by_other_words(query: str, first: str) -> None:
    assert found(INDEX, query)[0] == first


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("制作", ["papers.generate", "papers.make"]),
        ("卖", ["shop.offer", "shop.sell"]),
        ("制作报告", ["papers.generate", "papers.make"]),
    ],
)
def test_a_chinese_word_finds_what_means_the_same(query: str, expected: list[str]) -> None:
    """In Chinese and in English; the word itself is in no tool."""
    index = build_index(
        tool("papers.generate", "生成报告。"),
        tool("papers.make", "Generates a report."),
        tool("shop.offer", "出售商品。"),
        tool("shop.sell", "Sells goods."),
        tool("sky.today", "天气预报。"),
    )
    assert sorted(found(index, query)) == expected


@pytest.mark.parametrize(
    ("query", "share"),
    [("compos", (0.3, 0.4)), ("compositon", (0.15, 0.25)), ("compsition", (0.38, 0.5)), ("composition", (1, 1))],
)
def test_how_much_a_part_of_a_word_or_a_slip_counts(query: str, share: tuple[float, float]) -> None:
    """Against the whole word: its beginning somewhat less than one slip, two slips half of one."""
    index = build_index(tool("music.play", "Plays a composition."), tool("sky.today", "The weather."))
    (whole,), (hit,) = (index.search(asked, lambda _: True, 10) for asked in ("composition", query))
    assert share[0] <= hit.score / whole.score <= share[1]


def test_one_sign_of_another_word_finds_nothing() -> None:
    index = build_index(tool("files.map", "生成地图。"), tool("files.form", "填写表格。"))
    assert found(index, "企图") == []
    assert found(index, "地图") == ["files.map"]


def test_a_word_written_as_two_counts_once_where_a_tool_has_it_whole() -> None:
    index = build_index(
        tool("gitlab.create_milestone", "Creates a milestone."),
        tool("gitlab.create_issue", "Creates an issue in GitLab with git and lab."),
    )
    assert found(index, "GitLab create milestone")[0] == "gitlab.create_milestone"


def test_chinese_is_parted_so_that_the_fewest_signs_stay_unread() -> None:
    known = {"本地", "地图", "图片"}
    assert segments("一张本地图片", known) == [("一", False), ("张", False), ("本地", True), ("图片", True)]
    assert segments("", known) == []


def test_the_places_of_a_translation_of_several_words() -> None:
    assert translations().places["饼图"] == (("pie",), ("chart",))
    assert abbreviations().places["dlq"][0] == ("dlq", "dead")


def test_what_a_query_needs_is_told_in_its_own_words() -> None:
    text = "请帮我把“张三”加到 GitHub 的飞书群里"
    assert [need.shown for need in needs(text, read(text))] == ["GitHub", "飞书", "群里"]


def test_an_empty_index_has_no_other_words() -> None:
    assert found(SearchIndex(), "k8s") == []
