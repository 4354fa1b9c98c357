"""A network in use: all rows through it in batches, nothing trained, nothing measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import Mode, Outputs, Tensors, forward

Found = TypeVar("Found")


@dataclass(frozen=True)
class Inference:
    """How to pass data through networks: in what batches, from bytes or floats, how precisely."""

    batch_size: int = 256
    pictures: Pictures | None = None
    autocast: bool = False
    """bfloat16 where torch deems it safe; results come back in the parameters' type."""
    device: str | None = None
    """Where the parameters are; batches are moved there. None: where the inputs are."""

    def __call__(
        self, network: Network, parameters: Tensors, buffers: Tensors, inputs: Tensor
    ) -> Outputs:
        """Return features (n, d) and logits (n, C) of all `inputs` (n, ...)."""
        parts = list(self.batches(network, parameters, buffers, inputs))
        features = torch.cat([part.features for part in parts])
        return Outputs(features, torch.cat([part.logits for part in parts]), buffers)

    def batches(
        self, network: Network, parameters: Tensors, buffers: Tensors, inputs: Tensor
    ) -> Iterator[Outputs]:
        """Yield what the network makes of each batch; of no inputs, one empty batch."""
        kind = next(iter(parameters.values())).dtype

        def use(batch: Tensor) -> Outputs:
            return forward(network, parameters, buffers, batch, Mode())

        for outputs in self.over(use, inputs):
            yield Outputs(outputs.features.to(kind), outputs.logits.to(kind), buffers)

    def over(self, call: Callable[[Tensor], Found], inputs: Tensor) -> Iterator[Found]:
        """Yield what `call` makes of each batch of `inputs` (n, ...), normalised, without gradient.

        For networks whose outputs fit no memory together: dense ones. Under `autocast` results are
        as coarse as `call` leaves them. Of no inputs, one empty batch.
        """
        place = inputs.device if self.device is None else torch.device(self.device)
        normalised = self.pictures.on(place) if self.pictures else None
        for part in torch.split(inputs, self.batch_size):
            raw = part.to(place)
            batch = raw if normalised is None else normalised(raw)
            with torch.no_grad(), self._precision(batch):
                found = call(batch)
            yield found

    def _precision(self, batch: Tensor) -> torch.autocast:
        return torch.autocast(batch.device.type, torch.bfloat16, enabled=self.autocast)
