"""Edit distances between terms. Bounded: few candidates, small distances."""

from typing import Final

_ENDS_ENOUGH: Final = 3


def distance_allowed(term: str) -> int:
    """Return how many slips a word of this length may have."""
    return 0 if len(term) < 4 else 1 if len(term) < 8 else 2


def edit_distance(one: str, two: str, most: int) -> int | None:
    """Return the number of slips between the words, if at most `most`.

    A slip is a letter too many, missing or wrong, or two swapped. Optimal string alignment, one row at a time.
    """
    if abs(len(one) - len(two)) > most or len(set(one) ^ set(two)) > 2 * most:
        return None
    before: list[int] = []
    row = list(range(len(two) + 1))
    for at, letter in enumerate(one, 1):
        earlier, before, row = before, row, [at]
        for to, other in enumerate(two, 1):
            cost = before[to - 1] + (letter != other)
            if cost > before[to] + 1:
                cost = before[to] + 1
            if cost > row[to - 1] + 1:
                cost = row[to - 1] + 1
            if at > 1 < to and letter == two[to - 2] and one[at - 2] == other and cost > earlier[to - 2] + 1:
                cost = earlier[to - 2] + 1
            row.append(cost)
        if min(row) > most:
            return None
    return row[-1] if row[-1] <= most else None


def extends(term: str, whole: str) -> bool:
    """Tell whether `whole` begins or ends with `term` and is longer by three letters or more: haul, haulingbuddies."""
    return len(whole) >= len(term) + _ENDS_ENOUGH and (whole.startswith(term) or whole.endswith(term))
