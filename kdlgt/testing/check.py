"""What a check is, and what comes out of it."""

from __future__ import annotations

import functools
import pathlib
import time
import traceback
import unittest
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import attrs

C = TypeVar("C")
NO_NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType({})

Status = Literal["passed", "failed", "skipped"]


class SkipCheck(unittest.SkipTest):
    """Raised by a check that does not apply; the message is the reason."""


@attrs.frozen(kw_only=True)
class CheckResult:
    """The outcome of one check on one set of options.

    Attributes:
        check: name of the check.
        options: the options in words.
        status: ``passed``, ``failed`` or ``skipped``.
        reason: why it failed or was skipped; empty when it passed.
        needs: the failed check that it needs, where that is why it was skipped; else empty.
        seconds: how long it took.
    """

    check: str
    options: str
    status: Status
    reason: str = ""
    needs: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for ``--json``."""
        return attrs.asdict(self)


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class Check:
    """A named call that raises when the component is wrong, and :class:`SkipCheck` when it does not apply.

    Attributes:
        name: what is checked.
        options: the options that it is checked with, in words.
        function: the check itself.
        needs: checks whose failure would make this one fail for the same reason; it is skipped then.
    """

    name: str
    options: str
    function: Callable[[], None]
    needs: tuple[Check, ...] = ()

    def __call__(self) -> None:
        if self.blocker:
            raise SkipCheck(f"needs the check {self.blocker!r}, which fails")
        with warnings.catch_warnings():
            # Test graphs are tiny: warnings that options exceed a graph are expected.
            warnings.simplefilter("ignore")
            self.function()

    @functools.cached_property
    def blocker(self) -> str:
        """The first check that it needs and that fails; empty when there is none."""
        return next((needed.name for needed in self.needs if needed.outcome[0] == "failed"), "")

    @functools.cached_property
    def outcome(self) -> tuple[Status, str]:
        """Status and reason, found once; whatever a component raises is a failure."""
        try:
            self()
        except unittest.SkipTest as skip:
            return "skipped", str(skip)
        except AssertionError as error:
            return "failed", str(error).strip() or _raised(error)
        except Exception as error:  # noqa: BLE001 - a component under test may raise anything
            return "failed", _raised(error)
        return "passed", ""

    def result(self) -> CheckResult:
        """Run the check and time it."""
        start = time.perf_counter()
        status, reason = self.outcome
        seconds = time.perf_counter() - start
        return CheckResult(
            check=self.name, options=self.options, status=status, reason=reason, needs=self.blocker, seconds=seconds
        )

    def __str__(self) -> str:
        return f"{self.name} [{self.options}]"

    __repr__ = __str__


def checks_of(
    case: C, functions: Mapping[str, Callable[[C], None]], options: str, needs: Mapping[str, tuple[str, ...]] = NO_NEEDS
) -> list[Check]:
    """Bind check functions to one case.

    Args:
        case: what the functions take.
        functions: by name; all others need the first.
        options: the case's options in words.
        needs: further checks that some need, by name.
    """
    first, *_ = functions
    made: dict[str, Check] = {}
    for name, function in functions.items():
        wanted = () if name == first else (first, *needs.get(name, ()))
        call = functools.partial(function, case)
        made[name] = Check(name=name, options=options, function=call, needs=tuple(made[other] for other in wanted))
    return list(made.values())


def run_checks(checks: Iterable[Check]) -> list[CheckResult]:
    """The outcome of every check, in order."""
    return [check.result() for check in checks]


def _raised(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({pathlib.Path(frame.filename).name}, line {frame.lineno})"
