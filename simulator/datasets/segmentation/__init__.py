"""Data sets for segmentation: pictures with a class for every pixel.

`samples` says what all of them offer, `masks` what of a mask is shown in which task, and `tasks`
makes a sample of each.
"""

from fleetledger.simulator.datasets.segmentation.images import SegmentedImages
from fleetledger.simulator.datasets.segmentation.samples import SceneSet

__all__ = ["SceneSet", "SegmentedImages"]
