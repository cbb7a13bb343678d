"""The module `dataclasses` of programs: that of the interpreter, and the functions that it lacks."""

from typing import Final

DATACLASSES: Final = """
import dataclasses as _dataclasses

class _Dataclasses:
    def __init__(self):
        self.MISSING = _dataclasses.MISSING
        self.is_dataclass = _dataclasses.is_dataclass
        self.FrozenInstanceError = AttributeError
        # They stand in annotations, which `inits` reads.
        self.KW_ONLY = self.InitVar = None

    def dataclass(self, cls=None, slots=False, kw_only=False, match_args=True, weakref_slot=False, **options):
        if cls is not None:
            return _dataclasses.dataclass(cls)
        if not options.pop("order", False):
            return _dataclasses.dataclass(**options)
        return lambda cls: self._ordered(_dataclasses.dataclass(**options)(cls))

    def _ordered(self, cls):
        cls.__lt__ = lambda one, other: _x_lt(self._values(one), self._values(other))
        return cls

    def _values(self, one):
        apart = getattr(one, "_x_apart", ())
        return tuple([getattr(one, part.name) for part in self.fields(one) if part.name not in apart])

    def field(self, kw_only=None, metadata=None, **options):
        return _dataclasses.field(**options)

    def fields(self, one):
        if not _dataclasses.is_dataclass(one):
            raise TypeError("must be called with a dataclass type or instance")
        return tuple(one.__dataclass_fields__.values())

    def asdict(self, one, dict_factory=dict):
        self._check(one, "asdict")
        return self._plain(one, lambda one: dict_factory([(name, value) for name, value in one]))

    def astuple(self, one, tuple_factory=tuple):
        self._check(one, "astuple")
        return self._plain(one, lambda one: tuple_factory([value for _, value in one]))

    def replace(self, one, **changes):
        self._check(one, "replace")
        apart = getattr(one, "_x_ungiven", ())
        values = {part.name: getattr(one, part.name) for part in self.fields(one) if part.name not in apart}
        values.update(changes)
        return one.__class__(**values)

    def _is_instance(self, one):
        return _dataclasses.is_dataclass(one) and type(one) is not type(int)

    def _check(self, one, name):
        if not self._is_instance(one):
            raise TypeError(f"{name}() should be called on dataclass instances")

    def _plain(self, value, made):
        if self._is_instance(value):
            return made([(part.name, self._plain(getattr(value, part.name), made)) for part in self.fields(value)])
        if isinstance(value, dict):
            return {self._plain(key, made): self._plain(part, made) for key, part in value.items()}
        if isinstance(value, (list, tuple, set)):
            parts = [self._plain(part, made) for part in value]
            return parts if isinstance(value, list) else tuple(parts) if isinstance(value, tuple) else set(parts)
        return value

_added_dataclasses = _Dataclasses()
"""
