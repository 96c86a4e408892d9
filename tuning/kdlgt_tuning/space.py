"""Search spaces: which config paths vary, over which values; read from TOML and checked against a config."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any

import attrs

from kdlgt.config import Config, config_from_dict, config_to_dict, read_tree
from kdlgt.config.overrides import set_value
from kdlgt.errors import ConfigError, suggestion
from kdlgt.registry import Registry
from kdlgt.registry.faults import shown
from kdlgt_tuning.domains import KINDS, Domain, DomainError, parse_domain

EVERY = "*"
#: Paths that a sweep must not vary, with the reason.
FIXED: Mapping[str, str] = {
    "data.dataset": "scores on different data sets cannot be compared; run one sweep per data set",
    "data.dataset.name": "scores on different data sets cannot be compared; run one sweep per data set",
    "train.devices": "a trial is one process; use --gpus-per-trial and --max-concurrent",
    "train.threads": "it follows --cpus-per-trial",
}


@attrs.frozen
class Parameter:
    """One path of the config and the values it takes.

    Attributes:
        path: dotted, list entries as numbers, e.g. ``model.rpe.0.k``.
        domain: the values.
    """

    path: str
    domain: Domain


@attrs.frozen
class Space:
    """The parameters of a search.

    Attributes:
        parameters: in the order of the file.
    """

    parameters: tuple[Parameter, ...]

    def decode(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """Plain config values by path, from what a search engine drew."""
        return {parameter.path: parameter.domain.decode(sample[parameter.path]) for parameter in self.parameters}

    def apply(self, tree: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a config tree with the sampled values in place."""
        result = dict(tree)
        for path, value in self.decode(sample).items():
            result = set_value(result, path, value)
        return result

    def largest(self, path: str, default: int) -> int:
        """The largest value that a path takes."""
        found = [max(parameter.domain.probes) for parameter in self.parameters if parameter.path == path]
        return int(found[0]) if found else default


def read_space(path: str | os.PathLike[str], tree: Mapping[str, Any], registry: Registry) -> Space:
    """Read a space from a TOML file and check every path and value against a config.

    Args:
        path: the file: config paths with one of ``choice``, ``int``, ``log_int``, ``float``, ``log`` each.
        tree: the config as a plain tree, valid by itself.
        registry: the plugins.

    Raises:
        ConfigError: the file cannot be read; unknown paths, wrong types, empty choices, ranges upside down: one error
            for all, each with its path and what to write.
    """
    space = parse_space(read_tree(path), os.fspath(path))
    return check_space(space, tree, registry, os.fspath(path))


def default_space(tree: Mapping[str, Any], registry: Registry) -> Space:
    """The space that ships, K, k and r, as far as the config's encodings and attention have them.

    Raises:
        ConfigError: the config has none of them.
    """
    with resources.as_file(resources.files("kdlgt_tuning") / "default.toml") as path:
        shipped = parse_space(read_tree(path), "the default space")
    config = config_from_dict(tree, registry)
    full = config_to_dict(config)
    kept = [
        attrs.evolve(parameter, path=path)
        for parameter in shipped.parameters
        if _matters(parameter.path, config)
        for path in _expanded(parameter.path, full)
        if _present(path, full)
    ]
    if not kept:
        raise ConfigError(
            "the default space varies max_anchors, landmarks and k of encodings and num_features of random features, "
            "and this config has none of them; give a space of your own with --space"
        )
    return check_space(Space(tuple(kept)), tree, registry, "the default space")


def _matters(path: str, config: Config) -> bool:
    """Whether a part of the model is in use at all."""
    attention = config.model.attend
    return attention and not (path.startswith("model.features") and config.model.attention.mode == "exact")


def parse_space(tree: Mapping[str, Any], where: str = "space") -> Space:
    """Read a space from a plain tree, without looking at a config.

    Raises:
        ConfigError: as :func:`read_space`.
    """
    parameters, faults = [], []
    for path, table in _leaves(tree):
        try:
            parameters.append(Parameter(path, parse_domain(table)))
        except DomainError as error:
            faults.append(f"{path}{error}")
    if not tree:
        faults.append("nothing varies; write a line such as model.features.num_features = {log_int = [16, 512]}")
    _raise(where, faults)
    return Space(tuple(parameters))


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if not isinstance(value, Mapping) or _is_domain(value):
            yield path, value
        else:
            yield from _leaves(value, f"{path}.")


def _is_domain(table: Mapping[str, Any]) -> bool:
    """Whether a table stands for values, perhaps misspelt, rather than for a part of a path."""
    if not table or any(key in KINDS and not isinstance(value, Mapping) for key, value in table.items()):
        return True
    return all(isinstance(value, list) and suggestion(key, KINDS) != "" for key, value in table.items())


def check_space(space: Space, tree: Mapping[str, Any], registry: Registry, where: str = "space") -> Space:
    """Replace each ``*`` by the list entries it matches, and try every value in the config.

    Raises:
        ConfigError: as :func:`read_space`.
    """
    full = config_to_dict(config_from_dict(tree, registry))
    parameters, faults = [], []
    for parameter in space.parameters:
        paths = list(_expanded(parameter.path, full))
        if not paths:
            faults.append(f"{parameter.path}: {_unmatched(parameter.path, full)}")
        parameters += [attrs.evolve(parameter, path=path) for path in paths]
    for parameter in parameters:
        faults += _faults(parameter, tree, registry)
    faults += _overlaps([parameter.path for parameter in parameters])
    _raise(where, faults)
    return Space(tuple(parameters))


def _faults(parameter: Parameter, tree: Mapping[str, Any], registry: Registry) -> list[str]:
    if parameter.path in FIXED:
        return [f"{parameter.path}: {FIXED[parameter.path]}"]
    messages = []
    for value in parameter.domain.probes:
        try:
            config_from_dict(set_value(tree, parameter.path, value), registry)
        except ConfigError as error:
            text = " ".join(str(error).removeprefix("config: ").split())
            own = text.startswith(parameter.path)
            messages.append(text if own else f"{parameter.path} = {shown(value)}: {text}")
    return list(dict.fromkeys(messages))


def _overlaps(paths: list[str]) -> list[str]:
    return [
        f"{inner}: lies within {outer}, which varies too; keep one of them"
        for index, inner in enumerate(paths)
        for other, outer in enumerate(paths)
        if index != other and (inner.startswith(f"{outer}.") or (inner == outer and index > other))
    ]


def _expanded(path: str, full: Mapping[str, Any]) -> Iterator[str]:
    """The paths that a path with ``*`` stands for; a path without one stands for itself."""
    keys = path.split(".")
    if EVERY not in keys:
        yield path
        return
    place = keys.index(EVERY)
    entries = _at(full, keys[:place])
    for index in range(len(entries) if isinstance(entries, list) else 0):
        for found in _expanded(".".join([*keys[:place], str(index), *keys[place + 1 :]]), full):
            if _present(found, full):
                yield found


def _present(path: str, full: Mapping[str, Any]) -> bool:
    return _at(full, path.split(".")) is not _MISSING


_MISSING = object()


def _at(node: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        if isinstance(node, list):
            node = node[int(key)] if key.isdecimal() and int(key) < len(node) else _MISSING
        else:
            node = node.get(key, _MISSING) if isinstance(node, Mapping) else _MISSING
    return node


def _unmatched(path: str, full: Mapping[str, Any]) -> str:
    """Why a path with ``*`` matches nothing, and what its list entries have."""
    before, _, after = path.partition(f".{EVERY}.")
    entries = _at(full, before.split("."))
    if not isinstance(entries, list):
        return f"{EVERY} stands for the entries of a list, and {before} is none"
    keys = sorted({key for entry in entries if isinstance(entry, Mapping) for key in entry})
    words = ", ".join(keys) or "none, it is empty"
    return f"no entry of {before} has this key; its entries have: {words}.{suggestion(after, keys)}"


def _raise(where: str, faults: list[str]) -> None:
    if faults:
        raise ConfigError(f"{where}: {faults[0]}" if len(faults) == 1 else "\n  ".join([f"{where}:", *faults]))
