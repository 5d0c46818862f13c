"""Patches: parts of the product replaced in this process; whatever is not there any more is told.

A mutant names what it breaks, and refactorings must not silently disarm it: so a function, method
or property must stand where it is said to, with the parameters that its replacement has.
"""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Final

from quorate.errors import QuorateError

PRODUCT: Final = "quorate."


class UnarmedError(QuorateError):
    """What a mutant would break is not where it was: the mutant must follow the product."""


class Patches:
    """Owns what was replaced in this process, until :meth:`undo`."""

    def __init__(self) -> None:
        self._undone: list[Callable[[], None]] = []

    def method(self, owner: type, name: str, new: Callable[..., Any]) -> Any:
        """Replace a method of a class; return the one before.

        Raises:
            UnarmedError: the class itself has no such method, or it takes something else.
        """
        old = vars(owner).get(name)
        if not isinstance(old, FunctionType):
            raise UnarmedError(f"{_name(owner)} has no method {name} of its own")
        _compare(f"{_name(owner)}.{name}", old, new)
        self._set(owner, name, new)
        return old

    def getter(self, owner: type, name: str, new: Callable[[Any], Any]) -> None:
        """Replace a property of a class.

        Raises:
            UnarmedError: the class itself has no such property.
        """
        old = vars(owner).get(name)
        if not isinstance(old, property) or old.fset is not None:
            raise UnarmedError(f"{_name(owner)} has no property {name} that is only read")
        self._set(owner, name, property(new))

    def function(self, module: ModuleType, name: str, new: Callable[..., Any]) -> Any:
        """Replace a function of a module, wherever the product imported it; return the one before.

        Raises:
            UnarmedError: the module has no such function, or it takes something else.
        """
        old = vars(module).get(name)
        if not isinstance(old, FunctionType):
            raise UnarmedError(f"{module.__name__} has no function {name}")
        _compare(f"{module.__name__}.{name}", old, new)
        importers = [m for n, m in list(sys.modules.items()) if n.startswith(PRODUCT)]
        for importer in importers:
            for known_as, value in list(vars(importer).items()):
                if value is old:
                    self._set(importer, known_as, new)
        return old

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._undone:
            self._undone.pop()()

    def _set(self, owner: type | ModuleType, name: str, new: object) -> None:
        self._undone.append(partial(setattr, owner, name, vars(owner)[name]))
        setattr(owner, name, new)

    def __len__(self) -> int:
        return len(self._undone)


def _compare(what: str, old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """Refuse a replacement that is called otherwise than what it replaces."""
    expected, given = _parameters(old), _parameters(new)
    if expected != given:
        raise UnarmedError(f"{what} takes {expected} by now, its mutant {given}")


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters; one that a mutant leaves unused may begin with _."""
    return [
        f"{parameter.kind.name.lower()} {parameter.name.lstrip('_')}"
        for parameter in inspect.signature(function).parameters.values()
    ]


def _name(owner: type) -> str:
    return f"{owner.__module__}.{owner.__qualname__}"
