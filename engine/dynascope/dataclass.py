"""`dataclasses.dataclass`, which writes methods when they are first used: half of the time of importing the engine was writing them.

    @dataclass(frozen=True, slots=True)
    class Span: ...

The standard one prints Python text for six methods of each class and compiles it. Of hundreds of classes, most of them reasons for what
seldom happens, a run makes objects of few. Here comparisons, hashes and texts need no text of Python, and `__init__` is compiled by the
first call. Fields are the standard library's own (`fields`, `replace`, `asdict`, `field`, match statements). What the engine does not use
is refused: keyword-only fields, `InitVar`. A frozen class whose base has the slot `KEPT_HASH` computes the hash of an object once: of
trees, which are looked up by each of their parts.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Callable
from operator import attrgetter, ge, gt, le, lt
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")
KEPT_HASH = "_kept_hash"
UNDOCUMENTED = " "
"""Where a class says nothing of itself, the standard library reads its signature to do so."""


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(
    *, frozen: bool = False, slots: bool = False, eq: bool = True, order: bool = False, repr: bool = True
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    cls: Any = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True, order: bool = False, repr: bool = True
) -> Any:
    """The options mean what they mean in the standard library (PEP 557); of frozen classes `__dataclass_params__` does not say so."""

    def made(cls: type) -> type:
        own, documentation = set(vars(cls)), cls.__doc__
        has_hash = "__hash__" in own and not (vars(cls)["__hash__"] is None and "__eq__" in own)
        cls.__doc__ = documentation or UNDOCUMENTED
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        cls.__doc__ = documentation
        methods: dict[str, Any] = {"__init__": _first_init(cls, frozen, slots)}
        if repr:
            methods["__repr__"] = _text(cls)
        if eq:
            methods["__eq__"] = _equality(_values(cls, lambda field: field.compare))
            if not has_hash:
                hashed = _kept_hash if hasattr(cls, KEPT_HASH) else _hash
                methods["__hash__"] = hashed(_values(cls, _is_hashed)) if frozen else None
        if order:
            methods |= _orders(_values(cls, lambda field: field.compare))
        if frozen:
            methods |= _refusals(cls)
        if frozen and slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
        for name, method in methods.items():
            if name not in own or name == "__hash__":
                setattr(cls, name, method)
        return cls

    return made if cls is None else made(cls)


def _fields(cls: type) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(cast(Any, cls))


def _is_hashed(field: dataclasses.Field) -> bool:
    return field.compare if field.hash is None else field.hash


def _values(cls: type, is_taken: Callable[[dataclasses.Field], bool]) -> Callable[[Any], tuple]:
    """Reads the fields of an object that are taken."""
    names = [field.name for field in _fields(cls) if is_taken(field)]
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only = attrgetter(*names)
    return lambda self: (only(self),)


# ---- the methods that need no text


def _equality(values: Callable[[Any], tuple]) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], tuple]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _kept_hash(values: Callable[[Any], tuple]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        try:
            return self._kept_hash
        except AttributeError:
            found = hash(values(self))
            object.__setattr__(self, KEPT_HASH, found)
            return found

    return __hash__


def _orders(values: Callable[[Any], tuple]) -> dict[str, Any]:
    def method(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        def ordered(self: Any, other: Any) -> bool:
            return compare(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

        return ordered

    return {f"__{compare.__name__}__": method(compare) for compare in (lt, le, gt, ge)}


def _text(cls: type) -> Callable[[Any], str]:
    names = [field.name for field in _fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refusals(cls: type) -> dict[str, Any]:
    names = frozenset(field.name for field in _fields(cls))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(self: Any) -> list[Any]:
    """Of a frozen class with slots, whose copies are not assigned to either."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


# ---- the one that is compiled


def _first_init(cls: type, frozen: bool, slots: bool) -> Callable[..., None]:
    for field in cls.__dataclass_fields__.values():  # type: ignore[attr-defined]
        if field.kw_only is True or "InitVar" in str(field.type):
            raise TypeError(f"{cls.__qualname__}.{field.name}: neither keyword-only fields nor InitVar are served here")

    def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:
        written = _written_init(cls, frozen, slots)
        if vars(cls)["__init__"] is __init__:
            cls.__init__ = written  # type: ignore[misc]
        written(self, *arguments, **keywords)

    return __init__


def _written_init(cls: type, frozen: bool, slots: bool) -> Callable[..., None]:
    parameters, lines, known = ["self"], [], {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    for field in _fields(cls):
        name, value, default = field.name, field.name, f"_default_{field.name}"
        if field.default_factory is not dataclasses.MISSING:
            known[default] = field.default_factory
            value = f"({default}() if {name} is _missing else {name})" if field.init else f"{default}()"
            parameter = f"{name}=_missing"
        elif field.default is not dataclasses.MISSING:
            known[default] = field.default
            value = name if field.init else default
            parameter = f"{name}={default}"
        else:
            parameter = name
        if field.init:
            parameters.append(parameter)
        elif value == name or (value == default and not slots):
            continue  # set by `__post_init__`, or found in the class
        lines.append(f'_set(self, "{name}", {value})' if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines or ["pass"])
    exec(compile(text, f"<fields of {cls.__qualname__}>", "exec"), known)
    written = cast(Any, known["__init__"])
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    return written
