"""A site with an order: what its phases have in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from learning.networks.conversion import to_tensors
from learning.networks.inference import Inference
from learning.networks.pictures import Pictures
from learning.networks.torch_layers import Tensors
from learning.training.chance import Chance
from methods.dcid.assignment import DcidAssignment
from methods.dcid.holdings import Features
from methods.dcid.memory import Memory
from methods.dcid.messages import received
from methods.dcid.sessions import Before, Rows, before_session
from methods.network_weights import Arrays
from methods.training_half import LocalData, Order
from schemas.values import ClassName

_INFERENCE_BATCH = 256


@dataclass(frozen=True, eq=False)
class Site:
    """What a site has and was asked; `memory` under the names that classes have now."""

    assignment: DcidAssignment
    order: Order
    data: LocalData
    memory: Memory
    pictures: Pictures

    @property
    def names(self) -> tuple[ClassName, ...]:
        """Rows of the head that is trained."""
        return self.order.round.class_names

    @property
    def chance(self) -> Chance:
        """The chance of this site in this phase."""
        order = self.order
        asked = order.round
        return Chance(asked.seed, order.device, order.stage, asked.number, asked.phase)

    @cached_property
    def sent(self) -> Arrays:
        """The weights that were sent, with the head's new rows."""
        known = self.order.round.weights_class_names
        return received(self.assignment, self.order.weights, known, self.names)

    @cached_property
    def before(self) -> Before | None:
        """The model before the session."""
        order = self.order
        rows = Rows(order.round.weights_class_names, self.names, order.round.aliases)
        return before_session(self.assignment.network, order.weights, order.extras, rows)

    @property
    def old(self) -> int:
        """Number of classes from before the session, the first of the head."""
        return 0 if self.before is None else len(self.before.names)

    def features(self, arrays: Arrays) -> Features:
        """Return what makes features of this site's images under a model."""
        parameters, buffers = to_tensors(arrays)
        return lambda rows: self.infer(parameters, buffers, self.data.inputs[rows])[0]

    def infer(
        self, parameters: Tensors, buffers: Tensors, images: npt.NDArray[np.generic]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return features (n, d) and logits (n, C) of images under a network in use."""
        infer = Inference(_INFERENCE_BATCH, self.pictures)
        outputs = infer(self.assignment.network, parameters, buffers, torch.tensor(images))
        return outputs.features.numpy(), outputs.logits.numpy()

    def counted(self, rows: list[int]) -> dict[ClassName, int]:
        """Return how many of these rows each class has."""
        return dict(Counter(self.data.class_names[row] for row in rows))
