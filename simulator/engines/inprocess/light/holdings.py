"""What each light device holds: the samples that reached it, as its agent would list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fleetledger.device_agent.core.records import Sighting
from fleetledger.device_agent.core.scans import sight
from fleetledger.device_agent.core.training import images_asked
from fleetledger.methods.training.exchange import Exemplars, LocalData
from fleetledger.schemas.rounds import RoundOrder
from fleetledger.schemas.values import ClassName, DeviceId, Digest
from fleetledger.simulator.datasets.samples import SampleSet
from fleetledger.simulator.engines.network_inputs import SampleInputs
from fleetledger.simulator.engines.paths import image_path
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.virtual.parts import Delivery, Lister
from fleetledger.simulator.virtual.scenes import SizedScenes

if TYPE_CHECKING:
    from fleetledger.learning.training.resident import Residence, ResidentSamples

TrainInputs = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
_SHARED_BYTES = 2 << 30
"""Sets whose inputs take more are read again each time."""


@dataclass(frozen=True, eq=False)
class HeldSamples:
    """The samples of a device that an order asks for, without their inputs."""

    indices: npt.NDArray[np.int64]
    """Of training samples; for workers, the rows of the shared inputs."""
    class_names: tuple[ClassName, ...]
    digests: tuple[Digest, ...]
    exemplars_as: Exemplars

    def local_data(self, inputs: TrainInputs | ResidentSamples) -> LocalData:
        """Return them with their inputs, one row each."""
        return LocalData(inputs, self.class_names, self.digests, self.exemplars_as)


@dataclass(frozen=True, eq=False)
class _Held:
    """Training samples in the order of their paths, each picture once."""

    indices: npt.NDArray[np.int64]
    labels: tuple[int, ...]
    digests: tuple[Digest, ...]


_NOTHING = _Held(np.empty(0, np.int64), (), ())
_KEPT_BYTES = 64 << 20
"""Of data that were put together and are kept until they change; what is above is made again."""


@dataclass(frozen=True)
class HeldRows:
    """Class names that an order asks for, by label; None for classes that it leaves out."""

    names: tuple[ClassName | None, ...]
    order: RoundOrder = field(compare=False)

    @classmethod
    def of(cls, order: RoundOrder, class_names: Sequence[ClassName]) -> HeldRows:
        """Return the rows of an order; aliases count as what they mean."""
        asked = set(order.class_names)
        meant = (order.aliases.get(name, name) for name in class_names)
        return cls(tuple(name if name in asked else None for name in meant), order)


class Holdings:
    """The samples of a fleet's devices."""

    def __init__(
        self,
        train: SampleSet,
        plan: FleetPlan,
        inputs: SampleInputs,
        exemplars: Exemplars,
        device: str = "cpu",
    ) -> None:
        """Take what is dealt; `device` is where agents are computed, as torch names it."""
        self._train = train
        self._dealt = plan.dealt
        self._inputs = inputs
        self._device = device
        self._exemplars = exemplars
        self._scenes = inputs.train if isinstance(inputs.train, SizedScenes) else None
        self._lister = Lister(train)
        self._held: dict[DeviceId, _Held] = {}
        self._sighted: dict[DeviceId, Mapping[Digest, Sighting]] = {}
        """What is held of pictures with masks, each of which shows several classes."""
        self._deliveries = 0
        self._kept: dict[DeviceId, LocalData | None] = {}
        self._kept_bytes = 0
        self._kept_for: tuple[int, HeldRows] | None = None
        """Deliveries and the order's rows, of which the kept data are."""

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes, in the order of the labels."""
        return self._train.class_names

    def bring(self, deliveries: Mapping[DeviceId, Sequence[Delivery]]) -> None:
        """Let everything that has been delivered to devices lie on them."""
        self._deliveries += 1
        for device, delivered in deliveries.items():
            if self._scenes is None:
                self._held[device] = self._listed(delivered)
            else:
                found = self._lister.scanned(delivered).images
                self._sighted[device] = sight(found, counted={})[0]

    def data(self, device: DeviceId, rows: HeldRows) -> LocalData | None:
        """Return what a device trains on by an order; None where there is nothing.

        They are the same object in every round, as far as there is room to keep them.
        """
        if self._kept_for != (self._deliveries, rows):
            self._kept, self._kept_bytes, self._kept_for = {}, 0, (self._deliveries, rows)
        if device in self._kept:
            return self._kept[device]
        held = self._asked(device, rows)
        if isinstance(held, HeldSamples):
            held = held.local_data(self._inputs_of(held.indices))
        self._kept_bytes += 0 if held is None else _bytes_of(held)
        if self._kept_bytes <= _KEPT_BYTES:
            self._kept[device] = held
        return held

    def samples(self, device: DeviceId, rows: HeldRows) -> HeldSamples | LocalData | None:
        """Return the same for workers: the rows of `shared`, or data where nothing is shared."""
        if self.shared is None:
            return self.data(device, rows)
        held = self._asked(device, rows)
        if isinstance(held, HeldSamples):
            return replace(held, indices=np.searchsorted(self._dealt, held.indices))
        return held

    @cached_property
    def shared(self) -> TrainInputs | None:
        """Inputs of all samples that are dealt to devices; None where they would fill the memory.

        None for scenes, too, whose masks depend on what else a device holds.
        """
        shape, itemsize = self._inputs.shape, 1 if self._inputs.preprocessing else 4
        if self._scenes or len(self._dealt) * int(np.prod(shape)) * itemsize > _SHARED_BYTES:
            return None
        inputs: TrainInputs = self._inputs.train(self._dealt)
        return inputs

    @cached_property
    def _residence(self) -> Residence | None:
        """Inputs of all samples that are dealt, on an accelerator that has room for them.

        None for scenes, whose masks depend on what else a device holds.
        """
        if self._device == "cpu" or self._scenes or not len(self._dealt):
            return None
        from fleetledger.learning.training.resident import Residence  # noqa: PLC0415 - needs torch

        def read(rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
            return self._inputs.train(self._dealt[rows])

        return Residence.of(read(np.zeros(1, np.int64)), len(self._dealt), read, self._device)

    def _inputs_of(self, indices: npt.NDArray[np.int64]) -> TrainInputs | ResidentSamples:
        """Return the inputs of training samples: there, or in the host's memory."""
        if self._residence is not None:
            return self._residence.samples(np.searchsorted(self._dealt, indices))
        inputs: TrainInputs = self._inputs.train(indices)
        return inputs

    def _asked(self, device: DeviceId, rows: HeldRows) -> HeldSamples | LocalData | None:
        if self._scenes is not None:
            images = images_asked(self._sighted.get(device, {}), rows.order)
            return self._scenes.local_data(images) if images else None
        held = self._held.get(device, _NOTHING)
        found = [rows.names[label] for label in held.labels]
        names = tuple(name for name in found if name is not None)
        if not names:
            return None
        if len(names) == len(found):
            return HeldSamples(held.indices, names, held.digests, self._exemplars)
        chosen = [row for row, name in enumerate(found) if name is not None]
        digests = tuple(held.digests[row] for row in chosen)
        return HeldSamples(held.indices[chosen], names, digests, self._exemplars)

    def _listed(self, delivered: Sequence[Delivery]) -> _Held:
        train = self._train
        names = train.class_names
        listed = sorted(
            (image_path(names[label], stage, index), index, label)
            for stage, indices in delivered
            for index, label in zip(indices.tolist(), train.labels[indices].tolist(), strict=True)
        )
        # An image that lies there twice counts once, under the first of its paths.
        first: dict[Digest, tuple[int, int]] = {}
        for _, index, label in listed:
            first.setdefault(train.digest(index), (index, label))
        return _Held(
            np.array([index for index, _ in first.values()], np.int64),
            tuple(label for _, label in first.values()),
            tuple(first),
        )


def _bytes_of(data: LocalData) -> int:
    return data.inputs.nbytes + (0 if data.masks is None else data.masks.nbytes)
