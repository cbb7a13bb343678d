"""What a search says of its own answer: which tools of it fit, and that none does."""

import subprocess
import sys

import pytest

from aggregator.catalog.search.index import SearchIndex, search
from aggregator.catalog.search.needs import needs
from aggregator.catalog.search.query import read
from aggregator.catalog.search.relevance import Relevance, ToolLikeness, check_relevance
from aggregator.catalog.search.visible import VisibleTools
from tests.search.sample_index import build_index, gate, tool

TOOLS = (
    tool("git.create_branch", "Creates a branch in a repository."),
    tool("git.list_branches", "Lists the branches of a repository."),
    tool("git.create_issue", "Opens an issue in the tracker of a repository."),
    tool("db.run_query", "Runs a SQL query on a database."),
    tool("db.list_tables", "Lists the tables of a database, in order of their size."),
    tool("web.take_screenshot", "Takes a screenshot of a web page."),
    tool("web.search", "Searches the web and returns pages."),
    tool("cluster.get_pods", "Lists the pods of a Kubernetes cluster."),
    tool("cluster.read_logs", "Reads the logs of a pod."),
)


def _visible(*left_out: str) -> VisibleTools:
    return build_index(*TOOLS).visible_to(lambda tool: tool.server not in left_out)


def _judge(query: str, visible: VisibleTools) -> Relevance:
    return check_relevance(visible, query, [hit.tool.name for hit in search(visible, query, 100)])


@pytest.mark.parametrize(
    "query",
    [
        "create a branch",
        "list branches of the repository",
        "run a SQL query",
        "k8s pods",
        "take a screenshot",
        "新建分支",
        "查看日志",
        "get_pods",
        "git",
    ],
)
def test_a_request_that_a_tool_serves_is_not_called_weak(query: str) -> None:
    assert not _judge(query, _visible()).weak


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("order a pizza with extra cheese", '"pizza"'),
        ("book a table in a restaurant for tonight", '"restaurant"'),
        ("take the dog to the vet", '"dog"'),
        ("查一下去三亚的机票", '"机票"'),
        ("创建一份披萨外卖订单", '"披萨"'),
    ],
)
def test_a_request_that_no_tool_serves_is_called_weak_by_the_words_that_are_missing(query: str, missing: str) -> None:
    weak = _judge(query, _visible()).weak
    assert weak.startswith("weak matches: no tool")
    assert missing in weak
    assert "\n" not in weak


def _like(screenshot: float) -> ToolLikeness:
    return ToolLikeness({"web.take_screenshot": screenshot, "web.search": 0.2})


def test_a_tool_that_means_the_same_in_other_words_is_not_called_weak() -> None:
    """Proves: F5. Likeness counts beside the words: it neither outweighs none nor stands alone."""
    visible, query = _visible(), "grab a picture of what the browser displays"
    names = ["web.take_screenshot", "web.search", "git.list_branches", "cluster.get_pods"]
    assert check_relevance(visible, query, names).weak
    assert not check_relevance(visible, query, names, _like(0.6)).weak
    assert check_relevance(visible, query, names, _like(0.1)).weak
    assert check_relevance(visible, query, names, ToolLikeness({"cluster.get_pods": 0.9})).weak, (
        "it is not among the first"
    )


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("cancel my order", '"order"'),
        ("cancel the membership", '"membership"'),
        ("approve the vacation", '"vacation"'),
        ("apply for a mortgage", '"mortgage"'),
    ],
)
def test_an_action_alone_does_not_make_a_tool_fit(query: str, missing: str) -> None:
    """However well the tool says it: what it does that with decides."""
    shelves, _ = gate()
    jobs = tool("jobs.cancel", "Cancels a run of a job."), tool("jobs.approve", "Approves a job.")
    visible = SearchIndex.of([*shelves, ("jobs", "jobs", jobs)]).visible_to(lambda _: True)
    assert missing in _judge(query, visible).weak
    assert not _judge("cancel the job", visible).weak
    assert not _judge("approve", visible).weak, "a query of actions alone asks for them"


def test_a_weak_answer_shows_five_tools_at_most() -> None:
    rules = [tool(f"git.approve_{what}", "Approves it.") for what in "abcdefgh"]
    judged = _judge("approve the vacation of my colleague", build_index(*rules, *TOOLS).visible_to(lambda _: True))
    assert judged.weak
    assert judged.fitting == 5


@pytest.mark.parametrize(
    ("query", "screenshot", "weak"),
    [
        ("fais une capture de la page", 0.4, ""),
        ("fais une capture de la page", 0.1, "weak matches: no tool is much like this request."),
        ("une capture de la page dans Trello", 0.4, '"trello"'),
        ("take_screenshot", 0.1, ""),
    ],
)
def test_words_of_another_language_do_not_judge(query: str, screenshot: float, weak: str) -> None:
    """Likeness alone does; a product or a tool that is named counts in every language."""
    names = ["web.take_screenshot", "web.search", "git.list_branches"]
    alone = ToolLikeness({"web.take_screenshot": screenshot, "web.search": 0.05}, alone=True)
    judged = check_relevance(_visible(), query, names, alone).weak
    assert weak in judged if weak else not judged


def test_other_scores_than_those_by_keywords_tell_which_tools_fit() -> None:
    names = ["web.take_screenshot", "web.search", "git.list_branches", "cluster.get_pods"]
    scores = dict(zip(names, (2.0, 1.1, 0.9, 0.1), strict=True))
    judged = check_relevance(_visible(), "take a screenshot", names, None, scores)
    assert judged == Relevance(2)


def test_only_the_tools_that_the_agent_sees_count() -> None:
    assert not _judge("screenshot of a page", _visible()).weak
    assert '"screenshot"' in _judge("screenshot of a table", _visible("web")).weak


def test_only_tools_with_a_good_share_of_the_best_score_fit() -> None:
    visible = _visible()
    found = search(visible, "create a branch in the repository", 100)
    judged = _judge("create a branch in the repository", visible)
    assert 1 <= judged.fitting < len(found)
    assert _judge("xyzzy", visible) == Relevance(0)


@pytest.mark.parametrize(
    ("query", "missing"),
    [
        ("create an issue in Trello", '"trello"'),
        ("list my dropbox branches", '"dropbox"'),
        ("list the tables of the database in Linear", '"linear"'),
        ("search the web on Google Drive for pages", '"google drive"'),
        ("take a screenshot of the page on booking.com", '"booking com"'),
        ("列出微信的分支", '"微信"'),
    ],
)
def test_a_product_that_no_tool_found_has_makes_an_answer_weak(query: str, missing: str) -> None:
    """However many of the other words a tool has."""
    weak = _judge(query, _visible()).weak
    assert weak.startswith("weak matches: no tool that fits has")
    assert missing in weak


@pytest.mark.parametrize(
    "query",
    [
        "list the tables of a linear database",
        "create an issue that says `move to Trello`",
        "search the web for “微信”",
        "create a branch in the git repository",
    ],
)
def test_what_is_quoted_or_written_small_is_no_product(query: str) -> None:
    assert not _judge(query, _visible()).weak


def test_a_tool_that_has_the_product_or_a_longer_word_for_it_serves_it() -> None:
    index = build_index(
        tool("slack.post_message", "Posts a message to a channel."),
        tool("mail.send_mail", "Sends a message with the SendGridMail service."),
    )
    visible = index.visible_to(lambda _: True)
    assert not _judge("post a message on Slack", visible).weak
    assert not _judge("send a message with SendGrid", visible).weak
    assert '"telegram"' in _judge("post a message on Telegram", visible).weak


def test_the_tool_that_has_the_product_is_the_one_that_must_fit() -> None:
    """Not another one that has the rest of the words."""
    updates = tool("watch.update_monitor", "Updates a monitor of a site: pauses it or goes on.")
    lists = tool("hosts.list_hosts", "Lists the hosts that Datadog watches.")
    visible = build_index(*TOOLS, updates, lists).visible_to(lambda _: True)
    assert _judge("pause the monitor in Datadog", visible).weak
    assert not _judge("pause the monitor", visible).weak
    assert not _judge("list the hosts in Datadog", visible).weak


def test_a_judgement_does_not_depend_on_what_was_asked_before() -> None:
    """After the search, after another one, of some of the tools, and by vectors: as of tools that were never asked."""
    shelves, questions = gate()
    index = SearchIndex.of(shelves)
    asked = index.visible_to(lambda tool: True)
    for at, (query, _) in enumerate(questions):
        names = [hit.tool.name for hit in search(asked, query, 200)]
        alike = {name: 1 / place for place, name in enumerate(names, 1)}
        likes = ToolLikeness(alike, alone=at % 2 == 0) if at % 3 == 0 else None
        if at % 5 == 0:
            check_relevance(asked, questions[at - 1][0], names)
        for part in (names, names[::-1], names[1:9], names):
            fresh = check_relevance(index.visible_to(lambda tool: True), query, part, likes)
            assert check_relevance(asked, query, part, likes) == fresh, query


@pytest.mark.parametrize("query", ["weather tomorrow", "weather on Monday", "明天天气", "weather"])
def test_a_moment_is_the_value_of_an_argument_and_no_need(query: str) -> None:
    visible = build_index(*TOOLS, tool("maps.get_weather", "查一个城市今后几天的天气")).visible_to(lambda _: True)
    assert search(visible, query, 1)[0].tool.name == "maps.get_weather"
    assert not _judge(query, visible).weak


def test_a_moment_alone_is_still_what_is_asked_for() -> None:
    assert [need.shown for need in needs("tomorrow", read("tomorrow"))] == ["tomorrow"]
    assert [need.shown for need in needs("meet tomorrow", read("meet tomorrow"))] == ["meet"]


# After the tables are read, queries of each language are asked, and what is opened is told.
_FIRST_QUERIES = """
import sys
from aggregator.catalog.search.index import search
from aggregator.catalog.search.relevance import check_relevance, read_tables
from tests.search.sample_index import build_index, everything, tool

index = build_index(tool("a.get_thing", "Gets a thing."))
read_tables()
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
queries = "how tall is it in Trello|wie hoch|supprime le fichier|borra el archivo|删除东西|天気 GitLab k8s"
for query in queries.split("|"):
    visible = index.visible_to(everything)
    check_relevance(visible, query, [hit.tool.name for hit in search(visible, query, 9)])
print(opened)
"""


def test_no_query_waits_for_tables_that_were_read_before() -> None:
    done = subprocess.run([sys.executable, "-c", _FIRST_QUERIES], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
