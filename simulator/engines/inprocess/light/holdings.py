"""What each light device holds: the samples that reached it, as its agent would list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from device_agent.core.records import Sighting
from device_agent.core.scanning import sight
from device_agent.core.training import images_asked
from methods.training import Exemplars, LocalData
from schemas.rounds import RoundOrder
from schemas.values import ClassName, DeviceId, Digest
from simulator.datasets.samples import SampleSet
from simulator.engines.network_inputs import SampleInputs
from simulator.engines.paths import image_path
from simulator.virtual.parts import Delivery, Lister
from simulator.virtual.scenes import SizedScenes


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


@dataclass(frozen=True)
class Version:
    """What devices hold stays as it is while this is equal."""

    deliveries: int
    rows: HeldRows


class Holdings:
    """The samples of a fleet's devices."""

    def __init__(self, train: SampleSet, inputs: SampleInputs, exemplars: Exemplars) -> None:
        self._train = train
        self._inputs = inputs
        self._exemplars = exemplars
        self._scenes = inputs.train if isinstance(inputs.train, SizedScenes) else None
        self._lister = Lister(train)
        self._held: dict[DeviceId, _Held] = {}
        self._sighted: dict[DeviceId, Mapping[Digest, Sighting]] = {}
        """What is held of pictures with masks, each of which shows several classes."""
        self._deliveries = 0
        self._kept: dict[DeviceId, LocalData | None] = {}
        self._kept_bytes = 0
        self._kept_version: Version | None = None

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

    def version(self, rows: HeldRows) -> Version:
        """Return what changes when `data` of these rows would return something else."""
        return Version(self._deliveries, rows)

    def data(self, device: DeviceId, rows: HeldRows) -> LocalData | None:
        """Return the samples of a device that an order asks for; None where there are none.

        They are the same object in every round, as far as there is room to keep them.
        """
        version = self._kept_version
        if version is None or (version.deliveries, version.rows) != (self._deliveries, rows):
            self._kept, self._kept_bytes, self._kept_version = {}, 0, self.version(rows)
        if device in self._kept:
            return self._kept[device]
        found = self._found(device, rows)
        self._kept_bytes += 0 if found is None else _bytes_of(found)
        if self._kept_bytes <= _KEPT_BYTES:
            self._kept[device] = found
        return found

    def _found(self, device: DeviceId, rows: HeldRows) -> LocalData | None:
        if self._scenes is not None:
            images = images_asked(self._sighted.get(device, {}), rows.order)
            return self._scenes.local_data(images) if images else None
        held = self._held.get(device, _NOTHING)
        found = [rows.names[label] for label in held.labels]
        names = tuple(name for name in found if name is not None)
        if not names:
            return None
        if len(names) == len(found):
            return LocalData(self._inputs.train(held.indices), names, held.digests, self._exemplars)
        chosen = [row for row, name in enumerate(found) if name is not None]
        digests = tuple(held.digests[row] for row in chosen)
        shown = self._inputs.train(held.indices[chosen])
        return LocalData(shown, names, digests, self._exemplars)

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
