"""Absolute encodings of nodes: Laplacian eigenvectors and return probabilities of random walks."""

from __future__ import annotations

import attrs

from kdlgt.graph.absolute import LaplacianEigenvectors, ReturnProbabilities
from kdlgt.graph.spectrum import End
from kdlgt.registry import AbsoluteSpec, hookimpl

__all__ = ["LaplacianOptions", "RandomWalkOptions"]


@attrs.frozen(kw_only=True)
class LaplacianOptions:
    """Options of ``laplacian``.

    Attributes:
        width: number of eigenvectors; zero-padded on graphs that have fewer.
        end: ``smallest`` for smooth vectors, ``largest`` for oscillating ones.
    """

    width: int = 8
    end: End = "smallest"


@attrs.frozen(kw_only=True)
class RandomWalkOptions:
    """Options of ``random_walk``.

    Attributes:
        width: return probabilities after 1..width steps.
    """

    width: int = 16


def _laplacian(options: LaplacianOptions) -> LaplacianEigenvectors:
    return LaplacianEigenvectors(options.width, options.end)


def _random_walk(options: RandomWalkOptions) -> ReturnProbabilities:
    return ReturnProbabilities(options.width)


@hookimpl
def kdlgt_absolute_encodings() -> list[AbsoluteSpec]:
    """The encodings ``laplacian`` and ``random_walk``."""
    return [
        AbsoluteSpec(
            name="laplacian",
            factory=_laplacian,
            options=LaplacianOptions,
            summary="eigenvectors of the normalised Laplacian, deterministic up to the choice within equal eigenvalues",
            source="Dwivedi and Bresson, A Generalization of Transformer Networks to Graphs, 2021",
        ),
        AbsoluteSpec(
            name="random_walk",
            factory=_random_walk,
            options=RandomWalkOptions,
            summary="probabilities that a random walk is back after 1, 2, ... steps",
            source="Dwivedi et al., GNNs with Learnable Structural and Positional Representations, ICLR 2022",
        ),
    ]
