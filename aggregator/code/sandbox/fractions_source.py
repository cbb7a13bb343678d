"""The module `fractions` of programs."""

from typing import Final

FRACTIONS: Final = """
import math as _fraction_math
import re as _fraction_re
from decimal import Decimal as _fraction_decimal

_fraction_text = _fraction_re.compile(r"\\s*([+-]?)(\\d*)(?:/(\\d+)|(?:\\.(\\d*))?(?:[eE]([+-]?\\d+))?)\\s*")

def _fraction_of_float(value):
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("cannot convert NaN or infinity to integer ratio")
    below = 1
    while value != int(value):
        value, below = value * 2, below * 2
    return int(value), below

def _fraction_of_text(text):
    found = _fraction_text.fullmatch(text)
    if found is None or not (found.group(2) or found.group(4)):
        raise ValueError(f"Invalid literal for Fraction: {text!r}")
    sign, whole, below, places, power = found.groups()
    above, below = int((whole or "0") + (places or "")), int(below or 1)
    power = int(power or 0) - len(places or "")
    if abs(power) > 10_000:
        raise ValueError(f"Invalid literal for Fraction: {text!r}")
    above, below = above * 10 ** max(power, 0), below * 10 ** max(-power, 0)
    return (-above if sign == "-" else above), below

def _fraction_parts(value):
    if isinstance(value, _Fraction):
        return value.numerator, value.denominator
    if isinstance(value, int):
        return int(value), 1
    if isinstance(value, float):
        return _fraction_of_float(value)
    if isinstance(value, str):
        return _fraction_of_text(value)
    if isinstance(value, _fraction_decimal):
        return _fraction_of_text(str(value))
    raise TypeError("argument should be a string or a Rational instance")

class _Fraction:
    def __init__(self, numerator=0, denominator=None):
        above, below = _fraction_parts(numerator)
        if denominator is not None:
            more = _fraction_parts(denominator)
            above, below = above * more[1], below * more[0]
        if below == 0:
            raise ZeroDivisionError(f"Fraction({above}, 0)")
        same = _fraction_math.gcd(above, below) * (-1 if below < 0 else 1)
        self.numerator, self.denominator = above // same, below // same

    # With a float, a result is a float.
    def _with(self, other, made, floats, turned=False):
        if isinstance(other, float):
            return floats(other, float(self)) if turned else floats(float(self), other)
        if not isinstance(other, (int, _Fraction)):
            raise TypeError(f"unsupported operand type(s): 'Fraction' and '{type(other).__name__}'")
        one, other = _fraction_parts(self), _fraction_parts(other)
        return made(*other, *one) if turned else made(*one, *other)

    def __add__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction(a * d + c * b, b * d), lambda a, b: a + b)

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction(a * d - c * b, b * d), lambda a, b: a - b)

    def __rsub__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction(a * d - c * b, b * d), lambda a, b: a - b, True)

    def __mul__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction(a * c, b * d), lambda a, b: a * b)

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction(a * d, b * c), lambda a, b: a / b)

    def __rtruediv__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction(a * d, b * c), lambda a, b: a / b, True)

    def __floordiv__(self, other):
        return self._with(other, lambda a, b, c, d: (a * d) // (b * c), lambda a, b: a // b)

    def __mod__(self, other):
        return self._with(other, lambda a, b, c, d: _Fraction((a * d) % (c * b), b * d), lambda a, b: a % b)

    def __pow__(self, power):
        if not isinstance(power, int):
            return float(self) ** float(power)
        a, b = self.numerator, self.denominator
        return _Fraction(a ** power, b ** power) if power >= 0 else _Fraction(b ** -power, a ** -power)

    def __neg__(self):
        return _Fraction(-self.numerator, self.denominator)

    def __abs__(self):
        return _Fraction(abs(self.numerator), self.denominator)

    def __int__(self):
        return self.numerator // self.denominator if self.numerator >= 0 else -(-self.numerator // self.denominator)

    def __float__(self):
        return self.numerator / self.denominator

    def __bool__(self):
        return self.numerator != 0

    def __round__(self, digits=None):
        if digits is not None:
            return _Fraction(round(self * 10 ** digits), 10 ** digits)
        whole, rest = divmod(self.numerator, self.denominator)
        half = 2 * rest - self.denominator
        return whole + 1 if half > 0 or half == 0 and whole % 2 else whole

    def __eq__(self, other):
        if isinstance(other, float):
            return float(self) == other
        return isinstance(other, (int, _Fraction)) and _fraction_parts(self) == _fraction_parts(other)

    def __hash__(self):
        return hash(self.numerator) if self.denominator == 1 else hash((self.numerator, self.denominator))

    def __lt__(self, other):
        return self._with(other, lambda a, b, c, d: a * d < c * b, lambda a, b: a < b)

    def __gt__(self, other):
        return self._with(other, lambda a, b, c, d: a * d > c * b, lambda a, b: a > b)

    def __le__(self, other):
        return not self.__gt__(other)

    def __ge__(self, other):
        return not self.__lt__(other)

    def __str__(self):
        return str(self.numerator) if self.denominator == 1 else f"{self.numerator}/{self.denominator}"

    def __repr__(self):
        return f"Fraction({self.numerator}, {self.denominator})"

    def as_integer_ratio(self):
        return self.numerator, self.denominator

    def limit_denominator(self, max_denominator=1_000_000):
        if self.denominator <= max_denominator:
            return self
        if max_denominator < 1:
            raise ValueError("max_denominator should be at least 1")
        # The last two convergents of the continued fraction (as CPython does it).
        a, b, c, d = 0, 1, 1, 0
        above, below = self.numerator, self.denominator
        while b + (above // below) * d <= max_denominator:
            times = above // below
            a, b, c, d = c, d, a + times * c, b + times * d
            above, below = below, above - times * below
        times = (max_denominator - b) // d
        one, other = _Fraction(a + times * c, b + times * d), _Fraction(c, d)
        return one if abs(other - self).__gt__(abs(one - self)) else other

# The instances compare and sort (`instances_source`).
_x_comparing.append(_Fraction)

class _Fractions:
    Fraction = _Fraction

_added_fractions = _Fractions()
"""
