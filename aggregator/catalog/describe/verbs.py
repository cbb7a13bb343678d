"""The verbs that begin tool descriptions: they identify the sentence that states the purpose."""

from typing import Final

_VERBS_AS_TEXT: Final = """
abort accept access acknowledge activate add adjust aggregate allocate allow analyse analyze annotate answer append
apply approve archive ask assess assign assist associate attach audit authenticate authorize autofix automate
backup batch begin block book bookmark browse build bulk bump calculate call cancel capture cast change chart chat
check choose classify clean cleanup clear click clone close collect comment commit compare compile complete compose
compress compute configure confirm connect control convert copy count crawl create crop customize deactivate debug
decode decrement decrypt define delegate delete demonstrate deploy dequeue describe deselect destroy detach detect
determine diagnose diff disable discard disconnect discover dismiss dispatch display download drag drain draw drill
drop dump duplicate echo edit elicit embed emulate enable encode encrypt end enqueue enrich ensure enter enumerate
erase establish estimate evaluate evict examine execute expand explain explore export extend extract favorite fetch
fill filter find finish fix flush follow force forecast fork format forward freeze gather generate geocode get give
go grant group handle hash hide highlight hold hover identify import improve increase increment index infer inform
ingest initialize initiate inject insert inspect install instantiate integrate interact invite invoke isolate issue
join keep kill label launch learn leave like link lint list load locate lock log look lookup make manage map mark
match measure merge migrate mock modify monitor mount move mute navigate normalize notify obtain open optimize
order organize override paginate parse paste patch pause peek perform persist pick pin place plan play poll post
predict preload preview print process produce promote prompt propose protect provide provision prune publish pull
purchase purge push put quarantine query queue read rebase reboot recall receive recognise recognize recommend
recompute reconnect record recover redirect refresh regenerate register reindex reject release reload remember
remove rename render reopen reorder repair replace replicate reply report request require resample rescan reserve
reset resize resolve respond restart restore restrict resume retrieve retry return revert review revoke rewind
rewrite rollback rotate route run sample save scaffold scale scan schedule scrape scroll search see seed select
send serve set setup share show shuffle shut sign simulate sketch skip snapshot snooze solve sort speak specify
spin split stage star start step stitch stop store stream submit subscribe suggest summarise summarize suspend swap
swipe switch sync synchronize synthesize tag tail take tap tell terminate test toggle trace track train transcribe
transfer transform transition translate trigger trim tune turn type unapprove unarchive unassign uncomment undo
unfavorite unfollow uninstall unlink unlock unmerge unpin unprotect unpublish unregister unset unshare unstar
unsubscribe unwatch update upgrade upload upsert use vacuum validate verify view visualize vote wait wake walk warm
watch wipe withdraw wrap write zip zoom
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
