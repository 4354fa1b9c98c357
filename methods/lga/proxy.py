"""The proxy's side of LGA: a pool of pictures from gradients, and scores of the fleet's models.

    receive   gradients of a device wait until the next model is to be scored
    filed     each belongs to the task that brought its class, whatever round its device trained in
    score     what waits is shuffled and inverted; the model is scored by the pictures of the
              present task; the slots of old models follow (LGA, section "selection of the best
              old model")

Pure functions of an immutable state; whoever calls them keeps it, and what goes in, on disk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fleetledger.learning.networks.conversion import to_tensors
from fleetledger.learning.networks.inference import Inference
from fleetledger.learning.networks.network import Network
from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.networks.torch_layers import head_logits
from fleetledger.methods.lga.encoding import LAYERS, Encoding
from fleetledger.methods.lga.gradient_sets import GradientSet, decode_gradients
from fleetledger.methods.lga.inversion import InversionSettings, invert
from fleetledger.methods.lga.proxy_state import Prototype, ProxyState, Waiting, read_state
from fleetledger.methods.lga.recovery import recover_label
from fleetledger.methods.lga.scoring import (
    AugmentationSettings,
    augmented,
    released_radius,
    share_right,
)
from fleetledger.methods.lga.slots import PAPER, SlotRules
from fleetledger.methods.training.network_weights import Arrays
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.proxy import Scored, ScoredModel
from fleetledger.schemas.values import ClassName, Digest

__all__ = [
    "Model",
    "Outcome",
    "ProxyRules",
    "ProxyState",
    "Waiting",
    "answer",
    "read_state",
    "receive",
    "score",
]

_LAST = f"{LAYERS}.weight"
_MOST_REMARKS, _LONGEST_REMARK = 20, 500


@dataclass(frozen=True)
class ProxyRules:
    """What a fleet's assignment says to its proxy."""

    encoding: Encoding
    inversion: InversionSettings = field(default_factory=InversionSettings)
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)
    slots: SlotRules = PAPER
    worst_distance: float = 0.05
    """Of gradients, squared, from which a search has found no picture: it is left out."""
    device: str = "cpu"
    """Where pictures are searched for, and models scored."""


@dataclass(frozen=True, eq=False)
class Model:
    """The fleet's model that is to be scored."""

    weights: Digest
    """Of its file."""
    round: int
    round_of_stage: int
    network: Network
    arrays: Arrays
    class_names: tuple[ClassName, ...]
    pictures: Pictures
    class_stages: tuple[int, ...] = ()
    """The stage that brought each class, as the coordinator's registry has it; empty: not told."""


@dataclass(frozen=True, eq=False)
class _Filed:
    """A set of gradients with the class and the task that it belongs to."""

    gradients: GradientSet
    label: int
    task: int


@dataclass(frozen=True)
class Outcome:
    """What became of a scoring."""

    newest: ScoredModel | None
    gradients: int
    """Sets of the present task that waited for it."""
    shifted: bool
    remarks: tuple[str, ...]


def receive(rules: ProxyRules, state: ProxyState, task: int, payload: bytes) -> ProxyState:
    """Return the state with gradients of a device that wait.

    Raises `ContributionError` for what is no set of gradients, or belongs to no class.
    """
    for item in decode_gradients(rules.encoding, payload):
        recover_label(item.gradients[_LAST].numpy())
    return replace(state, waiting=(*state.waiting, Waiting(task, payload)))


def score(
    rules: ProxyRules, state: ProxyState, model: Model, seed: int
) -> tuple[ProxyState, Outcome]:
    """Return the state after a model was scored, and what came of it; chance is drawn by `seed`."""
    filed, remarks = _filed(rules, state.waiting, model)
    task = max([state.slots.task, *(item.task for item in filed)])
    late = sorted({item.task for item in filed if item.task != task})
    remarks += [f"gradients of stage {one} came in stage {task}, and are left out" for one in late]
    sets = _shuffled([item for item in filed if item.task == task], seed)
    begun = _in_task(rules, state, task, arrived=bool(sets))
    found, told = _prototypes(rules, sets, model.class_names, seed)
    grown = replace(
        begun, pool=(*begun.pool, *found), waiting=(), gradients=begun.gradients + len(sets)
    )
    shifted = grown.slots.previous != state.slots.previous or grown.slots.task != state.slots.task
    remarks = [remark[:_LONGEST_REMARK] for remark in (*remarks, *told)][:_MOST_REMARKS]
    if not grown.pool:
        return grown, Outcome(None, len(sets), shifted, tuple(remarks))
    newest = ScoredModel(
        round=model.round, weights=model.weights, score=_score(rules, grown, model, seed)
    )
    slots = grown.slots.taken(newest, model.round_of_stage, rules.slots)
    return replace(grown, slots=slots), Outcome(newest, len(sets), shifted, tuple(remarks))


def answer(action: int, state: ProxyState, outcome: Outcome, seconds: float) -> Scored:
    """Return what the coordinator is told after the order of ledger entry `action`."""
    slots = state.slots
    return Scored(
        action=action,
        newest=outcome.newest,
        scored=slots.scored,
        previous=slots.previous,
        current=slots.current,
        gradients=state.gradients,
        images=len(state.pool),
        shifted=outcome.shifted,
        seconds=seconds,
        remarks=outcome.remarks,
    )


def _in_task(rules: ProxyRules, state: ProxyState, task: int, *, arrived: bool) -> ProxyState:
    """Return the state in the task of the gradients that arrived; a new one has an empty pool."""
    if not arrived:
        return state
    slots = state.slots.arrived(task, rules.slots)
    if task == state.slots.task:
        return replace(state, slots=slots)
    return replace(
        state,
        slots=slots,
        pool=(),
        gradients=0,
        omega_before=_omega_after(rules, state),
        old_classes=state.old_classes + len(state.names),
    )


def _omega_after(rules: ProxyRules, state: ProxyState) -> float:
    """Return what is remembered of a task's omega: as released that of the first one, for ever."""
    stays = rules.augmentation.released and state.old_classes > 0
    return state.omega_before if stays else state.omega


def _filed(
    rules: ProxyRules, waiting: Sequence[Waiting], model: Model
) -> tuple[list[_Filed], list[str]]:
    """Return what waits by class and task, and remarks on sets of no class that the fleet has.

    The class is read from the gradients, its task from the registry: what a device says of them
    counts only where the coordinator tells no stages.
    """
    filed, remarks, known = [], [], len(model.class_names)
    for item in waiting:
        for one in decode_gradients(rules.encoding, item.payload):
            label = recover_label(one.gradients[_LAST].numpy())
            if label < known:
                task = model.class_stages[label] if model.class_stages else item.task
                filed.append(_Filed(one, label, task))
            else:
                remarks.append(
                    f"gradients of output {label}, and the fleet has "
                    f"{count_of(known, 'class', 'classes')}: left out"
                )
    return filed, remarks


def _shuffled(sets: Sequence[_Filed], seed: int) -> list[_Filed]:
    """Return the pool in an order that does not tell which device sent what, nor who came first."""

    def place(item: _Filed) -> bytes:
        own = item.gradients.gradients[_LAST].numpy().tobytes()
        return hashlib.sha256(b"%d/" % seed + own).digest()

    return sorted(sets, key=place)


def _prototypes(
    rules: ProxyRules, sets: Sequence[_Filed], names: Sequence[ClassName], seed: int
) -> tuple[list[Prototype], list[str]]:
    """Return the pictures that were found, and remarks on those that were not."""
    if not sets:
        return [], []
    gradients = [item.gradients.gradients for item in sets]
    labels = [item.label for item in sets]
    searched = invert(rules.encoding, gradients, labels, rules.inversion, seed, rules.device)
    found, remarks = [], []
    for row, item in enumerate(sets):
        distance, name = searched.distances[row], names[item.label]
        if distance <= rules.worst_distance:  # false for one that is not a number
            trace = item.gradients.trace
            found.append(Prototype(name, searched.iterates[:, row].float(), trace))
        else:
            remarks.append(
                f"no picture of {name!r} has these gradients: {distance:.3g} away after "
                f"{count_of(rules.inversion.search.steps, 'step')}; left out"
            )
    return found, remarks


def _score(rules: ProxyRules, state: ProxyState, model: Model, seed: int) -> float:
    """Return the share of features around the pool's pictures that the model names rightly."""
    parameters, buffers = to_tensors(model.arrays, rules.device)
    infer = Inference(pictures=model.pictures, device=rules.device)
    scale = state.omega
    if rules.augmentation.released:
        scale = released_radius(state.old_classes, state.omega_before)
    features, rows = [], []
    for name in state.names:
        if name not in model.class_names:
            continue  # merged into another one since
        mine = [item for item in state.pool if item.name == name]
        seen = torch.cat([item.iterates for item in mine])
        every = infer(model.network, parameters, buffers, 255 * seen).features.cpu().numpy()
        ends = np.cumsum([len(item.iterates) for item in mine]) - 1
        around = augmented(
            every[ends].astype(np.float64),
            _variances(rules, mine, every),
            scale,
            rules.augmentation,
            f"{seed}/{name}".encode(),
        )
        features.append(around)
        rows += [model.class_names.index(name)] * len(around)
    if not features:
        return 0.0
    joined = torch.from_numpy(np.concatenate(features).astype(np.float32)).to(rules.device)
    return share_right(head_logits(parameters, joined).cpu().numpy(), rows)


def _variances(rules: ProxyRules, mine: Iterable[Prototype], features: np.ndarray) -> np.ndarray:
    """Return sigma^2 (d,): what devices sent, or of the features of a class's pictures.

    One picture has no variance: then it is 1, and noise is omega in every direction.
    """
    width = features.shape[1]
    if rules.augmentation.square_root and not rules.augmentation.released:
        return np.full(width, float(np.mean([item.trace for item in mine])))
    if len(features) < 2:
        return np.ones(width)
    return np.asarray(features.var(axis=0, ddof=1), np.float64)
