"""Requests to a server where something is to be done, each class in several spellings, and what only looks like one."""

from typing import Final

import pytest

from aggregator.intent.match.intent import IntentMatcher, ServerWords
from tests.intent.message_table import tool

SERVERS: Final = {
    "github": ("GitHub", ("create_issue", "list_issues")),
    "notion": ("Notion", ("create_page", "search", "API-post-page")),
    "exa": ("Exa", ("web_search_exa", "web_fetch_exa")),
    "eks": ("EKS", ("get_pod_logs", "apply_yaml")),
    "phone": ("Phone", ("call", "make_call", "message")),
    "calendar": ("Calendar", ("day", "done", "list_events")),
    "slack": ("Slack", ("post_message", "done")),
}
TOOLS: Final = tuple(tool(server, server, name) for server, (_, names) in SERVERS.items() for name in names)
INTENTS: Final = IntentMatcher([ServerWords(server, server, said) for server, (said, _) in SERVERS.items()])

CALLS: Final = (
    "eks 的 get_pod_logs",
    "eks的get_pod_logs",
    "eks 里的 get_pod_logs",
    "eks 中 get_pod_logs 看一下",
    "github 的 create_issue 建一个",
    "notion 里新建一页",
    "notion里新建一页",
    "在 notion 里新建一页",
    "在 notion 中创建一个页面",
    "去 notion 里加一条记录",
    "到 notion 上写一篇笔记",
    "notion 上新建页面",
    "slack 里发一条消息",
    "在 slack 上发条消息给小王",
    "github 上建个 issue",
    "search with exa for cats",
    "Have exa read this page",
    "Make exa read this page",
    "close the github issue about dark mode",
    "Restart the eks pod web-1",
    "Show me all our open github issues sorted by age",
    "pull up the eks logs for the last hour",
    "Create a new github issue for the login page",
    "do a quick exa search on heat pumps",
    "Execute the query below against eks please",
    "give me the latest slack messages in #ops",
    "Pull the last ten errors out of eks for me",
    "Get me the open requests off github",
    "Push this file to github on a new branch",
    "Put a line into the notion board with the sales",
    "Check github whether the build is done",
    "Open the login page with exa and read it",
    "What's in our notion right now?",
    "Any new bugs in github since yesterday?",
    "How many pods run in eks at the moment?",
    "在 notion 里给张三建一页",
    "看下 eks 上的应用日志",
    "eks 里现在有几个 pod？",
    "Welche Pods laufen gerade in eks?",
    "Gibt es neue Fehler in github?",
    "Quels pods tournent sur eks en ce moment ?",
    "Dis à exa de chercher des chats",
    "Envoie ce rapport vers notion",
    "Pídele a exa que lea este párrafo",
    "¿Qué tareas abiertas hay en github?",
    "Sube este archivo a github",
    "search with exa for papers about llms",
    "look up cats with exa",
    "find papers with exa about cats",
    "search exa for cats",
    "search for cats with exa",
    "create a page with notion about cats",
    "create a page in notion",
    "create an issue on github",
    "post a message in slack: hello",
    "use exa to search for cats",
    "search github for issues about cats",
    "list the pods in eks",
    "fetch the page with exa please",
    "search using exa for cats",
    "search via exa for cats",
    "帮我在notion里建一页",
    "notion 里帮我建一页",
    "用 notion 新建一页",
    "can you search github for issues about memory",
    "please create a page in notion called Ideas",
    "请在notion里新建一页",
    "麻烦你在 notion 里面添加一条",
    "github 里搜一下 issue",
    "exa 里查一下猫",
    "check slack for messages from Ann",
)
NONE: Final = (
    "Delete the github paragraph from my essay",
    "Compare the github issues of both tools",
    "Show me the github logo",
    "The github issue from yesterday is still open",
    "draw the eks pods as boxes",
    "Make github sound less corporate",
    "Open source alternatives to notion?",
    "Remember the github project we talked about",
    "Create a github joke about branches",
    "update the notion section of my resume",
    "call me when you are done",
    "call me back later",
    "call it a day",
    "let's call it a day",
    "call it done",
    "let us call it quits",
    "call us when it is ready",
    "give me a call",
    "call her tomorrow",
    "call it what you like",
    "call me Ishmael",
    "use it or lose it",
    "run it by me",
    "I call it day",
    "call that done",
    "we call it a night",
    "please call me once the message is sent",
    "call me maybe",
    "call it off",
    "call the day off",
    "run for your life",
    "let it be done",
    "use your day well",
    "search with care",
    "open with a joke",
    "book a day off with Anna",
    "find it with ease",
    "notion of time",
    "exa is a prefix",
    "I have a notion",
    "搜一下这个概念",
    "eks 是什么",
    "notion 里有什么",
    "notion 里的页面很多",
    "eks 的文档在哪",
    "我在 notion 里写了一页",
    "昨天在 notion 里新建了一页",
    "eks 的价格",
    "notion 好用吗",
    "search with exa is slow",
    "What is trending in github this week",
    "What's new in github this month?",
    "How many people work on github now?",
    "What jobs are there at github right now?",
    "Have github ever been down this long",
    "My logs on github are gone",
    "看看 github 上的教程",
    "github 里现在有人用吗",
    "Gibt es Alternativen zu github?",
    "Gibt es einen neuen CEO bei github?",
    "Welche Vorteile hat github heute noch?",
    "Combien coûte github actuellement ?",
    "¿Hay alternativas a github?",
    "Busca alternativas a github",
    "¿Cuánto cuesta github ahora?",
    # Nothing but the word before `using` says that these tell.
    "keep using exa tools",
    "not using exa tools",
    "tired of using exa tools",
    "trouble using the notion tools",
    "how do I search with exa for cats",
    "why does search with exa for cats fail",
    "don't search with exa for cats",
    "please don't search with exa for cats",
    "please do not create a page in notion",
    "could you not search with exa this time",
    "could you please stop using exa",
    "and never create a page in notion again",
    "Erstelle in notion keine Seite",
    "write a post about github",
    "create an account on github",
    "explain how to create a page in notion",
    "I create a page in notion every day",
    "translate: create a page in notion",
    "we search github for issues",
    "create a page in notion was the plan",
    "open an issue on github is what he said",
    "never search github for issues",
    "不要在 notion 里新建一页",
    "怎么在 notion 里新建一页",
    "notion 里新建一页要多久",
    "notion 里怎么新建一页",
    "notion 里不要新建页面",
    "他在 notion 里新建一页",
    "翻译：在 notion 里新建一页",
)


@pytest.mark.parametrize("message", CALLS)
def test_a_server_named_as_place_or_means_is_asked_for(message: str) -> None:
    """The tools are those of that server, with the tool that is named first."""
    found = INTENTS.match(message, TOOLS, 5)
    assert found.intent == "mcp"
    (server,) = (name for name in SERVERS if name in message.lower())
    assert {one.server for one in found.tools} == {server}
    if "get_pod_logs" in message:
        assert found.tools[0].own_name == "get_pod_logs"


@pytest.mark.parametrize(
    ("message", "server"),
    [
        ("please search with exa, don't guess", "exa"),
        ("please don't wait: search with exa for cats", "exa"),
        ("create a page in notion, not in github", "notion"),
        ("don't guess, search with exa for cats", "exa"),
        ("Erstelle in notion eine Seite, keine Liste", "notion"),
    ],
)
def test_a_refusal_of_something_else_is_none_of_the_call(message: str, server: str) -> None:
    found = INTENTS.match(message, TOOLS, 5)
    assert {one.server for one in found.tools} == {server}


@pytest.mark.parametrize("message", NONE)
def test_an_idiom_a_question_or_a_report_is_no_call(message: str) -> None:
    assert INTENTS.match(message, TOOLS, 5).intent == "none"


PARTS: Final = {
    "brave-search": ("brave_web_search", "brave_news_search"),
    "aws-labs-cloudwatch": ("get_alarms", "list_metrics"),
    "aws-labs-network": ("list_vpcs",),
    "atlassian": ("jira_search", "jira_get_issue", "jira_add_comment", "confluence_search"),
    "firecrawl": ("firecrawl_find_tools",),
}
IN_PART: Final = tuple(tool(server, server, name) for server, names in PARTS.items() for name in names)
PART_INTENTS: Final = IntentMatcher([ServerWords(server, server) for server in PARTS])


@pytest.mark.parametrize(
    ("message", "server"),
    [
        ("search with brave for cats", "brave-search"),
        ("ask brave for the latest news", "brave-search"),
        ("用 brave 搜一下猫", "brave-search"),
        ("check cloudwatch for alarms", "aws-labs-cloudwatch"),
        ("search jira for open bugs", "atlassian"),
    ],
)
def test_a_part_of_a_name_stands_for_the_only_server_that_has_it(message: str, server: str) -> None:
    assert PART_INTENTS.match(message, IN_PART).server == server


@pytest.mark.parametrize(
    "message",
    [
        "use brave words",
        "it takes a brave heart to search",
        # Two servers have it; it is a word of every day; too few tools begin with it.
        "search with aws for cats",
        "search with network for cats",
        "search with confluence for cats",
        "can you find me a good recipe?",
    ],
)
def test_a_part_that_says_little_stands_for_no_server(message: str) -> None:
    assert PART_INTENTS.match(message, IN_PART).intent == "none"
