"""What engine and workers hand each other: JSON first, then the bytes of arrays and files.

A work is a list of parts, an answer one piece of bytes. Nothing of it is trusted to make objects of
its own choice: both sides know what may come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json, to_json

from methods.training import LocalData, Partial
from schemas.rounds import Observation
from schemas.values import ClassName, DeviceId, Digest
from simulator.engines.inprocess.light.batches import Answered, Done, Said
from simulator.engines.inprocess.light.cohort import CohortResources, Declined
from simulator.engines.inprocess.light.hashing import read_hashed, told
from simulator.engines.inprocess.light.task import RoundTask
from simulator.virtual.training import TrainerPoolSettings

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Setting:
    """The first work of a program; nothing comes back but that it is there."""

    place: CohortResources
    methods: tuple[str, ...]
    method_folders: tuple[str, ...]
    """Methods that the engine's process knows, and folders where they lie."""


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """Devices to be trained."""

    devices: Sequence[tuple[DeviceId, Path | None]]
    """With the file of what each remembers."""
    data: Mapping[DeviceId, LocalData | None]
    """Of those whose data the program does not have."""
    task: RoundTask | None
    """With the first lot of a round."""
    keeps: bool
    """Whether the data are to be kept for later rounds."""
    forgets: bool
    """Whether what was kept is none of the devices' data any more."""


@dataclass(frozen=True)
class AskSum:
    """What was added in this round is wanted."""


@dataclass(frozen=True)
class Carried:
    """What came of a lot, and the seconds that it took."""

    done: Sequence[Done]
    seconds: float


@dataclass(frozen=True)
class Failed:
    """What no later try would make better."""

    text: str


Work = Setting | DeviceBatch | AskSum
Result = Carried | Failed | Partial | None
"""`None` says that a program is there."""


def encode_work(work: Work) -> list[bytes]:
    """Return the parts of a work."""
    match work:
        case Setting(place, methods, folders):
            head = {"hall": asdict(place.trainers), "pictures": _pictures(place)}
            head |= {"memories": str(place.memories), "publishes": place.publishes}
            head |= {"methods": methods, "folders": folders}
            return [to_json({"setting": head})]
        case DeviceBatch():
            return _encode_lot(work)
        case AskSum():
            return [to_json({"sum": {}})]


def decode_work(parts: Sequence[bytes]) -> Work:
    """Return the work of its parts; imports torch for a setting."""
    (kind, head), *_ = from_json(parts[0]).items()
    if kind == "setting":
        return _setting(head)
    return _lot(head, parts[1:]) if kind == "lot" else AskSum()


def encode_result(result: Result) -> bytes:
    """Return what came of a work as bytes."""
    match result:
        case None:
            return to_json({"there": {}})
        case Failed(text):
            return to_json({"failed": text})
        case Carried(done, seconds):
            outcomes = [_plain(one) for one in done]
            head = {"done": outcomes, "seconds": seconds}
            return to_json({"carried": head}, inf_nan_mode="constants")
        case Partial(numbers, arrays):
            shapes = [_shape(array) for array in arrays]
            head = {"numbers": numbers, "arrays": shapes}
            return b"\n".join((to_json({"partial": head}), b"".join(_bytes(a) for a in arrays)))


def decode_result(data: bytes, devices: Sequence[DeviceId] = ()) -> Result:
    """Return what came of a work; of a lot, `devices` are those that were in it."""
    head, _, rest = data.partition(b"\n")
    (kind, body), *_ = from_json(head).items()
    match kind:
        case "failed":
            return Failed(body)
        case "carried":
            done = [_done(*one) for one in zip(devices, body["done"], strict=True)]
            return Carried(done, body["seconds"])
        case "partial":
            shapes = body["arrays"]
            ends = list(accumulate(_size(*shape) for shape in shapes))
            places = map(slice, [0, *ends], ends)
            arrays = (_array(rest[p], *s) for p, s in zip(places, shapes, strict=False))
            return Partial(tuple(body["numbers"]), tuple(arrays))
        case _:
            return None


def _pictures(place: CohortResources) -> Any:  # noqa: ANN401 - JSON
    return None if place.pictures is None else asdict(place.pictures)


def _setting(head: dict[str, Any]) -> Setting:
    from learning.networks.pictures import Pictures  # noqa: PLC0415 - needs torch

    pictures = head["pictures"]
    if pictures is not None:
        means = {name: tuple(pictures[name]) for name in ("mean", "deviation")}
        pictures = Pictures(**{**pictures, **means})
    trainers = TrainerPoolSettings(**head["hall"])
    place = CohortResources(trainers, pictures, Path(head["memories"]), head["publishes"])
    return Setting(place, tuple(head["methods"]), tuple(head["folders"]))


def _encode_lot(lot: DeviceBatch) -> list[bytes]:
    arrays = [array for found in lot.data.values() for array in _arrays(found)]
    head = {
        "devices": [(name, memory and str(memory)) for name, memory in lot.devices],
        "data": [(name, _about(found)) for name, found in lot.data.items()],
        "task": None if lot.task is None else lot.task.described(),
        "keeps": lot.keeps,
        "forgets": lot.forgets,
    }
    files = () if lot.task is None else lot.task.files.values()
    return [to_json({"lot": head}), *map(_bytes, arrays), *files]


def _arrays(data: LocalData | None) -> Sequence[Array]:
    if data is None:
        return ()
    return (data.inputs,) if data.masks is None else (data.inputs, data.masks)


def _about(data: LocalData | None) -> Any:  # noqa: ANN401 - JSON
    if data is None:
        return None
    masks = None if data.masks is None else [_shape(data.masks), data.mask_class_names]
    return [_shape(data.inputs), data.class_names, data.digests, data.exemplars_as, masks]


def _lot(head: dict[str, Any], parts: Sequence[bytes]) -> DeviceBatch:
    left = iter(parts)
    data = {DeviceId.known(name): _data(about, left) for name, about in head["data"]}
    task = head["task"]
    if task is not None:
        files = {Digest.known(digest): next(left) for digest in task["files"]}
        task = RoundTask.read(task, files)
    devices = [
        (DeviceId.known(name), None if memory is None else Path(memory))
        for name, memory in head["devices"]
    ]
    return DeviceBatch(devices, data, task, head["keeps"], head["forgets"])


def _data(about: Any, left: Any) -> LocalData | None:  # noqa: ANN401 - JSON
    if about is None:
        return None
    shape, class_names, digests, exemplars_as, masks = about
    data = LocalData(
        _array(next(left), *shape).copy(),  # torch wants arrays that could be written to
        tuple(map(ClassName.known, class_names)),
        tuple(map(Digest.known, digests)),
        exemplars_as,
    )
    if masks is None:
        return data
    shape, shown = masks
    names = tuple(map(ClassName.known, shown))
    return replace(data, masks=_array(next(left), *shape).copy(), mask_class_names=names)


def _plain(done: Done) -> list[Any]:
    """Return what came of a device, without its name."""
    outcome, seconds = done.outcome, done.seconds
    if isinstance(outcome, Declined):
        return [seconds, outcome.reason]
    said = outcome.said
    numbers = [said.samples, said.steps, said.loss, said.stored_samples]
    seen = said.observation and said.observation.model_dump()
    files = [path and str(path) for path in (said.memory, said.gradients)]
    return [seconds, said.per_class, numbers, files, seen, told(outcome.hashed)]


def _done(device: DeviceId, values: list[Any]) -> Done:
    """Return what `_plain` was given."""
    seconds, *outcome = values
    if len(outcome) == 1:
        return Done(device, Declined(outcome[0]), seconds)
    classes, (samples, steps, loss, stored), files, observed, hashed = outcome
    per_class = {ClassName.known(name): count for name, count in classes.items()}
    memory, gradients = (None if file is None else Path(file) for file in files)
    seen = None if observed is None else Observation.model_validate(observed)
    said = Said(per_class, samples, steps, loss, stored, memory, seen, gradients)
    return Done(device, Answered(said, read_hashed(hashed)), seconds)


def _shape(array: Array) -> tuple[str, tuple[int, ...]]:
    return array.dtype.str, array.shape


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _size(kind: str, shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize


def _array(data: bytes, kind: str, shape: Sequence[int]) -> Array:
    return np.frombuffer(data, kind).reshape(shape)
