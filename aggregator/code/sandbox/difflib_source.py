"""The module `difflib` for programs (`module_sources`): ratios, close matches, and diffs in three forms."""

from typing import Final

# As in CPython, the longest match is the one that begins first, and frequent items of long texts begin none.
DIFFLIB: Final = """
from collections import namedtuple as _difflib_named

_DifflibMatch = _difflib_named("Match", ["a", "b", "size"])

class _SequenceMatcher:
    def __init__(self, isjunk=None, a="", b="", autojunk=True):
        self.isjunk, self.autojunk = isjunk, autojunk
        self.a = self.b = None
        self.set_seqs(a, b)

    def set_seqs(self, a, b):
        self.set_seq1(a)
        self.set_seq2(b)

    def set_seq1(self, a):
        self.a, self._blocks, self._codes = a, None, None

    def set_seq2(self, b):
        self.b, self._blocks, self._codes, self._counts = b, None, None, None
        places = {}
        for at, one in enumerate(b):
            places.setdefault(one, []).append(at)
        self.bjunk = {one for one in places if self.isjunk(one)} if self.isjunk else set()
        self.bpopular = set()
        size = len(b)
        if self.autojunk and size >= 200:
            self.bpopular = {one for one, found in places.items()
                             if len(found) > size // 100 + 1 and one not in self.bjunk}
        self.b2j = {one: found for one, found in places.items()
                    if one not in self.bjunk and one not in self.bpopular}

    def find_longest_match(self, alo=0, ahi=None, blo=0, bhi=None):
        a, b, b2j, junk = self.a, self.b, self.b2j, self.bjunk
        ahi = len(a) if ahi is None else ahi
        bhi = len(b) if bhi is None else bhi
        best_a, best_b, best = alo, blo, 0
        lengths = {}
        for i in range(alo, ahi):
            new = {}
            for j in b2j.get(a[i], ()):
                if j < blo:
                    continue
                if j >= bhi:
                    break
                k = new[j] = lengths.get(j - 1, 0) + 1
                if k > best:
                    best_a, best_b, best = i - k + 1, j - k + 1, k
            lengths = new
        for of_junk in (False, True):
            while (best_a > alo and best_b > blo and (b[best_b - 1] in junk) == of_junk
                   and a[best_a - 1] == b[best_b - 1]):
                best_a, best_b, best = best_a - 1, best_b - 1, best + 1
            while (best_a + best < ahi and best_b + best < bhi and (b[best_b + best] in junk) == of_junk
                   and a[best_a + best] == b[best_b + best]):
                best += 1
        return _DifflibMatch(best_a, best_b, best)

    def get_matching_blocks(self):
        if self._blocks is not None:
            return self._blocks
        waiting, found = [(0, len(self.a), 0, len(self.b))], []
        while waiting:
            alo, ahi, blo, bhi = waiting.pop()
            i, j, k = match = self.find_longest_match(alo, ahi, blo, bhi)
            if k:
                found.append(match)
                if alo < i and blo < j:
                    waiting.append((alo, i, blo, j))
                if i + k < ahi and j + k < bhi:
                    waiting.append((i + k, ahi, j + k, bhi))
        joined = []
        for i, j, k in sorted([(one[0], one[1], one[2]) for one in found]):
            if joined and joined[-1][0] + joined[-1][2] == i and joined[-1][1] + joined[-1][2] == j:
                joined[-1][2] += k
            else:
                joined.append([i, j, k])
        self._blocks = [_DifflibMatch(i, j, k) for i, j, k in joined]
        self._blocks.append(_DifflibMatch(len(self.a), len(self.b), 0))
        return self._blocks

    def get_opcodes(self):
        if self._codes is None:
            i = j = 0
            self._codes = []
            for ai, bj, size in self.get_matching_blocks():
                said = "replace" if i < ai and j < bj else "delete" if i < ai else "insert" if j < bj else ""
                if said:
                    self._codes.append((said, i, ai, j, bj))
                i, j = ai + size, bj + size
                if size:
                    self._codes.append(("equal", ai, i, bj, j))
        return self._codes

    def get_grouped_opcodes(self, n=3):
        codes = list(self.get_opcodes()) or [("equal", 0, 1, 0, 1)]
        if codes[0][0] == "equal":
            said, i1, i2, j1, j2 = codes[0]
            codes[0] = said, max(i1, i2 - n), i2, max(j1, j2 - n), j2
        if codes[-1][0] == "equal":
            said, i1, i2, j1, j2 = codes[-1]
            codes[-1] = said, i1, min(i2, i1 + n), j1, min(j2, j1 + n)
        groups, group = [], []
        for said, i1, i2, j1, j2 in codes:
            if said == "equal" and i2 - i1 > 2 * n:
                group.append((said, i1, min(i2, i1 + n), j1, min(j2, j1 + n)))
                groups.append(group)
                group = []
                i1, j1 = max(i1, i2 - n), max(j1, j2 - n)
            group.append((said, i1, i2, j1, j2))
        if group and not (len(group) == 1 and group[0][0] == "equal"):
            groups.append(group)
        return groups

    def _of(self, matches):
        whole = len(self.a) + len(self.b)
        return 2.0 * matches / whole if whole else 1.0

    def ratio(self):
        return self._of(sum([block[2] for block in self.get_matching_blocks()]))

    def quick_ratio(self):
        if self._counts is None:
            self._counts = {}
            for one in self.b:
                self._counts[one] = self._counts.get(one, 0) + 1
        left, matches = {}, 0
        for one in self.a:
            count = left.get(one, self._counts.get(one, 0))
            left[one] = count - 1
            matches += count > 0
        return self._of(matches)

    def real_quick_ratio(self):
        return self._of(min(len(self.a), len(self.b)))

def _difflib_span(start, stop, comma):
    size = stop - start
    if comma:
        first = start + 1 if size else start
        return str(first) if size <= 1 else f"{first},{first + size - 1}"
    first = start + 1 if size else start
    return str(first) if size == 1 else f"{first},{size}"

def _difflib_head(fromfile, tofile, fromdate, todate, lineterm, signs):
    after = ["\\t" + date if date else "" for date in (fromdate, todate)]
    return [f"{signs[0]} {fromfile}{after[0]}{lineterm}", f"{signs[1]} {tofile}{after[1]}{lineterm}"]

class _Difflib:
    SequenceMatcher = _SequenceMatcher
    Match = _DifflibMatch

    def unified_diff(self, a, b, fromfile="", tofile="", fromfiledate="", tofiledate="", n=3, lineterm="\\n"):
        made = []
        for group in _SequenceMatcher(None, a, b).get_grouped_opcodes(n):
            if not made:
                made = _difflib_head(fromfile, tofile, fromfiledate, tofiledate, lineterm, ("---", "+++"))
            spans = [_difflib_span(group[0][at], group[-1][at + 1], False) for at in (1, 3)]
            made.append(f"@@ -{spans[0]} +{spans[1]} @@{lineterm}")
            for said, i1, i2, j1, j2 in group:
                if said == "equal":
                    made += [" " + line for line in a[i1:i2]]
                    continue
                if said in ("replace", "delete"):
                    made += ["-" + line for line in a[i1:i2]]
                if said in ("replace", "insert"):
                    made += ["+" + line for line in b[j1:j2]]
        return iter(made)

    def context_diff(self, a, b, fromfile="", tofile="", fromfiledate="", tofiledate="", n=3, lineterm="\\n"):
        signs = {"insert": "+ ", "delete": "- ", "replace": "! ", "equal": "  "}
        made = []
        for group in _SequenceMatcher(None, a, b).get_grouped_opcodes(n):
            if not made:
                made = _difflib_head(fromfile, tofile, fromfiledate, tofiledate, lineterm, ("***", "---"))
            said = {code[0] for code in group}
            made.append("***************" + lineterm)
            made.append(f"*** {_difflib_span(group[0][1], group[-1][2], True)} ****{lineterm}")
            if said & {"replace", "delete"}:
                made += [signs[code[0]] + line for code in group if code[0] != "insert" for line in a[code[1]:code[2]]]
            made.append(f"--- {_difflib_span(group[0][3], group[-1][4], True)} ----{lineterm}")
            if said & {"replace", "insert"}:
                made += [signs[code[0]] + line for code in group if code[0] != "delete" for line in b[code[3]:code[4]]]
        return iter(made)

    def get_close_matches(self, word, possibilities, n=3, cutoff=0.6):
        if n <= 0:
            raise ValueError(f"n must be > 0: {n!r}")
        if not 0.0 <= cutoff <= 1.0:
            raise ValueError(f"cutoff must be in [0.0, 1.0]: {cutoff!r}")
        matcher, found = _SequenceMatcher(), []
        matcher.set_seq2(word)
        for one in possibilities:
            matcher.set_seq1(one)
            if matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff:
                ratio = matcher.ratio()
                if ratio >= cutoff:
                    found.append((ratio, one))
        return [one for ratio, one in sorted(found, reverse=True)[:n]]

_added_difflib = _Difflib()
"""
