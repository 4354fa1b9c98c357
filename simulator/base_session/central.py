"""Where a method begins with a central first stage: what it is trained from, and where it is kept.

All runs that agree in what decides the training share one file, whatever they compare after it: a
cache below `cache_folder`, by the digest of network, images, protocol and seed.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.learning.networks.network import Network
from fleetledger.methods.errors import ContributionError
from fleetledger.methods.registry import training_coordinator
from fleetledger.methods.training.network_weights import decode_weights, encode_weights, grown
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.values import ClassName, Digest
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.network_inputs import SampleInputs, inputs_of
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.scenario.sections import EngineSettings
from fleetledger.simulator.scenario.trainer import trainer_of
from fleetledger.simulator.virtual.training import TrainerPoolSettings

Arrays = dict[str, npt.NDArray[Any]]
Indices = npt.NDArray[np.int64]

_RECIPE = 1
"""Higher when the way of training changes, so that kept weights are made anew."""


def central_base(prepared: Prepared, watch: Watch) -> bytes | None:
    """Return the weights after a central first stage; None where the fleet learns that one, too.

    None as well where a file gives them. They are trained where they are not kept yet. Raises
    `EngineError` where they cannot be had.
    """
    scenario = prepared.scenario
    trainer = trainer_of(scenario)
    if trainer is None or scenario.method.first_weights is not None:
        return None
    sight, side = inputs_of(prepared), training_coordinator(trainer.method)
    assignment = side.assign(trainer.seeded(prepared.plan.seed), sight.shape)
    if not assignment.first_weights_suffice:
        return None
    names = prepared.plan.names(prepared.plan.stages[0].classes)
    network, first, _ = side.network_of(assignment, side.first_weights(assignment))
    assert isinstance(network, Network)  # no method of pixels begins like this
    seed = assignment.settings.seed
    return _Base(prepared, sight, network, grown(first, (), names, seed), names).weights(watch)


class _Base:
    """The first stage of one seed: a network whose head has a row for each of its classes."""

    def __init__(
        self,
        prepared: Prepared,
        sight: SampleInputs,
        network: Network,
        begin: Arrays,
        names: tuple[ClassName, ...],
    ) -> None:
        self._prepared = prepared
        self._sight = sight
        self._network = network
        self._begin = begin
        self._names = names
        self._indices = dealt(prepared)

    def weights(self, watch: Watch) -> bytes:
        """Return the trained weights, as a method's coordinator sends them."""
        path = cache_folder("base-sessions") / f"{self._digest()}.safetensors"
        if not path.exists():
            _keep(path, encode_weights(self._trained(watch), self._names))
        return self._checked(path)

    def _trained(self, watch: Watch) -> Arrays:
        # torch is heavy, and weights that are kept need none
        from fleetledger.simulator.base_session.training import Lesson, train_centrally  # noqa: PLC0415

        prepared, engine = self._prepared, self._prepared.scenario.engine
        train = prepared.split.train
        row_of = {name: row for row, name in enumerate(self._names)}
        rows = [row_of[train.class_names[label]] for label in train.labels[self._indices]]
        lesson = Lesson(
            network=self._network,
            begin=self._begin,
            inputs=self._sight.train(self._indices),
            rows=rows,
            pictures=self._sight.pictures(),
            seed=prepared.plan.seed,
        )
        protocol = prepared.scenario.method.base
        trainers = replace(TrainerPoolSettings.of(engine), engine="loop")
        told = "the first stage is trained in one place"
        return train_centrally(
            lesson,
            protocol,
            trainers.for_torch(),
            lambda epoch: watch.phase(f"{told}: epoch {epoch} of {protocol.epochs}"),
        )

    def _digest(self) -> Digest:
        """Return the digest of everything that decides the weights."""
        prepared = self._prepared
        decides = {
            "recipe": _RECIPE,
            "network": repr(self._network),
            "begin": Digest.of(encode_weights(self._begin, self._names)),
            "protocol": prepared.scenario.method.base.model_dump(mode="json"),
            "seed": prepared.plan.seed,
            "data": prepared.split.train.fingerprint,
            "samples": Digest.of(np.asarray(self._indices, "<i8").tobytes()),
            "sight": prepared.preprocessing.model_dump(mode="json"),
            "backbone": Digest.of(prepared.backbone),
            "bfloat16": prepared.scenario.engine.bfloat16,
            "torch": importlib.metadata.version("torch"),
            **_other_arithmetic(prepared.scenario.engine),
        }
        return Digest.of(canonical_json(decides))

    def _checked(self, path: Path) -> bytes:
        data = path.read_bytes()
        try:
            _, names = decode_weights(data, self._network)
        except ContributionError as error:
            raise EngineError(f"{path}: damaged: {error}; delete it, and run again") from error
        _check_names(path, names, self._names)
        return data


def dealt(prepared: Prepared) -> Indices:
    """Return every training sample of the first stage that was dealt to any device, once."""
    devices = prepared.plan.stages[0].devices.values()
    indices: Indices = np.unique(np.concatenate([device.indices for device in devices]))
    return indices


def _check_names(path: Path, found: Sequence[ClassName], asked: Sequence[ClassName]) -> None:
    if tuple(found) != tuple(asked):
        raise EngineError(f"{path}: of other classes than its name says; delete it, and run again")


def _keep(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise EngineError(
            f"{path}: cannot be written: {error.strerror}; name another folder in FLEETLEDGER_CACHE"
        ) from error


def _other_arithmetic(engine: EngineSettings) -> dict[str, object]:
    """Return what else is set that may change last bits; nothing where all of it is usual."""
    usual = EngineSettings()
    return {
        name: getattr(engine, name)
        for name in ("channels_last", "tf32", "steps")
        if getattr(engine, name) != getattr(usual, name)
    }
