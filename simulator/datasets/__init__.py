"""Data sets as pictures with labels, one module each; `loading.load_split` finds the right one."""

from fleetledger.simulator.datasets.images import LabelledImages, Split
from fleetledger.simulator.datasets.samples import SampleSet

__all__ = ["LabelledImages", "SampleSet", "Split"]
