"""The words that labels are proposed by: the words of names, descriptions and parameters that show a tool's effect.

Names are split into words in lower case and without a plural `s`. A word counts by its usual sense in the catalogs in
use; no word is certain.
"""

import re
from typing import Final

_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\x00-\x7f]+")
_LONGEST: Final = 2_000


def _these(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Actions. A tool without any of these counts as one that reads.
READING: Final = _these(
    "get read list search find fetch query show view describe download export scrape crawl extract browse open peek "
    "snapshot screenshot lookup retrieve tail grep inspect analyze summarize summarizer research parse transcribe dump "
    "select recommend check trace detect explain validate compare count preview map"
)
WRITING: Final = _these(
    "create add update edit write set put insert upsert delete remove drop modify move rename copy replace append "
    "clear merge approve unapprove close resolve reopen assign unassign transition protect unprotect start stop run "
    "execute trigger cancel retry play scale deploy install uninstall upgrade enable disable configure manage register "
    "patch apply revert restore lock unlock mark archive favorite unfavorite subscribe unsubscribe save clone fork "
    "promote build test send post publish push upload share reply forward notify invite submit import sync attach "
    "link unlink toggle generate simulate format batch bulk click type fill press hover drag resize navigate migrate "
    "rollout rescan discard init setup cleanup purge kill terminate reset lift cherry pick sort transform hide seek "
    "customize highlight convert forward promote restart"
)
# What sends something to others by itself.
SENDING: Final = _these(
    "send publish push upload share notify invite tweet broadcast dispatch submit email sms outbound webhook"
)
# The same, if the name begins with it; elsewhere it is a thing.
SENDING_FIRST: Final = _these("post comment message mail reply call forward dm")
# What changes something and carries no text of the caller's.
BARE: Final = _these(
    "delete remove drop clear purge unfavorite unlink cancel stop approve unapprove move assign sprint emoji reaction "
    "watcher restriction"
)
# Things read, if a name ends with it.
READ_LAST: Final = _these("log output execution")
# Words of tools that run code or commands of the caller.
RUNNING: Final = _these("exec shell bash terminal repl evaluate eval dyno python powershell javascript")
RUNNING_PAIRS: Final = (
    ("run", "code"), ("execute", "code"), ("run", "command"), ("execute", "command"), ("run", "script"),
    ("execute", "script"), ("run", "process"), ("start", "process"),
)  # fmt: skip
# Words of browser tools, which send typed text to the open page.
SEEING: Final = _these("snapshot screenshot console network find content text tab html dom")
BROWSING: Final = _these("navigate click type fill press drop select goto interact")

# Words of tools that answer with a verdict, a number or advice rather than with the content examined.
CHECKING: Final = _these("validate check test compare count detect recommend explain trace lint ping")
# What runs a question about data, which is a read.
ASKING: Final = _these("query sql psql cypher promql insight card")

# Whose content strangers can write.
STRANGE: Final = _these(
    "web webpage website page internet html mail email inbox message comment note discussion thread issue "
    "ticket review pull pr mr wiki tweet feed news rss chat channel conversation forum article attachment transcript "
    "paper video github repository repo commit scrape crawl contact lead survey feedback "
    "readme release snippet gist post blog diff patch changelog worklog workitem"
)
# What others may not know.
PRIVATE: Final = _these(
    "file directory folder document workbook worksheet sheet cell range row record datatable vba "
    "mail email inbox message calendar contact customer user member order invoice payment "
    "billing cost issue ticket workitem secret credential key password env log memory entity graph observation "
    "note worklog commit code repository repo dashboard card blob kv "
    "employee patient snippet attachment wiki comment discussion thread conversation chat drive "
    "appsetting knowledge diff pull pr mr vulnerability alert artifact "
    "variable transcript recording profile identity data output todo execution"
)
# With one of these, a word means a part of a network or a machine.
MACHINERY: Final = _these(
    "cwan tgw vpc vpn eni vm vmss disk volume aks nodepool acr registry lustre subnetsize completion public embeddable"
)
# What is written where others see it.
SHOWN: Final = _these(
    "comment note issue ticket workitem discussion thread message review pull pr mr wiki tweet webhook reply post "
    "release snippet gist announcement invitation attachment emoji"
)
# Written with `public` beside it, it is open to all.
PUBLIC: Final = _these("public anonymous")
# Words for the description of a server or service rather than its content.
ABOUT: Final = _these(
    "schema type template version field status health help permission guidance practice model voice region location "
    "group stream remapping quota option capability language instruction explanation sku priority category statistic "
    "plan usage count subscription methodology metadata label transition parameter engine documentation doc catalog "
    "tool fk index"
)

# Texts of a first sentence that mean the same, if the name does not.
STRANGE_TEXTS: Final = re.compile(
    r"\b(?:web ?pages?|websites?|web search|the web|from the internet|the internet|search engine|emails?|inbox"
    r"|news articles?|chat messages?|incoming messages?|user comments?)\b",
    re.IGNORECASE,
)
PRIVATE_TEXTS: Final = re.compile(
    r"\b(?:sql query|your (?:files?|documents?|notes|calendar|contacts|account)|local files?"
    r"|mailbox|secrets?|credentials|customer data|personal data|knowledge graph)\b",
    re.IGNORECASE,
)
SENDING_TEXTS: Final = re.compile(
    r"\b(?:sends? (?:an?|the) (?:e-?mail|message|sms|text|notification|invitation|request to)|posts? (?:an?|the)"
    r" (?:message|comment|tweet)|uploads? (?:an?|the) (?:file|image|document)|http request|makes? (?:an?|the)"
    r" (?:\w+ )?(?:phone )?call to)\b",
    re.IGNORECASE,
)

# Parameters by which the caller says where to, and those with an address that is read from.
RECIPIENTS: Final = _these(
    "to recipient recipients cc bcc to_email email_to to_number phone_number webhook webhook_url callback_url chat_id "
    "channel channel_id to_addresses"
)
ADDRESSES: Final = _these("url urls website start_url page_url site target_url href")


# Products whose search and list tools return text written by users.
PRODUCTS: Final = _these(
    "jira confluence slack gmail outlook notion linear zendesk hubspot salesforce discord telegram whatsapp asana "
    "trello intercom"
)
# Two words that together are private.
PRIVATE_PAIRS: Final = (("kubectl", "get"), ("kubectl", "describe"))
# Two words that name one thing.
_TOGETHER: Final = {
    ("merge", "request"): "mr",
    ("pull", "request"): "pr",
    ("work", "item"): "workitem",
    ("e", "mail"): "email",
    ("web", "hook"): "webhook",
}


def words(name: str) -> tuple[str, ...]:
    """Return the words of a name: of `listIssueComments` and of `list_issue-comments` list, issue and comment."""
    found: list[str] = []
    for part in _PART.findall(name[:_LONGEST]):
        word = _singular(part.lower())
        together = _TOGETHER.get((found[-1], word)) if found else None
        if together is not None:
            found[-1] = together
        else:
            found.append(word)
    return tuple(found)


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes", "uses")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
