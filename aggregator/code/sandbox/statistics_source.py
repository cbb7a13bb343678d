"""`statistics` for programs (`module_sources`)."""

from typing import Final

STATISTICS: Final = """
import collections as _statistics_collections
import math as _math

_LinearRegression = _statistics_collections.namedtuple("LinearRegression", ["slope", "intercept"])

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

    def linear_regression(self, x, y, *, proportional=False):
        x, y = self._pairs(x, y, "linear_regression")
        middle = (0, 0) if proportional else (self.fmean(x), self.fmean(y))
        spread = _math.fsum([(one - middle[0]) ** 2 for one in x])
        if not spread:
            raise ValueError("x is constant")
        slope = _math.fsum([(one - middle[0]) * (other - middle[1]) for one, other in zip(x, y)]) / spread
        return _LinearRegression(slope, 0.0 if proportional else middle[1] - slope * middle[0])

    def _pairs(self, x, y, what):
        x, y = list(x), list(y)
        if len(x) != len(y):
            raise ValueError(f"{what} requires that both inputs have same number of data points")
        return self._data(x, 2, what), y

_added_statistics = _Statistics()
"""
