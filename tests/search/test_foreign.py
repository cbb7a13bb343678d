"""Requests in other languages: their words meet no English word that is only written like them."""

import pytest

from aggregator.catalog.search.destructive import harmless_first, is_destructive
from aggregator.catalog.search.index import search
from aggregator.catalog.search.query import read
from aggregator.catalog.search.relevance import check_relevance
from aggregator.catalog.search.terms.foreign import foreign_language, glossary
from aggregator.catalog.search.terms.words import chunks
from aggregator.domain.records import ToolRecord
from tests.search.sample_index import build_index, everything, names, tool

TOOLS = (
    tool("phone.stop_all_apps", "Stops all apps that run on the device."),
    tool("phone.terminate_app", "Terminates an app on the device."),
    tool("phone.list_apps", "Lists the installed apps, the last opened one first."),
    tool("docs.create_document", "Creates a document."),
    tool("docs.suchen_index", "Rebuilds the index."),
    tool("git.create_repository", "Creates a repository, which the user owns."),
    tool("git.list_lies", "Lists what was told by lies and dossiers."),
    tool("music.play_composition", "Plays a composition and its parts."),
)
INDEX = build_index(*TOOLS)


def found(query: str) -> list[str]:
    return names(INDEX.search(query, everything, 10))


@pytest.mark.parametrize(
    "query",
    [
        "Termin",
        "Termine",
        "Lösche alle Nachrichten",
        "Loesche alle meine Termine",
        "ajoute un rendez-vous",
        "supprime tous les dossiers",
        "borra todos los mensajes",
        "cancella tutti i messaggi",
        "apague todas as mensagens",
        "verwijder alle berichten",
    ],
)
def test_a_foreign_word_meets_no_english_word_by_its_letters(query: str) -> None:
    """Neither by its beginning, nor by its stem, nor by the first letters of a name."""
    assert not {"phone.stop_all_apps", "phone.terminate_app", "git.list_lies"} & set(found(query))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("erstelle ein Dokument", "docs.create_document"),
        ("crée un dépôt: git repository", "git.create_repository"),
        ("crea un nuevo repositorio", "git.create_repository"),
        ("spiele die Komposition: composition", "music.play_composition"),
        ("stop_all_apps bitte", "phone.stop_all_apps"),
    ],
)
def test_what_both_languages_write_nearly_alike_is_found(query: str, expected: str) -> None:
    assert found(query)[0] == expected


def test_the_beginning_of_a_word_is_enough_in_english() -> None:
    assert found("compos")[0] == "music.play_composition"
    assert "phone.terminate_app" in found("termin the application")
    assert found("zeige mir bitte compos") == found("zeige mir bitte")


@pytest.mark.parametrize(
    ("query", "read_as"),
    [
        ("Lösche die Dateien im Ordner", "delete die file im directory"),
        # A compound; what the table lacks; an identifier.
        ("Starte bitte den Wartungsserver xyz_Datei", "start bitte den maintenance server xyz_Datei"),
        ("Affiche l'itinéraire et les fichiers d’erreur", "show directions et les file error"),
        ("Añade imágenes a las páginas del archivo", "add image a las page del file"),
        # A language without a glossary, and English.
        ("Mostrami tutte le righe della tabella", "Mostrami tutte le righe della tabella"),
        ("add a table to the document, ordinary size", "add a table to the document, ordinary size"),
        ("kubectl describe", "kubectl describe"),
    ],
)
def test_what_a_request_is_read_as(query: str, read_as: str) -> None:
    assert read(query).read_as == read_as


def test_a_word_stands_for_all_english_words_of_its_line() -> None:
    index = build_index(tool("docs.create_folder", "Creates a folder."), tool("docs.read", "Reads a file."))
    for query in ("Lege bitte einen Ordner an", "créer un nouveau dossier", "crea una carpeta nueva", "フォルダを作成"):
        assert names(index.search(query, everything, 10))[0] == "docs.create_folder"
        assert not check_relevance(index.visible_to(everything), query, ["docs.create_folder"]).weak
    assert check_relevance(index.visible_to(everything), "commander une pizza", ["docs.create_folder"]).weak


def test_the_glossaries_are_of_known_languages_and_say_something() -> None:
    known = {
        name for line in ("die", "le", "los") if (found := foreign_language([line, line])) for name in [found.name]
    }
    assert set(glossary()) == known == {"German", "French", "Spanish"}
    assert all(len(words) > 150 and all(map(all, words.values())) for words in glossary().values())


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Zeige mir die letzten Commits", "German"),
        ("Ferme le ticket Jira", "French"),
        ("Muestra las tablas", "Spanish"),
        ("Mostrami tutte le righe della tabella", "Italian"),
        ("Mostre os arquivos da pasta", "Portuguese"),
        ("Toon het weer van vandaag", "Dutch"),
        ("the weather in Los Angeles", None),
        ("find hotels near La Paz", None),
        ("create a repository", None),
        ("die roll", None),
        ("get_issue", None),
        ("", None),
    ],
)
def test_the_language_of_a_request(text: str, language: str | None) -> None:
    known = foreign_language([chunk.lower() for chunk in chunks(text)])
    assert (known.name if known else None) == language


def test_a_destructive_tool_is_not_the_first_of_a_weak_answer() -> None:
    """Only of a weak one, and only if another tool shares a word too."""
    deletes, reorders = (
        tool("shop.delete_order", "Removes an order."),
        tool("shop.print", "Reorders fields of a form."),
    )
    visible = build_index(deletes, reorders).visible_to(everything)

    def first(query: str) -> str:
        hits = [hit.tool for hit in search(visible, query, 10)]
        return harmless_first(visible, query, hits, None)[0].own_name

    pizza = "order a pizza with extra cheese"
    assert [hit.tool.own_name for hit in search(visible, pizza, 10)] == ["delete_order", "print"]
    assert check_relevance(visible, pizza, ["shop.delete_order", "shop.print"]).weak
    assert first(pizza) == "print"
    assert first("delete an order") == "delete_order"
    assert first("delete_order") == "delete_order"


def annotated(name: str, **hints: bool) -> ToolRecord:
    known = tool(f"all.{name}", "Does it.")
    return ToolRecord(
        **{
            **{slot: getattr(known, slot) for slot in ("server", "prefix", "own_name", "listed", "timeout")},
            "definition": {**known.definition, "annotations": hints},
        }
    )


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (annotated("delete_order"), True),
        (annotated("stopAllApps"), True),
        (annotated("kubectl_delete"), True),
        (annotated("get_stop_times"), False),
        (annotated("list_deleted_files"), False),
        *((annotated(f"{verb}_stop_orders"), False) for verb in ("get", "list", "read", "show", "search")),
        *((annotated(f"{verb}_stop_orders"), False) for verb in ("find", "describe", "fetch", "check", "query")),
        (annotated("format_text"), False),
        (annotated("apply", destructiveHint=True), True),
        (annotated("apply", destructiveHint=True, readOnlyHint=True), False),
        (annotated("delete_order", destructiveHint=False), True),
    ],
)
def test_what_is_destructive(record: ToolRecord, expected: bool) -> None:
    """The server's word that a tool is harmless does not count against the verb of its name."""
    assert is_destructive(record) is expected
