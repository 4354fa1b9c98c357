"""Comparisons of simulated devices: a model is asked about a picture once for all of them.

How long it takes is measured once, too: the median of some runs on its golden batch. An outlier of
one device that others took over would look like many witnesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from statistics import median

import numpy as np

from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.models.comparison.comparer import Comparer
from fleetledger.device_agent.models.comparison.images import ComparedImage
from fleetledger.device_agent.models.comparison.opinions import (
    ModelOpinion,
    ReadSample,
    SampleModel,
)
from fleetledger.device_agent.models.comparison.running_comparison import LEAST_RUNS, ComparedModel
from fleetledger.device_agent.models.inference.installed_model import Inputs, InstalledModel
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.virtual.models import SharedModels

_NOT_READ = ReadSample(np.empty(0, np.float32))


@dataclass
class KnownOpinions:
    """What models said of pictures, and the seconds that each takes for one."""

    opinions: dict[tuple[Digest, int], ModelOpinion] = field(default_factory=dict)
    """By manifest, and by the file to which the pictures of all devices are links."""
    seconds: dict[Digest, float] = field(default_factory=dict)

    def seconds_of(self, model: InstalledModel, golden: Sequence[Inputs]) -> float:
        """Return the median seconds of a sample, measured the first time."""
        digest = model.manifest.digest
        if digest not in self.seconds:
            asked = SampleModel(model)
            runs = [asked.golden(one) for one in islice(cycle(golden), LEAST_RUNS + 1)]
            self.seconds[digest] = median(runs[1:])  # the first one also warms it up
        return self.seconds[digest]


class KnownModel(SampleModel):
    """A model whose opinions are kept; where it gives none, it is asked again."""

    def __init__(self, model: InstalledModel, known: KnownOpinions, seconds: float) -> None:
        super().__init__(model)
        self._known = known.opinions
        self._seconds = seconds
        self._digest = model.manifest.digest

    def prepare(self, image: ComparedImage) -> ReadSample | None:
        """Read an image that is not known; None where that cannot be done."""
        return _NOT_READ if self._key(image) in self._known else super().prepare(image)

    def golden(self, inputs: Inputs) -> float:
        """Return the seconds of a sample."""
        return self._seconds

    def ask(self, image: ComparedImage, prepared: ReadSample) -> ModelOpinion:
        """Return what the model says; raise as `SampleModel` does."""
        key = self._key(image)
        if key not in self._known:
            said = super().ask(image, prepared)
            self._known[key] = replace(said, reply=replace(said.reply, seconds=self._seconds))
        return self._known[key]

    def _key(self, image: ComparedImage) -> tuple[Digest, int]:
        return self._digest, image.path.stat().st_ino


class SharedComparer(Comparer):
    """Compares models of one device; what it frees stays with the process, for the next one."""

    def __init__(self, home: AgentHome, models: SharedModels, known: KnownOpinions) -> None:
        super().__init__(home, models, None, None, lambda _: None)
        self._known = known

    def leave(self) -> None:
        """Let go of the comparison that is under way."""
        self._under_way = None

    def _compared(self, model: InstalledModel, names: tuple[ClassName, ...]) -> ComparedModel:
        compared = super()._compared(model, names)
        if model.of_pixels:
            return compared
        seconds = self._known.seconds_of(model, compared.golden)
        return replace(compared, asked=KnownModel(model, self._known, seconds))
