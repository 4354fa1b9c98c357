"""What each light device holds: the samples that reached it, as its agent would list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from methods.training import Exemplars, LocalData
from schemas.rounds import RoundOrder
from schemas.values import ClassName, DeviceId, Digest
from simulator.datasets.samples import SampleSet
from simulator.engines.network_inputs import SampleInputs
from simulator.engines.paths import image_path
from simulator.virtual.parts import Delivery


@dataclass(frozen=True, eq=False)
class _Held:
    """Training samples in the order of their paths, each picture once."""

    indices: npt.NDArray[np.int64]
    labels: tuple[int, ...]
    digests: tuple[Digest, ...]


_NOTHING = _Held(np.empty(0, np.int64), (), ())


@dataclass(frozen=True)
class HeldRows:
    """Class names that an order asks for, by label; None for classes that it leaves out."""

    names: tuple[ClassName | None, ...]

    @classmethod
    def of(cls, order: RoundOrder, class_names: Sequence[ClassName]) -> HeldRows:
        """Return the rows of an order; aliases count as what they mean."""
        asked = set(order.class_names)
        meant = (order.aliases.get(name, name) for name in class_names)
        return cls(tuple(name if name in asked else None for name in meant))


@dataclass(frozen=True)
class Version:
    """What devices hold stays as it is while this is equal."""

    deliveries: int
    rows: HeldRows


class Holdings:
    """The samples of a fleet's devices."""

    def __init__(self, train: SampleSet, sight: SampleInputs, exemplars: Exemplars) -> None:
        self._train = train
        self._sight = sight
        self._exemplars = exemplars
        self._held: dict[DeviceId, _Held] = {}
        self._deliveries = 0

    @property
    def class_names(self) -> tuple[ClassName, ...]:
        """Names of all classes, in the order of the labels."""
        return self._train.class_names

    def bring(self, deliveries: Mapping[DeviceId, Sequence[Delivery]]) -> None:
        """Let everything that has been delivered to devices lie on them."""
        self._deliveries += 1
        for device, delivered in deliveries.items():
            self._held[device] = self._listed(delivered)

    def version(self, rows: HeldRows) -> Version:
        """Return what changes when `data` of these rows would return something else."""
        return Version(self._deliveries, rows)

    def data(self, device: DeviceId, rows: HeldRows) -> LocalData | None:
        """Return the samples of a device that an order asks for; None where there are none."""
        held = self._held.get(device, _NOTHING)
        found = [rows.names[label] for label in held.labels]
        names = tuple(name for name in found if name is not None)
        if not names:
            return None
        if len(names) == len(found):
            return LocalData(self._sight.train(held.indices), names, held.digests, self._exemplars)
        chosen = [row for row, name in enumerate(found) if name is not None]
        digests = tuple(held.digests[row] for row in chosen)
        inputs = self._sight.train(held.indices[chosen])
        return LocalData(inputs, names, digests, self._exemplars)

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
