"""Every error that kdlgt raises on purpose, and the wording that they share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class KdlgtError(Exception):
    """Base of all errors that kdlgt raises on purpose; the message says what was got, what is allowed, what to do."""


class ArgumentError(KdlgtError, ValueError):
    """An argument has a value outside its range, or tensors whose shapes do not fit together."""


class DtypeError(KdlgtError, TypeError):
    """Tensors of different dtypes meet where one dtype is needed."""


class AlgebraError(KdlgtError, TypeError):
    """An operation that the kind of decomposition does not have, such as scaling a kernel."""


class GraphError(KdlgtError, ValueError):
    """A graph that cannot be used: directed, an edge out of range, features with NaN, labels missing."""


class NotPreparedError(KdlgtError, KeyError):
    """A batch lacks the structure that an encoding reads; apply ``kdlgt.prepare(...)`` to the data first."""

    def __str__(self) -> str:
        return str(self.args[0])


class ConfigError(KdlgtError, ValueError):
    """A config that cannot be used; the message carries the path in the config and a suggestion."""


class PluginError(KdlgtError, RuntimeError):
    """A plugin that cannot be used: it fails on import, declares something false, or takes a name twice."""


class UnknownNameError(KdlgtError, LookupError):
    """A name that no installed plugin provides."""


class CheckpointError(KdlgtError, RuntimeError):
    """A checkpoint that cannot be used: truncated, foreign, or of another config."""


class DataError(KdlgtError, RuntimeError):
    """A data set that cannot be read or split as asked."""


class RunFolderError(KdlgtError, RuntimeError):
    """A run folder that cannot be used: it holds something else, or lacks what a command reads."""


class TrainingError(KdlgtError, RuntimeError):
    """Training cannot go on: the loss is not finite, memory has run out, or a signal asked to stop."""


class KdlgtWarning(UserWarning):
    """Base of the warnings that have a class of their own."""


class ApproximationWarning(KdlgtWarning):
    """Linear attention is far from the softmax that it estimates."""


def suggestion(got: str, available: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the available name nearest to ``got``, or an empty string."""
    near = difflib.get_close_matches(got, list(available), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


def unknown_name(what: str, got: str, available: Iterable[str]) -> UnknownNameError:
    """Build the error for a name that is not installed, e.g. ``unknown RPE 'sdp'; installed: sapd, sat, spd. ...``."""
    names = sorted(available)
    installed = ", ".join(names) or "none"
    return UnknownNameError(f"unknown {what} {got!r}; installed: {installed}.{suggestion(got, names)}")


def require_at_least(name: str, value: int, minimum: int, maximum: int | None = None) -> None:
    """Raise :class:`ArgumentError` unless the integer ``value`` lies in ``[minimum, maximum]``."""
    integer = type(value) is int
    if not integer or value < minimum or (maximum is not None and value > maximum):
        allowed = f"an integer >= {minimum}" if maximum is None else f"an integer in {minimum}..{maximum}"
        raise ArgumentError(f"{name} = {value!r}; allowed: {allowed}")
