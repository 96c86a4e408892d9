"""The conformance kit: checks that prove a component right, or say what is wrong, for plugin authors.

As functions::

    results = check_rpe(spec)

in pytest::

    @pytest.mark.parametrize("check", rpe_checks(spec), ids=str)
    def test_conformance(check):
        check()

and as ``kdlgt check NAME``. A check that does not apply is skipped with a written reason; nothing passes silently.
"""

from kdlgt.testing.absolute import absolute_checks, check_absolute
from kdlgt.testing.check import Check, CheckResult, SkipCheck, run_checks
from kdlgt.testing.dataset import check_dataset, dataset_checks
from kdlgt.testing.feature_map import check_feature_map, feature_map_checks
from kdlgt.testing.guard import LargeTensorError, NoSquare
from kdlgt.testing.rpe import check_rpe, rpe_checks
from kdlgt.testing.sweep import label, sweep

__all__ = [
    "Check",
    "CheckResult",
    "LargeTensorError",
    "NoSquare",
    "SkipCheck",
    "absolute_checks",
    "check_absolute",
    "check_dataset",
    "check_feature_map",
    "check_rpe",
    "dataset_checks",
    "feature_map_checks",
    "label",
    "rpe_checks",
    "run_checks",
    "sweep",
]
