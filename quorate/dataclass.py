"""``dataclass`` whose methods are made when they are first needed.

``dataclasses.dataclass`` writes and compiles six functions for each class when its module is
imported: it was a third of the time in which a node starts, and most processes make values of few
classes. Here a class gets its fields, slots and what matches patterns from the standard library;
methods are compiled when they are first asked for, or are the same functions for all classes.
Type checkers see ``dataclasses.dataclass`` (docs/decisions/0020-dataclasses-made-late.md).
"""

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

_BECOME: Final = vars(object)["__class__"].__set__


def made_late(
    cls: type[Any] | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    kw_only: bool = False,
) -> Any:
    """Make a dataclass, as ``dataclasses.dataclass`` does, without ``InitVar`` and ``order``.

    What is frozen has slots, and nothing but dataclasses inherits from it.
    """

    def make(cls: type[Any]) -> type[Any]:
        assert slots or not frozen, f"{cls.__name__}: what is frozen has slots"
        written = vars(cls)
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)
        cls = made(cls)
        methods: dict[str, Any] = {
            "__init__": _Late(cls, _write_frozen_init if frozen else _write_init),
            "__repr__": _repr,
        }
        if eq:
            methods["__eq__"] = _Late(cls, _write_eq)
            methods["__hash__"] = _Late(cls, _write_hash) if frozen else None
        if frozen:
            methods |= _FROZEN
        for name, method in methods.items():
            # Python itself writes that there is no hash beside an `__eq__`.
            if name not in written or (name == "__hash__" and written[name] is None):
                setattr(cls, name, method)
        return cls

    return make if cls is None else make(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = made_late


# --- what is compiled -----------------------------------------------------------------------------

Names = dict[str, Any]
Write = Callable[[type[Any], Names], list[str]]
"""Returns the lines of a method of a class, and adds what they name."""


class _Late:
    """Stands for a method of a class until somebody asks for it."""

    __slots__ = ("_cls", "_write")

    def __init__(self, cls: type[Any], write: Write) -> None:
        self._cls = cls
        self._write = write

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        names: Names = {}
        header, *body = self._write(self._cls, names)
        text = "\n    ".join([f"def {header}:", *body])
        exec(compile(text, f"<{self._cls.__qualname__}>", "exec"), names)  # noqa: S102 fields' names
        name = header.partition("(")[0]
        method = names[name]
        method.__qualname__ = f"{self._cls.__qualname__}.{name}"
        type.__setattr__(self._cls, name, method)
        return method.__get__(instance, owner)


def _write_init(cls: type[Any], names: Names) -> list[str]:
    return [_init_header(cls, names), *_settings(cls, names), *_check(cls), "return"]


def _write_frozen_init(cls: type[Any], names: Names) -> list[str]:
    """Write what is faster than one ``object.__setattr__`` for each field.

    The new value is meanwhile of another class, which has the same slots and is not frozen.
    """
    names |= {"become_": _BECOME, "frozen_": cls, "open_": _not_frozen(cls)}
    settings = ["become_(self, open_)", *_settings(cls, names), "become_(self, frozen_)"]
    return [_init_header(cls, names), *settings, *_check(cls)]


def _write_eq(cls: type[Any], _: Names) -> list[str]:
    equal = f"{_values('self', cls)} == {_values('other', cls)}"
    same = "self.__class__ is other.__class__"
    return ["__eq__(self, other)", f"return {equal} if {same} else NotImplemented"]


def _write_hash(cls: type[Any], _: Names) -> list[str]:
    return ["__hash__(self)", f"return hash({_values('self', cls)})"]


def _values(of: str, cls: type[Any]) -> str:
    return f"({' '.join(f'{of}.{field.name},' for field in fields(cls) if field.compare)})"


def _init_header(cls: type[Any], names: Names) -> str:
    names["missing_"] = MISSING
    declared = [field for field in fields(cls) if field.init]
    by_name = [_parameter(field, names) for field in declared if field.kw_only]
    by_place = [_parameter(field, names) for field in declared if not field.kw_only]
    return f"__init__({', '.join(['self', *by_place, *(['*', *by_name] if by_name else [])])})"


def _settings(cls: type[Any], names: Names) -> list[str]:
    return [f"self.{f.name} = {_value(f, names)}" for f in fields(cls) if _is_set(f)]


def _check(cls: type[Any]) -> list[str]:
    return ["self.__post_init__()"] if hasattr(cls, "__post_init__") else []


def _is_set(field: Field[Any]) -> bool:
    return field.init or field.default is not MISSING or field.default_factory is not MISSING


def _parameter(field: Field[Any], names: Names) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=missing_"
    if field.default is MISSING:
        return field.name
    names[f"{field.name}_default_"] = field.default
    return f"{field.name}={field.name}_default_"


def _value(field: Field[Any], names: Names) -> str:
    if field.default_factory is MISSING:
        if field.init:
            return field.name
        names[f"{field.name}_default_"] = field.default
        return f"{field.name}_default_"
    names[f"{field.name}_new_"] = field.default_factory
    new = f"{field.name}_new_()"
    return f"{new} if {field.name} is missing_ else {field.name}" if field.init else new


def _not_frozen(cls: type[Any]) -> type[Any]:
    # `Generic` looks for what a class was said to inherit from.
    own = {name: vars(cls)[name] for name in ("__slots__", "__orig_bases__") if name in vars(cls)}
    return type(cls.__name__, cls.__bases__, {**own, "__setattr__": object.__setattr__})


# --- what all share -------------------------------------------------------------------------------


@recursive_repr("...")
def _repr(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _set(_: Any, name: str, __: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN: Final = {
    "__setattr__": _set,
    "__delattr__": _delete,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}
