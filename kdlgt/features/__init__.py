"""Feature maps: kernels ``exp(x.y)`` (and others) as inner products of features, in logs."""

from kdlgt.features.favor import FavorPlus
from kdlgt.features.protocol import FeatureMap, LogFeatures, Side

__all__ = ["FavorPlus", "FeatureMap", "LogFeatures", "Side"]
