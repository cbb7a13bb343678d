"""The verbs that begin tool descriptions: they identify the sentence that states the purpose."""

from typing import Final

_VERBS_AS_TEXT: Final = """
abort accept access acknowledge activate add adjust aggregate allocate allow analyse analyze annotate answer
append apply approve archive ask assign associate attach audit authenticate authorize autofix automate backup
batch begin block book bookmark browse build bulk calculate call cancel capture cast change chart chat check
choose classify clean cleanup clear click clone close collect comment commit compare compile complete compose
compress compute configure confirm connect control convert copy count crawl create crop customize deactivate
debug decode decrypt define delete demonstrate deploy describe deselect destroy detach detect determine diagnose
diff disable discard disconnect discover dismiss display download drag draw drop dump duplicate echo edit embed
emulate enable encode encrypt end enrich enumerate erase estimate evaluate examine execute expand explain
explore export extend extract favorite fetch fill filter find finish fix follow force forecast fork format
forward freeze gather generate get give go grant group handle hide highlight hover identify import improve
increase index infer inform initialize initiate insert inspect install integrate interact invite invoke isolate
issue join kill label launch leave like link list load locate lock log look lookup make manage map mark match
measure merge migrate modify monitor move mute navigate normalize notify obtain open optimize order organize
parse patch pause peek perform pin place plan play poll post predict preview print process produce promote
prompt propose protect provide provision publish pull purchase purge push put query queue read rebase recall
receive recognize recommend reconnect record recover redirect refresh regenerate register reject release reload
remove rename render reopen reorder repair replace reply report request require rescan reserve reset resize
resolve respond restart restore restrict resume retrieve retry return revert review revoke rewrite rollback
rotate run sample save scale scan schedule scrape scroll search see select send set setup share show shut sign
simulate sketch skip snapshot sort speak split star start stop store stream submit subscribe suggest summarise
summarize suspend swap switch sync synchronize synthesize tag take tell terminate test toggle trace track train
transcribe transfer transform transition translate trigger trim turn type unapprove unassign undo unfavorite
unfollow uninstall unlink unlock unmerge unpin unprotect unregister unshare unstar unsubscribe update upgrade
upload upsert use validate verify view visualize vote wait watch withdraw wrap write zoom
"""
VERBS: Final = frozenset(_VERBS_AS_TEXT.split())


def is_verb(word: str) -> bool:
    """Tell whether a word, in small letters, is one of the verbs: `list`, `lists`, `queries` and `listing` are."""
    return bool(_forms(word) & VERBS)


def is_third_person(word: str) -> bool:
    """Tell whether a word is a verb in the third person: `lists`."""
    return word.endswith("s") and word not in VERBS and bool(_forms(word) & VERBS)


def _forms(word: str) -> set[str]:
    forms = {word}
    if word.endswith("ies"):
        forms.add(f"{word[:-3]}y")
    if word.endswith("s"):
        forms |= {word[:-1], word[:-2]}
    if word.endswith("ing") and len(word) > 5:
        forms |= {word[:-3], f"{word[:-3]}e", word[:-4]}
    return forms
