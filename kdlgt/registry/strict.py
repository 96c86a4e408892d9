"""Strict conversion of plain trees (TOML, JSON, keyword arguments) to typed values; every fault comes with its path.

cattrs dispatches on types; its own conversions are lenient (3.7 becomes 3 for an int), so each type has a hook here.
"""

from __future__ import annotations

import math
import numbers
import pathlib
import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

import attrs
from cattrs import BaseConverter, Converter

from kdlgt.errors import suggestion
from kdlgt.registry.faults import NONE, UNKNOWN_KEY, Fault, RejectedError, describe, is_union, rejected, shown

Hook = Callable[[Any, Any], Any]

#: Key of field metadata: a plain string given for the table stands for this field (``attention = "exact"``).
SHORTHAND = "kdlgt.shorthand"
_ABSENT = object()


def _is_literal(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is Literal


def _is_tuple(kind: Any) -> bool:
    origin: Any = get_origin(kind)
    return origin is tuple


def shorthand_field(kind: Any) -> str | None:
    """Name of the field that a plain string stands for, or None."""
    if not (isinstance(kind, type) and attrs.has(kind)):
        return None
    return next((field.name for field in attrs.fields(kind) if field.metadata.get(SHORTHAND)), None)


def strict_converter() -> Converter:
    """A cattrs converter that refuses what does not fit, and reports all faults in one :class:`RejectedError`."""
    converter = Converter(detailed_validation=False)
    converter.register_structure_hook(bool, _boolean)
    converter.register_structure_hook(int, _integer)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(str, _string)
    converter.register_structure_hook(pathlib.Path, _path)
    converter.register_structure_hook_func(_is_literal, _literal)
    converter.register_structure_hook_factory(is_union, _union_hook)
    converter.register_structure_hook_factory(_is_tuple, _tuple_hook)
    converter.register_structure_hook_factory(attrs.has, _table_hook)
    return converter


def _boolean(value: Any, kind: Any) -> bool:
    if isinstance(value, bool):
        return value
    guess = {
        "true": "true",
        "yes": "true",
        "on": "true",
        "1": "true",
        "false": "false",
        "no": "false",
        "off": "false",
        "0": "false",
    }
    meant = guess.get(str(value).lower())
    raise rejected(value, kind, f" Did you mean {meant} (without quotes)?" if meant else "")


def _integer(value: Any, kind: Any) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    raise rejected(value, kind, _integer_hint(value))


def _integer_hint(value: Any) -> str:
    number = _as_number(value)
    if number is None or not math.isfinite(number):
        return ""
    low, high = math.floor(number), math.ceil(number)
    return f" Did you mean {low}?" if low == high else f" Did you mean {low} or {high}?"


def _number(value: Any, kind: Any) -> float:
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise rejected(value, kind) from None
    number = _as_number(value)
    raise rejected(value, kind, "" if number is None else f" Did you mean {number:g}?")


def _as_number(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        return None


def _string(value: Any, kind: Any) -> str:
    if isinstance(value, str):
        return value
    raise rejected(
        value, kind, f" Did you mean {shown(value)!r} (in quotes)?" if isinstance(value, int | float) else ""
    )


def _path(value: Any, kind: Any) -> pathlib.Path:
    if isinstance(value, str | pathlib.Path):
        return pathlib.Path(value)
    raise rejected(value, kind)


def _literal(value: Any, kind: Any) -> Any:
    allowed = get_args(kind)
    for choice in allowed:
        # True == 1, so the types are compared too.
        if type(choice) is type(value) and choice == value:
            return choice
    raise rejected(value, kind, suggestion(str(value), map(str, allowed)))


def _union_hook(kind: Any, converter: BaseConverter) -> Hook:
    members = [member for member in get_args(kind) if member is not types.NoneType]
    optional = types.NoneType in get_args(kind)

    def structure(value: Any, _: Any) -> Any:
        if optional and (value is None or (isinstance(value, str) and value == NONE)):
            return None
        tries = [_tried(value, member, converter) for member in members]
        for result in tries:
            if not isinstance(result, RejectedError):
                return result
        deep = [result for result in tries if any(fault.path for fault in result.faults)]
        # A fault inside a table or list says more than what the whole might have been.
        raise deep[0] if len(deep) == 1 else rejected(value, kind)

    return structure


def _tried(value: Any, member: Any, converter: BaseConverter) -> Any:
    try:
        return converter.structure(value, member)
    except RejectedError as error:
        return error


def _tuple_hook(kind: Any, converter: BaseConverter) -> Hook:
    items = get_args(kind)
    variadic = len(items) == 2 and items[1] is Ellipsis

    def structure(value: Any, _: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not (variadic or len(value) == len(items)):
            raise rejected(value, kind)
        members = [items[0]] * len(value) if variadic else items
        results = [_tried(entry, member, converter) for entry, member in zip(value, members, strict=True)]
        faults = [
            fault for i, result in enumerate(results) if isinstance(result, RejectedError) for fault in result.below(i)
        ]
        if faults:
            raise RejectedError(faults)
        return tuple(results)

    return structure


def _table_hook(kind: Any, converter: BaseConverter) -> Hook:
    attrs.resolve_types(kind)
    fields = {field.name: field for field in attrs.fields(kind) if field.init}

    def structure(value: Any, _: Any) -> Any:
        if isinstance(value, kind):
            return value
        tree = _table(value, kind)
        values, faults = _structured(tree, fields, converter)
        faults += unknown_keys(tree, fields)
        faults += _invalid_fields(kind, values, set(tree) - set(values))
        if faults:
            raise RejectedError(faults)
        try:
            return kind(**{fields[name].alias: given for name, given in values.items()})
        except (ValueError, TypeError) as error:
            raise RejectedError([_located(error, fields, ())]) from error

    return structure


def _table(value: Any, kind: Any) -> Mapping[str, Any]:
    short = shorthand_field(kind)
    if isinstance(value, str) and short is not None:
        return {short: value}
    if isinstance(value, Mapping):
        return value
    raise rejected(value, kind)


def _structured(
    tree: Mapping[str, Any], fields: Mapping[str, attrs.Attribute[Any]], converter: BaseConverter
) -> tuple[dict[str, Any], list[Fault]]:
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, field in fields.items():
        given = _given(tree, field)
        if given is _ABSENT:
            if field.default is attrs.NOTHING:
                faults.append(Fault((name,), f": missing; give {describe(field.type)}."))
            continue
        result = _tried(given, field.type, converter)
        if isinstance(result, RejectedError):
            faults += result.below(name)
        else:
            values[name] = result
    return values, faults


def _given(tree: Mapping[str, Any], field: attrs.Attribute[Any]) -> Any:
    """What a table says of a field; a field whose default is a table starts from that default."""
    default = field.default
    if not attrs.has(type(default)):
        return tree.get(field.name, _ABSENT)
    given = tree.get(field.name, {})
    return {**_own_values(default), **given} if isinstance(given, Mapping) else given


def _own_values(default: Any) -> dict[str, Any]:
    """The values of a default that are not already the defaults of its class."""
    values = {field.name: (getattr(default, field.name), field) for field in attrs.fields(type(default)) if field.init}
    return {name: value for name, (value, field) in values.items() if value != field.default}


def unknown_keys(tree: Mapping[str, Any], allowed: Iterable[str]) -> list[Fault]:
    """A fault for every key of a table that is not allowed, with the nearest one that is."""
    names = list(allowed)
    words = ", ".join(names) or "none"
    return [
        Fault((key,), f"{UNKNOWN_KEY}; allowed: {words}.{suggestion(str(key), names)}")
        for key in tree
        if key not in names
    ]


def _invalid_fields(kind: type[Any], values: Mapping[str, Any], refused: Container[str]) -> Iterator[Fault]:
    """Run the attrs validators of each field on its own: constructing the value would stop at the first."""
    fields = {field.name: field for field in attrs.fields(kind)}
    probe = object.__new__(kind)
    for name, field in fields.items():
        if name in values or (name not in refused and _plain_default(field)):
            object.__setattr__(probe, name, values.get(name, field.default))
    for name, field in fields.items():
        if field.validator is None or field.converter is not None or not hasattr(probe, name):
            continue
        try:
            field.validator(probe, field, getattr(probe, name))
        except AttributeError:
            continue  # it reads another field, which has its own fault
        except (ValueError, TypeError) as error:
            yield _located(error, fields, (name,))


def _plain_default(field: attrs.Attribute[Any]) -> bool:
    default: object = field.default
    return default is not attrs.NOTHING and not isinstance(default, attrs.Factory)  # type: ignore[arg-type]


def _located(error: Exception, fields: Iterable[str], default: tuple[str, ...]) -> Fault:
    """Place an error at the field it names: validators write ``heads = 3; allowed: ...``."""
    text = str(error.args[0]) if error.args else type(error).__name__
    name, equals, _ = text.partition(" = ")
    return Fault((name,), text.removeprefix(name)) if equals and name in fields else Fault(default, f": {text}")
