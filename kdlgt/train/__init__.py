"""Training: the loop, its run folder, and what is made of it afterwards."""

from kdlgt.train.loop import EpochRecord, Listener
from kdlgt.train.rerun import evaluate_run, predict_run
from kdlgt.train.result import RunResult
from kdlgt.train.run_folder import RunFolder
from kdlgt.train.runs import train_run, train_seeds
from kdlgt.train.session import Session

__all__ = [
    "EpochRecord",
    "Listener",
    "RunFolder",
    "RunResult",
    "Session",
    "evaluate_run",
    "predict_run",
    "train_run",
    "train_seeds",
]
