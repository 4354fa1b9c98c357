"""The rounds that are counted: all that a device does for an order, and the proxy's part of LGA.

A device looks, begins, trains, finishes. Training itself is in `training_paths`, and here it is
short: what networks compute beside it is what these counts are about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.speed.lga_training.works import drawn, order
from fleetledger.device_agent.models.training import TrainingSession
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.loop import train_alone
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.stack import train_stacked
from fleetledger.methods.dcid.assignment import DISTIL, ENSEMBLE, MEANS, TRAIN_ALONE, DcidAssignment
from fleetledger.methods.dcid.coordinator import COORDINATOR as DCID
from fleetledger.methods.dcid.device import DEVICE as SITE
from fleetledger.methods.dcid.images import encode_images
from fleetledger.methods.dcid.messages import encode_ensemble
from fleetledger.methods.dcid.model import Beginning
from fleetledger.methods.fbl.coordinator import COORDINATOR as FBL
from fleetledger.methods.fbl.device import DEVICE as FBL_DEVICE
from fleetledger.methods.lga.assignment import OLD_MODEL, LgaAssignment
from fleetledger.methods.lga.coordinator import COORDINATOR as LGA
from fleetledger.methods.lga.device import DEVICE as LGA_DEVICE
from fleetledger.methods.lga.encoding import Encoding
from fleetledger.methods.lga.inversion import SEARCH, InversionSettings, invert
from fleetledger.methods.lga.messages import received as lga_received
from fleetledger.methods.rounds.assignment import FISHER
from fleetledger.methods.rounds.coordinator import COORDINATOR as ROUNDS
from fleetledger.methods.rounds.device import DEVICE as ROUNDS_DEVICE
from fleetledger.methods.training.assignment import TrainingAssignment
from fleetledger.methods.training.exchange import SHARED, ClientUpdate, FitInstruction, LocalData
from fleetledger.methods.training.network_weights import decode_weights, encode_weights, grown
from fleetledger.schemas.rounds import TRAIN
from fleetledger.schemas.values import ClassName, DeviceId
from fleetledger.simulator.virtual import shared_inference
from fleetledger.simulator.virtual.answers import Finishing

_SIDE = 8
_SHAPE = (3, _SIDE, _SIDE)
_OLD = tuple(ClassName(f"old {number}") for number in range(2))
_NEW = tuple(ClassName(f"new {number}") for number in range(2))
_EVERY = (*_OLD, *_NEW)
PICTURES = Pictures((0.5,) * 3, (0.25,) * 3)
_IMAGES = 8

Run = Callable[[TrainingEngineSettings], object]
"""Carries a round out, on the device of the settings."""
RoundPath = Callable[[], Run]
"""Prepares a round; what that computes is not of the round."""


def round_paths() -> Mapping[str, RoundPath]:
    """Return all of them by name."""
    return {
        "lga look": lambda: lga_device(1).observe,
        "lga looks of 4": lambda: _looks(lga_device(3)),
        "lga round": lambda: lga_device(2).answer,
        "lga inversion": _inversion,
        "fbl look": lambda: fbl_device(1).observe,
        "fbl looks of 4": lambda: _looks(fbl_device(3)),
        "fbl round": lambda: fbl_device(2).answer,
        "dcid train": lambda: dcid_device(TRAIN_ALONE).answer,
        "dcid means": lambda: dcid_device(MEANS).answer,
        "dcid means of 4": _means,
        "dcid distil": lambda: distilling_device().answer,
        "rounds exemplars": lambda: rounds_device(TRAIN).answer,
        "rounds fisher": lambda: rounds_device(FISHER, seed=2).answer,
        "rounds stack of 4": _stack,
    }


@dataclass(frozen=True, eq=False)
class Asked:
    """A device with an order: its side of the method, what it was told, and what it has."""

    side: Any
    of: TrainingAssignment[Any]
    instruction: FitInstruction
    data: LocalData
    memory: bytes | None = None

    def observe(self, engine: TrainingEngineSettings) -> object:
        """Look with the fleet's model."""
        asked = (self.of, self.instruction, self.data, self.memory, PICTURES)
        return self.side.observe(*asked, engine)

    def begin(self, engine: TrainingEngineSettings) -> Any:  # noqa: ANN401 - a `FitJob`
        """Return what is to be trained."""
        asked = (self.of, self.instruction, self.data, self.memory, PICTURES)
        return self.side.begin(*asked, engine)

    def answer(self, engine: TrainingEngineSettings) -> ClientUpdate:
        """Train, or only measure, and return the update."""
        job = self.begin(engine)
        assert job is not None
        if job.work is None:
            measured: ClientUpdate = self.side.measured(self.of, job)
            return measured
        update: ClientUpdate = self.side.finish(self.of, job, train_alone(job.work, engine))
        return update


def _told(
    weights: bytes,
    rows: tuple[ClassName, ...],
    extras: dict[str, bytes],
    phase: str = TRAIN,
    stage: int = 2,
) -> FitInstruction:
    """Return an order for all classes, whose weights have `rows`; the new ones are of stage 2."""
    told = order(stage, _EVERY, rows, weights, extras, phase)
    return replace(told, stage_class_names=_NEW, class_stages=(1, 1, 2, 2))


def lga_device(seed: int) -> Asked:
    """Return a device of LGA that enters its second task: it looks, and makes gradients.

    Another seed is another fleet, none of whose models is in memory.
    """
    settings = {"seed": seed, "network": "resnet8", "batch": _IMAGES, "epochs": 1, "reserved": 8}
    of: LgaAssignment = LGA.assign(
        {**settings, "detection": "stage", "perturbation_steps": 2}, _SHAPE
    )
    first = LGA.first_weights(of)
    known = encode_weights(lga_received(of, first, (), _OLD), _OLD)
    data = _together(drawn(of, _OLD, _IMAGES), drawn(of, _NEW, _IMAGES))
    before = order(1, _OLD, (), first, {})
    remembered = LGA_DEVICE.observe(of, before, drawn(of, _OLD, _IMAGES), None, PICTURES)
    assert remembered is not None
    told = _told(known, _OLD, {OLD_MODEL: known})
    return Asked(LGA_DEVICE, of, told, data, remembered.memory)


def _inversion() -> Run:
    """Return a search for pictures with the gradients of two prototypes, of two outer steps."""
    encoding = Encoding(3, 16, 8, seed=1)
    pictures, labels = _noise(2, 16) / 255, [0, 1]
    made = encoding.gradients(torch.from_numpy(pictures), torch.tensor(labels))
    sets = [{name: values[row] for name, values in made.items()} for row in range(2)]
    search = replace(SEARCH, steps=2, inner=4, history=4)
    settings = InversionSettings(search, kept=2)
    return lambda engine: invert(encoding, sets, labels, settings, 1, engine.device)


def fbl_device(seed: int, **more: Any) -> Asked:  # noqa: ANN401 - settings of the method
    """Return a device of FBL in its second task; another seed is another fleet."""
    settings = {"network": "small_dense", "batch": 4, "epochs": 1, "detection": "stage", **more}
    of = FBL.assign({**settings, "seed": seed}, (3, 32, 32))
    weights = encode_weights(of.network.initial(1, _OLD), _OLD)
    pictures = drawn(of, _NEW, _IMAGES)
    masks = np.zeros((_IMAGES, 32, 32), np.uint8)
    masks[:, :8], masks[:, 24:] = 1, 2
    data = replace(pictures, masks=masks, mask_class_names=_NEW)
    return Asked(FBL_DEVICE, of, _told(weights, _OLD, {}), data)


@cache
def _of_dcid(phase: str, preset: str | None) -> DcidAssignment:
    """Return an assignment: of the basic framework where sites train alone, else of DCID."""
    alone = phase in (TRAIN_ALONE, MEANS)
    preset = preset or ("dcil-lucir-fedavg" if alone else "dcid-icarl")
    network = "resnet8_signed" if alone else "resnet8"
    settings = {"preset": preset, "network": network, "epochs": 1, "batch": 2 * _IMAGES}
    measures = {"distil_epochs": 1, "shared_per_class": 4, "anchors_per_class": 4}
    return DCID.assign(
        {**settings, **measures, "evaluation": "nearest-mean", "imprint_at": "sites"}, _SHAPE
    )


def dcid_device(
    phase: str, extras: dict[str, bytes] | None = None, preset: str | None = None
) -> Asked:
    """Return a site in its second session, without anchors yet."""
    of = _of_dcid(phase, preset)
    weights = encode_weights(of.network.initial(1, _OLD), _OLD)
    data = _together(drawn(of, _OLD, _IMAGES), drawn(of, _NEW, _IMAGES))
    return Asked(SITE, of, _told(weights, _OLD, extras or {}, phase), data)


def distilling_device() -> Asked:
    """Return a site that has trained, and is asked to distil from the ensemble."""
    shared = encode_images(noise_bytes(4))
    trains = dcid_device(TRAIN, {SHARED: shared})
    trained = trains.answer(TrainingEngineSettings())
    began = Beginning(trains.of, trains.instruction.weights, _OLD, _EVERY).digest  # type: ignore[arg-type]
    logits = encode_ensemble(np.zeros((4, len(_EVERY))), began)
    told = _told(trains.instruction.weights, _OLD, {SHARED: shared, ENSEMBLE: logits}, DISTIL)
    told = replace(told, round=told.round.model_copy(update={"round_of_stage": 3}))
    return replace(trains, instruction=told, memory=trained.memory)


def rounds_device(phase: str, **more: Any) -> Asked:  # noqa: ANN401 - settings of the method
    """Return a device that trains in rounds, in its second stage, with exemplars of the first.

    Another seed is another fleet.
    """
    settings = {"network": "resnet8", "epochs": 1, "exemplars": 8, "ewc": 1.0, **more}
    of = ROUNDS.assign(settings, _SHAPE)
    first, old = ROUNDS.first_weights(of), drawn(of, _OLD, _IMAGES)
    before = Asked(ROUNDS_DEVICE, of, order(1, _OLD, (), first, {}), old)
    remembered = before.answer(TrainingEngineSettings()).memory
    arrays, _ = decode_weights(first, of.network)
    weights = encode_weights(grown(arrays, (), _OLD, 1), _OLD)
    data = _together(old, drawn(of, _NEW, _IMAGES))
    return Asked(ROUNDS_DEVICE, of, _told(weights, _OLD, {}, phase), data, remembered)


def looking_fleet(asked: Asked) -> list[shared_inference.AskedMember]:
    """Return devices that are asked the same, with four, three, two images and one."""
    return [
        shared_inference.AskedMember(
            replace(asked.instruction, device=DeviceId(f"device-{number}")),
            _last(asked.data, 4 - number),
            asked.memory,
        )
        for number in range(4)
    ]


def _last(data: LocalData, count: int) -> LocalData:
    masks = None if data.masks is None else data.masks[-count:]
    names, digests = data.class_names[-count:], data.digests[-count:]
    return replace(
        data, inputs=data.inputs[-count:], class_names=names, digests=digests, masks=masks
    )


def _looks(asked: Asked) -> Run:
    """Return the looks of four devices that are computed together."""
    fleet = looking_fleet(asked)

    def run(engine: TrainingEngineSettings) -> object:
        common = shared_inference.with_shared_inference(
            asked.side, asked.of, fleet, PICTURES, engine
        )
        return [asked.side.observe(asked.of, *one, PICTURES, common) for one in fleet]

    return run


def _means() -> Run:
    """Return the measuring of four sites, whose looks are computed together."""
    asked = dcid_device(MEANS)
    fleet = looking_fleet(asked)

    def run(engine: TrainingEngineSettings) -> object:
        common = shared_inference.with_shared_inference(
            asked.side, asked.of, fleet, PICTURES, engine
        )
        begun = [asked.side.begin(asked.of, *one, PICTURES, common) for one in fleet]
        return [asked.side.measured(asked.of, job) for job in begun]

    return run


def _stack() -> Run:
    """Return a round of devices that train in a stack: begun, trained, rounded and summed."""
    asked = rounds_device(TRAIN, seed=3, network="mlp", exemplars=0, ewc=0.0)
    each = [DeviceId(f"device-{number}") for number in range(4)]

    def run(engine: TrainingEngineSettings) -> object:
        finishing = Finishing(ROUNDS_DEVICE, asked.of, engine.device)
        jobs = [
            replace(asked, instruction=replace(asked.instruction, device=one)).begin(engine)
            for one in each
        ]
        trained = train_stacked([job.work for job in jobs], engine)
        sessions = [TrainingSession(ROUNDS_DEVICE, asked.of, job) for job in jobs]
        ended = zip(each, zip(sessions, trained, strict=True), strict=True)
        return finishing.finished(dict(ended)), finishing.partial()

    return run


def _together(*parts: LocalData) -> LocalData:
    return LocalData(
        np.concatenate([part.inputs for part in parts]),
        tuple(name for part in parts for name in part.class_names),
        tuple(digest for part in parts for digest in part.digests),
    )


def _noise(count: int, side: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).integers(0, 256, (count, 3, side, side)).astype(np.float32)


def noise_bytes(count: int) -> npt.NDArray[np.uint8]:
    """Return so many pictures of noise."""
    return _noise(count, _SIDE).astype(np.uint8)
