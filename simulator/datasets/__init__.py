"""Data sets as arrays of 8-bit images, one module each, and the two things they all give."""

from simulator.datasets.images import LabelledImages, Split

__all__ = ["LabelledImages", "Split"]
