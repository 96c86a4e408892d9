"""Feature maps: kernels ``exp(x.y)`` (and others) as inner products of features, in logs."""

from kdlgt.features.conditioned import Conditioned
from kdlgt.features.elementwise import EluPlusOne, Relu
from kdlgt.features.protocol import FeatureMap, LogFeatures, Side
from kdlgt.features.random import (
    FavorPlus,
    FavorPlusPlus,
    Hyperbolic,
    HyperbolicPlusPlus,
    RandomProjection,
    Trigonometric,
)

__all__ = [
    "Conditioned",
    "EluPlusOne",
    "FavorPlus",
    "FavorPlusPlus",
    "FeatureMap",
    "Hyperbolic",
    "HyperbolicPlusPlus",
    "LogFeatures",
    "RandomProjection",
    "Relu",
    "Side",
    "Trigonometric",
]
