"""What is wrong with a plain tree, where, and what its type allows, in words."""

from __future__ import annotations

import pathlib
import reprlib
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs

Key = str | int

#: TOML has no null: this string is None wherever None is allowed.
NONE = "none"
#: How the fault for a key that a table does not have begins.
UNKNOWN_KEY = ": unknown key"
_TEXT_LENGTH = 80


@attrs.frozen
class Fault:
    """One thing wrong in a tree: where, and the text that follows the path."""

    path: tuple[Key, ...]
    text: str

    def __str__(self) -> str:
        dotted = ".".join(map(str, self.path))
        return f"{dotted}{self.text}" if dotted else self.text.removeprefix(": ").removeprefix(" = ")


class RejectedError(ValueError):
    """A tree does not fit a type; carries all faults below this point."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(str, self.faults)))

    def below(self, key: Key) -> list[Fault]:
        """The faults as seen from one level up."""
        return [Fault((key, *fault.path), fault.text) for fault in self.faults]


def faults_message(where: str, faults: Iterable[Fault]) -> str:
    """One message for all faults: in one line for a single fault, else one line each."""
    lines = [str(fault) for fault in faults]
    if len(lines) == 1:
        return f"{where}: {lines[0]}"
    return "\n  ".join([f"{where}: {len(lines)} errors", *lines])


def shown(value: object) -> str:
    """A value as an error shows it: as TOML writes it where that differs, and cut when long."""
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= _TEXT_LENGTH else reprlib.repr(value)


def describe(kind: Any) -> str:
    """Say in words what a type allows.

    Raises:
        TypeError: a type that no config can hold.
    """
    origin = get_origin(kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if origin is Annotated:
        return describe(get_args(kind)[0])
    if origin is Literal:
        return ", ".join(map(shown, get_args(kind)))
    if is_union(kind):
        return " or ".join(map(describe, get_args(kind)))
    if origin is tuple:
        return _describe_tuple(get_args(kind))
    if isinstance(kind, type) and attrs.has(kind):
        return "a table"
    raise TypeError(f"the type {kind!r}")


_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    pathlib.Path: "a path as a string",
    types.NoneType: repr(NONE),
}


def _describe_tuple(items: tuple[Any, ...]) -> str:
    if len(items) == 2 and items[1] is Ellipsis:
        return f"a list, each entry {describe(items[0])}"
    return f"a list of {len(items)} ({', '.join(map(describe, items))})"


def is_union(kind: Any) -> bool:
    """Whether a type is ``X | Y`` in either spelling."""
    return get_origin(kind) in (Union, types.UnionType)


def rejected(value: object, kind: Any, hint: str = "") -> RejectedError:
    """The error for one value that a type does not allow."""
    return RejectedError([Fault((), f" = {shown(value)}; allowed: {describe(kind)}.{hint}")])
