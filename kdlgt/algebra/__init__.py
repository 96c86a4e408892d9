"""The RPE algebra: what a relative positional encoding is once its parameters are applied, and how such values add.

A :class:`Decomposition` stands for a bias matrix ``B`` [H, N, N] that is never built. Values add, scale, transpose and
permute; :func:`lower` brings any sum to the one form that attention sees.
"""

from kdlgt.algebra.classify import Classification, decompose
from kdlgt.algebra.decomposition import Decomposition, Sum, permute, scale, split_coefficient, to_dense, transpose
from kdlgt.algebra.kinds import Additive, Kernel, Mixture, Multiplicative, Partition, Sparse, Zero
from kdlgt.algebra.lowering import Lowered, lower, merge
from kdlgt.algebra.operations import log_inner
from kdlgt.algebra.traceable import traceable

__all__ = [
    "Additive",
    "Classification",
    "Decomposition",
    "Kernel",
    "Lowered",
    "Mixture",
    "Multiplicative",
    "Partition",
    "Sparse",
    "Sum",
    "Zero",
    "decompose",
    "log_inner",
    "lower",
    "merge",
    "permute",
    "scale",
    "split_coefficient",
    "to_dense",
    "traceable",
    "transpose",
]
