"""Requests, refusals, questions and reports in seven languages, each around several names of tools and of servers."""

from typing import Final

import pytest

from aggregator.intent.match.intent import IntentMatcher, ServerWords
from aggregator.intent.match.languages import language_of
from aggregator.intent.match.text import read
from tests.intent.message_table import tool

SERVERS: Final = {
    "github": ("create_issue", "list_issues", "fork_repository"),
    "tavily": ("tavily_search", "tavily_map"),
    "kubernetes": ("kubectl_scale", "delete-pod"),
    "excel": ("create_sheet", "takeSheetPicture"),
    "write": ("read_file", "run_query"),
}
TOOLS: Final = tuple(tool(server, server, name) for server, names in SERVERS.items() for name in names)
INTENTS: Final = IntentMatcher([ServerWords(server, server) for server in SERVERS])
NAMES: Final = ("kubectl_scale", "delete-pod", "takeSheetPicture")

# Each with a name in place of {}.
ASKED: Final = (
    "can you do a {} for me?",
    "could you please do one more {}",
    "let's {} and see",
    "go ahead and {} the second one",
    "I'd like a {} of this",
    "fetch {} first",
    "do a quick {}",
    "then pipe the result into {}",
    "Any chance you could fire off {} for these towns",
    "Dann noch {} auf den Rest",
    "Merci d'exécuter {}",
    "{}으로 확인해 줄래요?",
    "Kannst du bitte {} auf die Aufnahme anwenden?",
    "Könntest du mal {} aufrufen?",
    "Bitte mit {} den Rest erledigen",
    "Führe {} für die letzte Stunde aus",
    "Mach ein {} von gestern",
    "Starte bitte {}",
    "Lass uns {} ausführen",
    "Ich möchte, dass du {} benutzt",
    "Frag doch {}, was da läuft",
    "Nimm für die Tabelle {}",
    "Lösch das mittels {}",
    "Peux-tu faire un {} de la page ?",
    "Pourrais-tu lancer {} s'il te plaît",
    "Est-ce que vous pourriez exécuter {} ?",
    "Veuillez utiliser {} pour cela",
    "Utilise {} pour trouver les quotas",
    "Exécute {}",
    "j'aimerais que tu appelles {}",
    "avec l'outil {}, ajoute le reste",
    "on va utiliser {}",
    "Donne-moi le résultat de {}",
    "¿Puedes hacer un {} de esto?",
    "Por favor, usa {} con el segundo",
    "quiero que llames a {}",
    "Utiliza la herramienta {} en casa",
    "vamos a probar {}",
    "lanza {} con el primero",
    "Ahora ejecuta {} en la columna",
    "¿Sería posible ejecutar {}?",
    "给我来一个 {}",
    "能不能用{}看看？",
    "{} 工具把这个词换掉",
    "{} を使って調べて",
    "{} を呼び出してもらえますか",
    "写真を {} で直してください",
    "まず {} をお願いします",
    "{}를 실행해 주세요",
    "이것을 {}로 읽어 줘",
    "먼저 {} 좀 호출해 줄래?",
)
NOT_ASKED: Final = (
    "please fix the typo in the description of {}",
    "please write a test for {}",
    "could you tell me whether {} needs a key?",
    "compare {} and another one for me",
    "please never run {} here",
    "the docs of {} are wrong",
    "we finished {} last week",
    "Can {} handle frames?",
    "running {} is slow",
    "the output of {} looked odd",
    "Ist {} gefährlich?",
    "Mi colega usa {} cada día",
    "{} は遅いですか",
    "{}는 이미 썼어",
    "{}에 갔어요",
    "Benutze auf keinen Fall {}",
    "Bitte benutze jetzt nicht {}",
    "Was macht {} eigentlich?",
    "Gestern habe ich {} aufgerufen",
    "Sie meinte: „Starte {}“, ich aber war dagegen",
    "Kannst du mir sagen, was {} zurückgibt?",
    "Es gibt ein Problem mit {}",
    "Kann {} auch das?",
    "Erkläre mir bitte {}",
    "N'utilise pas {}",
    "Que fait {} exactement ?",
    "Hier j'ai lancé {} sans succès",
    "Il m'a dit « utilise {} », mais je n'ai pas compris",
    "Pourquoi as-tu utilisé {} ?",
    "J'ai un problème avec {}",
    "Une erreur dans {} m'a coûté ma soirée",
    "No uses {}",
    "¿Qué hace {}?",
    "Ayer ejecuté {} y funcionó",
    "nunca ejecutes {} sin preguntar",
    "Tengo un problema con {}",
    "¿Me puedes explicar qué hace {}?",
    "请解释 {} 的实现原理",
    "先别调用 {}",
    "{} は使わないでください",
    "{} って何ですか",
    "昨日 {} を使った",
    "{} を使うと遅いです",
    "{}는 사용하지 마",
    "{}는 뭐 하는 거야?",
    "어제 {}를 실행했어",
    "{}가 느려요",
    "please rename my variable {} to x",
    "they pipe the result into {}",
    "explain the output of {} to me",
    "{} peut-il renvoyer plus de lignes ?",
    "{} 要传哪些参数？",
    "{} の違いは何？",
    "{} を呼び出すコードを書いて",
    "このコードの変数 {} を変えて",
    "{} の出力を説明して",
)
TO_A_SERVER: Final = {
    "Suche mit tavily nach Neuigkeiten": "tavily",
    "Nutze github, um etwas anzulegen": "github",
    "Erstelle in github ein Issue": "github",
    "Cherche avec tavily les dernières nouvelles": "tavily",
    "demande à github la liste": "github",
    "Busca con tavily las noticias": "tavily",
    "Usa github para abrir una incidencia": "github",
    "in github, fork the repository": "github",
    "with github, list what is open": "github",
    "in github, open a pull request from my branch": "github",
    "Could you have tavily dig up who won?": "tavily",
    "have github list everyone in the group": "github",
    "can you get tavily to read these pages": "tavily",
    "Could you put a comment on the github ticket about the login?": "github",
    "Kannst du tavily dafür nehmen?": "tavily",
    "Pourrais-tu utiliser tavily pour lire la page ?": "tavily",
    "¿puedes usar tavily para ver el precio?": "tavily",
    "¿me abres un ticket en github con este error?": "github",
    "I'd love for you to check github for open issues": "github",
    "Do me a favour and have tavily read this out": "tavily",
    "use the tavily thing to count them": "tavily",
    "peux-tu demander à tavily le total de mai ?": "tavily",
    "tavily で猫を検索して": "tavily",
    "tavily로 고양이를 찾아 줘": "tavily",
    # Many verbs, and any verb with its object at once.
    "Schau mal bei tavily nach, was es gibt": "tavily",
    "Leg mir bitte auf github etwas dafür an": "github",
    "Erhöhe die Zahl über kubernetes auf vier": "kubernetes",
    "Öffne excel und schreib die Summen": "excel",
    "Va chercher sur tavily les chiffres": "tavily",
    "Monte le nombre à quatre sur kubernetes": "kubernetes",
    "Tira de tavily las cifras": "tavily",
    "Recorre la documentación con tavily": "tavily",
    # What the order wants to know stands behind the name.
    "Prüfe in kubernetes, welche laufen": "kubernetes",
    "Regarde dans kubernetes quels pods plantent": "kubernetes",
    "Mira en kubernetes qué pods se caen": "kubernetes",
    # What the server says.
    "let's see what tavily says about rates": "tavily",
    "what does tavily say about rates?": "tavily",
    "give tavily a spin": "tavily",
    "how many are open, according to github?": "github",
    "Was sagt tavily zu den Zinsen?": "tavily",
    "Que dit tavily des taux ?": "tavily",
    "¿Qué dice tavily sobre los tipos?": "tavily",
    "看看 tavily 怎么说": "tavily",
    "tavily 对利率怎么看": "tavily",
    "金利について tavily は何と言ってる？": "tavily",
    # Where the verb stands in Chinese and Japanese.
    "tavily 搜一下利率": "tavily",
    "去 github 上提个 issue": "github",
    "把这三段存进 github": "github",
    "把 github 上的标签改成蓝色": "github",
    "看一眼 kubernetes 有没有告警": "kubernetes",
    "kubernetes のログを見てもらえる？": "kubernetes",
    "kubernetes から一覧を出して": "kubernetes",
    # The server itself is spoken to.
    "github: list my repositories": "github",
    "tavily example.com/docs and give me the text": "tavily",
}
NOT_TO_A_SERVER: Final = (
    "Such mir ein Buch über Kubernetes",
    "Ich suche einen Job bei Github",
    "Öffne das Github Konto",
    "Zeig mir, wie Github funktioniert",
    "Cherche-moi un cours sur Kubernetes",
    "Peux-tu me conseiller un livre sur kubernetes ?",
    "Mon chat s'appelle Github",
    "¿Puedes recomendarme un libro sobre kubernetes?",
    "quiero kubernetes para estudiar, ¿qué libro recomiendas?",
    "in github, everyone is nice",
    "Ruf mich an, wenn du fertig bist",
    "Appelle-moi quand c'est prêt",
    "Llámame cuando termines",
    "打电话给我",
    "끝나면 전화해 줘",
    "Chez nous tout le monde utilise github",
    "老板说以后都用 github",
    "本来想用 github，可是涨价了",
    "Kannst du mir ein Buch über kubernetes empfehlen?",
    "Schreib über kubernetes",
    "write a post on kubernetes",
    "draft an email on kubernetes training for the team",
    "schreib mir einen Absatz über kubernetes",
    "verfasse einen Aufsatz über github",
    "rédige un petit texte sur kubernetes",
    "escribe un párrafo sobre kubernetes",
    "kubernetes の歴史について作文を書いて",
    "in github, make sure that it works",
    "I'm not going to use tavily for that",
    "Lass uns morgen über kubernetes reden",
    "have github installed by tomorrow",
    "kubernetes のインストール方法を教えて",
    "write 'let github do it' on the board",
    "according to github, all is well",
    "what does github cost?",
    "查一下 kubernetes 怎么用",
    "let github be",
    "Lass github sein",
    "Mon chef a dit : « utilise github désormais »",
)
RUN_BELOW: Final = (
    "What does {} give? Run it.",
    "Was liefert {}? Bitte ausführen.",
    "这里该上 {}，跑一下没关的",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("frame", ASKED)
def test_a_request_in_any_language_is_a_call(frame: str, name: str) -> None:
    match = INTENTS.match(frame.format(name), TOOLS)
    assert [one.own_name for one in match.tools] == [name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("frame", NOT_ASKED)
def test_a_refusal_a_question_and_a_report_are_none(frame: str, name: str) -> None:
    match = INTENTS.match(frame.format(name), TOOLS)
    assert (match.intent, match.tools) == ("none", ())


@pytest.mark.parametrize("frame", RUN_BELOW)
def test_a_tool_is_run_if_the_next_clause_says_so(frame: str) -> None:
    match = INTENTS.match(frame.format("kubectl_scale"), TOOLS)
    assert [one.own_name for one in match.tools] == ["kubectl_scale"]
    assert INTENTS.match(f"Don't use kubectl_scale. {frame.format('nothing')}", TOOLS).intent == "none"


@pytest.mark.parametrize(("message", "server"), TO_A_SERVER.items())
def test_an_order_names_a_server_as_its_means(message: str, server: str) -> None:
    match = INTENTS.match(message, TOOLS)
    assert (match.rule in ("ask", "explicit"), match.server) == (True, server)


@pytest.mark.parametrize("message", NOT_TO_A_SERVER)
def test_what_only_speaks_of_a_server_is_no_order(message: str) -> None:
    assert INTENTS.match(message, TOOLS).intent == "none"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("kubectl_scale", "en"),
        ("", "en"),
        ("find me a list", "en"),
        ("was ist das", "de"),
        ("was it you", "en"),
        ("on va bien", "fr"),
        ("no lo sé", "es"),
        ("帮我看看", "zh"),
        ("日本語です", "ja"),
        ("한국어", "ko"),
        ("could you look_was_wie_nach_ob at it", "en"),
    ],
)
def test_the_language_is_told_by_its_small_words(message: str, code: str) -> None:
    assert language_of(read(message)).code == code
