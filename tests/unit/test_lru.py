"""The bounded map that forgets what was used longest ago."""

from threading import Thread

from aggregator.domain.bounds.lru import LruCache


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    cache: LruCache[str, int] = LruCache(2)
    assert cache.put("a", 1) is None
    assert cache.put("b", 2) is None
    assert cache.get("a") == 1
    assert cache.put("c", 3) == 2
    assert list(cache) == ["a", "c"]
    assert (cache.get("b"), len(cache), cache.oldest()) == (None, 2, 1)


def test_a_look_alone_is_no_use() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.peek("a") == 1
    assert cache.put("c", 3) == 1


def test_a_value_is_replaced_and_counts_as_used() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.put("a", 10) is None
    assert list(cache.items()) == [("b", 2), ("a", 10)]
    assert (cache.pop("a"), cache.pop("a")) == (10, None)
    assert (cache.pop_oldest(), cache.pop_oldest(), cache.oldest()) == (2, None, None)
    cache.put("c", 3)
    cache.clear()
    assert len(cache) == 0


def test_threads_share_it() -> None:
    """No thread fails for what another one evicts, and the bound holds."""
    cache: LruCache[int, int] = LruCache(8)
    failures: list[BaseException] = []

    def use(start: int) -> None:
        try:
            for at in range(start, start + 20_000):
                cache.put(at % 13, at)
                cache.get((at + 5) % 13)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=use, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, len(cache) <= 8) == ([], True)
