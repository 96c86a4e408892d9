"""From a TOML file to a config."""

from __future__ import annotations

import os
import pathlib
import tomllib
from collections.abc import Iterable
from typing import Any

from kdlgt.config.convert import config_from_dict
from kdlgt.config.overrides import apply_overrides
from kdlgt.config.schema import Config
from kdlgt.errors import ConfigError, suggestion
from kdlgt.registry import Registry


def load_config(
    path: str | os.PathLike[str], overrides: Iterable[str] = (), registry: Registry | None = None
) -> Config:
    """Read a config file, apply overrides ``a.b.c=v``, and check everything.

    Args:
        path: a TOML file with the tables ``data``, ``model``, ``train``.
        overrides: see :func:`apply_overrides`.
        registry: where component names are looked up; ``None`` loads the installed plugins.

    Raises:
        ConfigError: a file that cannot be read or is not TOML; unknown keys and names, wrong types and values.
    """
    given = tuple(overrides)
    tree = apply_overrides(read_tree(path), given)
    where = f"{os.fspath(path)} with {', '.join(given)}" if given else os.fspath(path)
    return config_from_dict(tree, registry, where=where)


def read_tree(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The plain tree of a TOML file.

    Raises:
        ConfigError: the file is missing, a directory, not readable, or not TOML.
    """
    file = pathlib.Path(path)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        near = suggestion(file.name, sorted(entry.name for entry in file.parent.glob("*.toml")))
        raise ConfigError(f"{file}: there is no such file; give the path of a TOML config.{near}") from None
    except IsADirectoryError:
        raise ConfigError(f"{file}: is a directory; give the path of a TOML config in it") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not TOML: not UTF-8 text ({error.reason} at byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{file}: is not TOML: {error}; strings need quotes, tables are [model] and [[model.rpe]]"
        ) from None
