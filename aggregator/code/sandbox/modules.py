"""The modules `io` and `statistics` for programs, written in the interpreter's own Python, which lacks them.

An import in a program becomes an assignment on the same line. A module that the program does not use costs nothing. A
module that it uses without an import is imported for it.
"""

import re
from typing import Final

from aggregator.code.sandbox.bounds import MODULES

_NAME: Final = r"[^\W\d]\w*"
_WORD: Final = re.compile(_NAME)
_ITEM: Final = rf"{_NAME}(?:[ \t]+as[ \t]+{_NAME})?"
_STATEMENT: Final = r"(?m)(?:^|(?<=[;:]))(?P<indent>[ \t]*)"
_ITEMS: Final = rf"(?P<items>{_ITEM}(?:[ \t]*,[ \t]*{_ITEM})*)"
_END: Final = r"[ \t]*(?=$|;)"
_IMPORT: Final = re.compile(rf"{_STATEMENT}import[ \t]+{_ITEMS}{_END}")
_FROM: Final = re.compile(
    rf"{_STATEMENT}from[ \t]+(?P<module>io|statistics)[ \t]+import[ \t]*"
    rf"(?:\((?P<lines>[\w\s,]*)\)|(?<=[ \t]){_ITEMS}){_END}"
)

# A module that a program uses, also inside a text, which may be an f-string; and one that it imports.
_USED: Final = re.compile(rf"(?<![\w.])({'|'.join(MODULES)})\.[^\W\d]")
_IMPORTED: Final = re.compile(r"\bimport\b[^\n;]*")

_IO: Final = """
class _StringIO:
    def __init__(self, initial_value="", newline="\\n"):
        self._text = str(initial_value)
        self._at = 0
        self.closed = False

    def _to(self, end):
        start = self._at
        self._at = max(start, end)
        return self._text[start:self._at]

    def read(self, size=-1):
        every = len(self._text)
        return self._to(every if size is None or size < 0 else min(every, self._at + size))

    def readline(self, size=-1):
        end = self._text.find("\\n", self._at) + 1
        end = end if end > 0 else len(self._text)
        return self._to(end if size is None or size < 0 else min(end, self._at + size))

    def readlines(self, hint=-1):
        return self.read().splitlines(True)

    def write(self, text):
        text = str(text)
        end = self._at + len(text)
        self._text = self._text[:self._at] + text + self._text[end:]
        self._at = end
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def getvalue(self):
        return self._text

    def seek(self, offset, whence=0):
        self._at = max(0, offset if whence == 0 else (self._at if whence == 1 else len(self._text)) + offset)
        return self._at

    def tell(self):
        return self._at

    def truncate(self, size=None):
        self._text = self._text[:self._at if size is None else size]
        return len(self._text)

    def flush(self):
        pass

    def close(self):
        self.closed = True

    def __iter__(self):
        return iter(self.readlines())

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

class _Io:
    pass

_io = _Io()
_io.StringIO = _StringIO
"""

_STATISTICS: Final = """
import math as _math

class _Statistics:
    def __init__(self):
        self.StatisticsError = ValueError

    def _data(self, data, least, what):
        data = list(data)
        if len(data) < least:
            raise ValueError(f"{what} requires at least {least} data point{'s' if least > 1 else ''}")
        return data

    def _sum(self, data):
        return _math.fsum(data) if any(isinstance(one, float) for one in data) else sum(data)

    def _over(self, total, count):
        return total // count if isinstance(total, int) and total % count == 0 else total / count

    def mean(self, data):
        data = self._data(data, 1, "mean")
        return self._over(self._sum(data), len(data))

    def fmean(self, data, weights=None):
        data = self._data(data, 1, "fmean")
        if weights is None:
            return _math.fsum(data) / len(data)
        weights = list(weights)
        if len(weights) != len(data):
            raise ValueError("data and weights must be the same length")
        total = _math.fsum(weights)
        if not total:
            raise ValueError("sum of weights must be non-zero")
        return _math.fsum([one * weight for one, weight in zip(data, weights)]) / total

    def geometric_mean(self, data):
        data = self._data(data, 1, "geometric_mean")
        if any(one < 0 for one in data):
            raise ValueError("geometric mean requires non-negative numbers")
        return 0.0 if 0 in data else _math.exp(_math.fsum([_math.log(one) for one in data]) / len(data))

    def harmonic_mean(self, data):
        data = self._data(data, 1, "harmonic_mean")
        if any(one < 0 for one in data):
            raise ValueError("harmonic mean does not support negative values")
        return 0 if 0 in data else len(data) / _math.fsum([1 / one for one in data])

    def median(self, data):
        data = sorted(self._data(data, 1, "median"))
        middle = len(data) // 2
        return data[middle] if len(data) % 2 else (data[middle - 1] + data[middle]) / 2

    def median_low(self, data):
        data = sorted(self._data(data, 1, "median_low"))
        return data[(len(data) - 1) // 2]

    def median_high(self, data):
        data = sorted(self._data(data, 1, "median_high"))
        return data[len(data) // 2]

    def multimode(self, data):
        counts = {}
        for one in data:
            counts[one] = counts.get(one, 0) + 1
        most = max(counts.values()) if counts else 0
        return [one for one in counts if counts[one] == most]

    def mode(self, data):
        return self.multimode(self._data(data, 1, "mode"))[0]

    def pvariance(self, data, mu=None):
        data = self._data(data, 1, "pvariance")
        middle = self.mean(data) if mu is None else mu
        return self._over(self._sum([(one - middle) ** 2 for one in data]), len(data))

    def variance(self, data, xbar=None):
        data = self._data(data, 2, "variance")
        middle = self.mean(data) if xbar is None else xbar
        return self._over(self._sum([(one - middle) ** 2 for one in data]), len(data) - 1)

    def pstdev(self, data, mu=None):
        return _math.sqrt(self.pvariance(data, mu))

    def stdev(self, data, xbar=None):
        return _math.sqrt(self.variance(data, xbar))

    def quantiles(self, data, n=4, method="exclusive"):
        if n < 1:
            raise ValueError("n must be at least 1")
        data = sorted(self._data(data, 2, "quantiles"))
        if method not in ("exclusive", "inclusive"):
            raise ValueError(f"Unknown method: {method!r}")
        found = []
        whole = len(data) - 1 if method == "inclusive" else len(data) + 1
        for part in range(1, n):
            at = part * whole // n
            if method == "inclusive":
                left = at
            else:
                at = 1 if at < 1 else len(data) - 1 if at > len(data) - 1 else at
                left = at - 1
            rest = part * whole - at * n
            found.append((data[left] * (n - rest) + data[left + 1] * rest) / n)
        return found

    def covariance(self, x, y):
        x, y = self._pairs(x, y, "covariance")
        mean_x, mean_y = self.fmean(x), self.fmean(y)
        return _math.fsum([(a - mean_x) * (b - mean_y) for a, b in zip(x, y)]) / (len(x) - 1)

    def correlation(self, x, y):
        x, y = self._pairs(x, y, "correlation")
        spread = self.covariance(x, x) * self.covariance(y, y)
        if not spread:
            raise ValueError("at least one of the inputs is constant")
        return self.covariance(x, y) / _math.sqrt(spread)

    def _pairs(self, x, y, what):
        x, y = list(x), list(y)
        if len(x) != len(y):
            raise ValueError(f"{what} requires that both inputs have same number of data points")
        return self._data(x, 2, what), y

_statistics = _Statistics()
"""
_SOURCES: Final = {"io": _IO, "statistics": _STATISTICS}
MODULES_ADDED: Final = tuple(_SOURCES)


def with_modules(code: str, masked: str) -> tuple[str, str]:
    """Return a program whose imports of our modules are assignments, and the source that defines them.

    `masked` is the program with blanks for its texts and comments, at the same places. Lines keep their numbers.
    """
    used: dict[str, None] = {}
    edits: list[tuple[int, int, str]] = []
    for found in _IMPORT.finditer(masked):
        items = [item.split() for item in found["items"].split(",")]
        ours = [item[0] for item in items if item[0] in _SOURCES]
        if ours:
            used.update(dict.fromkeys(ours))
            written = [
                f"{item[-1]} = _{item[0]}" if item[0] in _SOURCES else f"import {' '.join(item)}" for item in items
            ]
            edits.append((found.start("indent"), found.end(), found["indent"] + "; ".join(written)))
    for found in _FROM.finditer(masked):
        listed = found["items"] if found["lines"] is None else found["lines"]
        items = [item.split() for item in listed.split(",") if item.strip()]
        if items and all(len(item) == 1 or (len(item) == 3 and item[1] == "as") for item in items):
            module = found["module"]
            used[module] = None
            lines = "\n" * found[0].count("\n")
            written = [f"{item[-1]} = _{module}.{item[0]}" for item in items]
            edits.append((found.start("indent"), found.end(), found["indent"] + "; ".join(written) + lines))
    for start, end, text in sorted(edits, reverse=True):
        code = code[:start] + text + code[end:]
    unnamed = _unnamed(code, masked)
    used.update(dict.fromkeys(module for module in unnamed if module in _SOURCES))
    named = [f"{module} = _{module}\n" if module in _SOURCES else f"import {module}\n" for module in unnamed]
    return code, "".join([*(_SOURCES[module] for module in used), *named])


def _unnamed(code: str, masked: str) -> list[str]:
    """Return the modules that a program uses without an import, which models often forget."""
    imported = {word for found in _IMPORTED.finditer(masked) for word in _WORD.findall(found[0])}
    return [module for module in dict.fromkeys(_USED.findall(code)) if module not in imported]
