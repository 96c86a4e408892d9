"""``kdlgt check``."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from kdlgt.registry import ComponentKind, Registry
    from kdlgt.testing import Check, CheckResult


def check(
    name: str,
    *,
    json_: Annotated[pathlib.Path | None, Parameter(name="--json")] = None,
    data_root: pathlib.Path | None = None,
) -> int:
    """Run the conformance kit on an installed encoding, feature map or data set; exit code 1 when a check fails.

    Parameters
    ----------
    name
        The component's name; where several kinds have it, all of them are checked.
    json_
        Write every result to this file too.
    data_root
        Folder of raw data sets, to check a data set.
    """
    from kdlgt.cli.tables import console, write_json
    from kdlgt.registry import EXTENSIONS, load_plugins

    registry = load_plugins()
    out = console()
    reports: list[dict[str, Any]] = []
    for kind in _kinds(registry, name):
        results = [each.result() for each in _checks(registry, kind, name, data_root)]
        out.print(_table(f"{EXTENSIONS[kind].label} {name}", results))
        for line in _failures(results):
            out.print(line, style="red", markup=False, highlight=False, soft_wrap=True)
        for line in (*_blocked(results), *_unverified(registry, kind, name)):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        reports.append({"name": name, "kind": kind, "results": [result.to_dict() for result in results]})
    failed = any(result["status"] == "failed" for report in reports for result in report["results"])
    write_json(json_, {"passed": not failed, "components": reports})
    return int(failed)


def _kinds(registry: Registry, name: str) -> list[ComponentKind]:
    """The kinds of component that have the name; an encoding's error when none has."""
    from kdlgt.registry import EXTENSIONS

    kinds = [kind for kind in EXTENSIONS if name in registry.specs(kind)]
    if not kinds:
        clashes = [conflict.kind for conflict in registry.conflicts if conflict.name == name]
        registry.spec(clashes[0] if clashes else "rpe", name)
    return kinds


def _checks(registry: Registry, kind: ComponentKind, name: str, data_root: pathlib.Path | None) -> list[Check]:
    from kdlgt import testing

    match kind:
        case "rpe":
            return testing.rpe_checks(registry.rpe_specs[name])
        case "feature_map":
            return testing.feature_map_checks(registry.feature_map_specs[name])
        case "absolute":
            return testing.absolute_checks(registry.absolute_specs[name])
        case "dataset":
            return testing.dataset_checks(registry.dataset_specs[name], root=data_root)


def _table(title: str, results: Sequence[CheckResult]) -> Table:
    """One row per check: over how many sets of options it passed, failed and was skipped, and why.

    A check that only waits for another one, which fails, has no row: that other one's is what matters.
    """
    from rich.table import Table

    options = len(dict.fromkeys(result.options for result in results))
    sets = "1 set of options" if options == 1 else f"{options} sets of options"
    table = Table("check", "passed", "failed", "skipped", "why skipped", title=f"{title}, {sets}")
    for check in dict.fromkeys(result.check for result in results):
        rows = [result for result in results if result.check == check]
        if all(row.needs for row in rows):
            continue
        counts = [sum(row.status == status for row in rows) for status in ("passed", "failed", "skipped")]
        reasons = dict.fromkeys(row.reason for row in rows if row.status == "skipped" and not row.needs)
        style = "red" if counts[1] else None
        table.add_row(check, *(str(count or "") for count in counts), "\n".join(reasons), style=style)
    return table


def _failures(results: Sequence[CheckResult]) -> Iterator[str]:
    for result in results:
        if result.status == "failed":
            yield f"failed: {result.check} [{result.options}]: {result.reason}"


def _blocked(results: Sequence[CheckResult]) -> Iterator[str]:
    """One line for each failed check that others need."""
    for needed in dict.fromkeys(result.needs for result in results if result.needs):
        count = len({result.check for result in results if result.needs == needed})
        start, were = ("1 check needs", "was") if count == 1 else (f"{count} checks need", "were")
        yield f"{start} {needed!r} and {were} skipped where it fails"


def _unverified(registry: Registry, kind: ComponentKind, name: str) -> Iterator[str]:
    """What an encoding claims and no check could see."""
    if kind == "rpe" and registry.rpe_specs[name].reference is None:
        yield "not verified: exactness (no reference)"
