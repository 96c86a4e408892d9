"""What is wrong with a spec, in words; nothing here trusts a plugin."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import attrs

from kdlgt.errors import suggestion
from kdlgt.registry.faults import describe, shown
from kdlgt.registry.specs import Extension, Spec

_NAME = re.compile(r"[a-z0-9][a-z0-9_+-]*")


def spec_faults(spec: object, extension: Extension) -> list[str]:
    """All that is wrong with one object that a hook of this extension returned; empty when it can be used."""
    expected = extension.spec.__name__
    if not isinstance(spec, extension.spec):
        return [f"{extension.hook} returned {shown(spec)}; it must return {expected} values"]
    where = f"{expected}(name={shown(spec.name)})"
    faults = [*_name_faults(spec), *_text_faults(spec), *_choice_faults(spec), *_factory_faults(spec, extension)]
    faults += list(_options_faults(spec.options, extension)) or list(_instance_faults(spec))
    return [f"{where}: {fault}" for fault in faults]


def _name_faults(spec: Spec) -> Iterator[str]:
    name: object = spec.name
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield "a name holds lower-case letters, digits, '-', '_' and '+', and starts with a letter or digit"


def _text_faults(spec: Spec) -> Iterator[str]:
    summary: object = spec.summary
    if not (isinstance(summary, str) and summary.strip() and "\n" not in summary):
        yield f"summary = {shown(summary)}; allowed: one line of text"
    source: object = spec.source
    if not isinstance(source, str):
        yield f"source = {shown(source)}; allowed: text"


def _choice_faults(spec: Spec) -> Iterator[str]:
    hints = get_type_hints(type(spec), localns=_unresolved(type(spec)))
    for name, hint in hints.items():
        allowed: tuple[Any, ...] = (True, False) if hint is bool else get_args(hint) if _is_text_choice(hint) else ()
        value = getattr(spec, name)
        if allowed and not any(value is choice or (value == choice and isinstance(value, str)) for choice in allowed):
            near = suggestion(str(value), map(str, allowed))
            yield f"{name} = {shown(value)}; allowed: {', '.join(map(shown, allowed))}.{near}"
    reference = getattr(spec, "reference", None)
    if reference is not None and not callable(reference):
        yield f"reference = {shown(reference)} is not callable; give a function (rpe, data) -> B [H, N, N]"


def _unresolved(kind: type[Spec]) -> dict[str, Any]:
    """Names that the annotations of specs use for type checkers only."""
    return dict.fromkeys(("Tensor", "Data", "FeatureMap", "Structure", "RPE"), object)


def _is_text_choice(hint: Any) -> bool:
    return get_origin(hint) is not None and bool(get_args(hint)) and all(isinstance(arg, str) for arg in get_args(hint))


def _factory_faults(spec: Spec, extension: Extension) -> Iterator[str]:
    factory = getattr(spec, "factory", None)
    call = f"factory({', '.join(extension.arguments)})"
    if not callable(factory):
        yield f"factory = {shown(factory)} is not callable; give {call}"
        return
    try:
        inspect.signature(factory).bind(*extension.arguments)
    except TypeError as error:
        yield f"the factory cannot be called as {call}: {error}"
    except ValueError:
        return  # a builtin without a signature: the call itself will tell


def _options_faults(options: object, extension: Extension) -> Iterator[str]:
    if not isinstance(options, type) or not attrs.has(options):
        yield f"options = {shown(options)}; give a class made with @attrs.frozen"
        return
    if not _is_frozen(options):
        yield f"the option class {options.__name__} can be changed; make it with @attrs.frozen"
    try:
        attrs.resolve_types(options)
    except (NameError, TypeError) as error:
        yield f"the types of {options.__name__} cannot be resolved: {error}; import them at run time, at module level"
        return
    for field in attrs.fields(options):
        yield from _field_faults(field, options, extension)


def _instance_faults(spec: Spec) -> Iterator[str]:
    """Options that a spec carries must be values of its own option class."""
    refinements: object = getattr(spec, "refinements", ())
    several = refinements if isinstance(refinements, tuple) else (refinements,)
    series: list[tuple[str, object]] = [("variants", spec.variants), *(("refinements", each) for each in several)]
    for name, values in series:
        good = isinstance(values, tuple) and all(isinstance(value, spec.options) for value in values)
        if not good:
            yield f"{name} holds {shown(values)}; give tuples of {spec.options.__name__} values"


def _field_faults(field: attrs.Attribute[Any], options: type, extension: Extension) -> Iterator[str]:
    where = f"option {options.__name__}.{field.name}"
    if field.name in ("name", *extension.arguments):
        yield f"{where}: the name is taken (by 'name' in configs and the arguments {', '.join(extension.arguments)})"
    try:
        describe(field.type)
    except TypeError as error:
        yield (
            f"{where} has {error}, which a config cannot hold; allowed: int, float, str, bool, Path, Literal, tuple, "
            "frozen attrs classes, and unions of these and None"
        )


def _is_frozen(options: type) -> bool:
    # Asked by trying: attrs has no public question for it in the oldest version that kdlgt takes.
    probe: Any = object.__new__(options)
    try:
        probe.kdlgt_probe = None
    except attrs.exceptions.FrozenInstanceError:
        return True
    except AttributeError:
        return False
    return False
