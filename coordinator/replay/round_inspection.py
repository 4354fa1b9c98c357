"""Inspects the answers to a stage's rounds: each beside the others, and rounds without one.

What was measured when a round was averaged stands in its entry. Other rounds are measured where
their answers are kept. A round without a device is made by the maker that made it, from what it
began with; the rounds after it did begin with what it gave.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetledger.coordinator.core.work import AverageRound
from fleetledger.coordinator.errors import BlobError, CommandError
from fleetledger.coordinator.ledger.blobs import Blobs
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.models.network_maker import NetworkMaker, config_of
from fleetledger.coordinator.replay import recipes
from fleetledger.coordinator.replay.overlay_store import KeepingStore
from fleetledger.coordinator.reports.round_inspection import (
    InspectedMoves,
    MeasuredMove,
    RoundsInspection,
    RoundWithout,
)
from fleetledger.coordinator.topics.rounds.entries import WeightsAveraged
from fleetledger.methods.errors import MethodError
from fleetledger.methods.registry import descriptor, training_coordinator
from fleetledger.methods.training.robust import Robust
from fleetledger.schemas.rounds import TRAIN
from fleetledger.schemas.values import Digest

Progress = Callable[[int, int], None]
"""Is told how many rounds of how many were read."""
Measures = list[tuple[float, float | None]]
"""Length and cosine of each input."""


@dataclass(frozen=True)
class InspectedRounds:
    """What was found, and the last weights without a device."""

    report: RoundsInspection
    weights: bytes | None


def inspect_rounds(
    home: Path,
    ledger: LedgerReader,
    store: KeepingStore,
    stage: int | None = None,
    without: str | None = None,
    progress: Progress = lambda _done, _of: None,
) -> InspectedRounds:
    """Inspect the rounds of a stage, the newest that has some; raise `CommandError` for none."""
    blobs = Blobs(ledger, store)
    made = [one for one in recipes.everything(ledger) if isinstance(one, recipes.AveragedRecipe)]
    made = [one for one in made if one.recorded.phase == TRAIN]
    if not made:
        raise CommandError("--rounds: no round gave weights yet; `coordinator rounds` shows them")
    wanted = made[-1].request.opened.stage if stage is None else stage
    made = [one for one in made if one.request.opened.stage == wanted]
    if not made:
        raise CommandError(f"--stage: no round of stage {wanted} gave weights")
    moves: dict[str, list[MeasuredMove]] = defaultdict(list)
    read, unread = [], []
    for done, recipe in enumerate(made):
        progress(done, len(made))
        try:
            measures = _measures(recipe, blobs)
        except (MethodError, BlobError) as error:
            unread.append(f"Round {recipe.recorded.number} is not measured: {error}.")
            continue
        read.append(recipe.recorded.number)
        usual = median(length for length, _ in measures)
        for item, (length, cosine) in zip(recipe.request.inputs, measures, strict=True):
            move = MeasuredMove(
                round=recipe.recorded.number, length=length, usual=usual, cosine=cosine
            )
            moves[str(ledger.entry(item.index).device)].append(move)
    remade, weights = _without(home, ledger, store, made, without)
    devices = (InspectedMoves.of(name, tuple(found)) for name, found in moves.items())
    report = RoundsInspection(
        stage=wanted,
        rounds=tuple(read),
        devices=tuple(sorted(devices, key=_order)),
        unread=tuple(unread),
        without=remade,
    )
    return InspectedRounds(report, weights)


def _order(one: InspectedMoves) -> tuple[float, float, str]:
    """Return a key that has those first who lie against the others, then those who move far."""
    return -one.against / one.answers, -one.length, one.name


def _measures(recipe: recipes.AveragedRecipe, blobs: Blobs) -> Measures:
    """Return how answers lie beside each other; raise `MethodError` or `BlobError`."""
    recorded, request = recipe.recorded, recipe.request
    if recorded.norms:
        return list(zip(recorded.norms, recorded.cosines, strict=True))
    if request.opened.buffering is not None or not descriptor(request.lineage.method).averages:
        raise MethodError("its answers began from several weights, or are more than weights")
    if not all(blobs.has(item.payload) for item in request.inputs):
        raise MethodError(
            "its answers were deleted; [rounds] retention = 'all' keeps those to come, and "
            "[rounds.robust] measures them as they come"
        )
    side = training_coordinator(request.lineage.method)
    config = replace(config_of(request.lineage, request.opened, blobs.get), robust=Robust())
    own = side.read_assignment(request.lineage.settings)
    total = side.summing(own, config, len(request.inputs))
    for item in request.inputs:
        total.add(blobs.get(item.payload), item.samples)
    found = side.combine(own, config, total).measures
    measures = (found[item.payload] for item in request.inputs)
    return [(float(f"{one.norm:.4g}"), one.cosine) for one in measures]


def _without(
    home: Path,
    ledger: LedgerReader,
    store: KeepingStore,
    made: list[recipes.AveragedRecipe],
    device: str | None,
) -> tuple[tuple[RoundWithout, ...], bytes | None]:
    """Return the rounds that a device is in, made again without it, and the last weights."""
    if device is None:
        return (), None
    maker, blobs = NetworkMaker(home, store), Blobs(ledger, store)
    found, weights = [], None
    for recipe in made:
        request = recipe.request
        rest = tuple(i for i in request.inputs if str(ledger.entry(i.index).device) != device)
        if not 0 < len(rest) < len(request.inputs):
            continue
        side = training_coordinator(request.lineage.method)
        gave = _remade(maker, request, store)
        weights = _remade(maker, replace(request, inputs=rest), store)
        sent = blobs.get(request.opened.weights.digest)
        own = side.read_assignment(request.lineage.settings)
        arrays = [side.network_of(own, each)[1] for each in (sent, gave, weights)]
        step = _apart(arrays[0], arrays[1])
        found.append(
            RoundWithout(
                round=recipe.recorded.number,
                apart=round(_apart(arrays[1], arrays[2]) / step, 4) if step else 0.0,
                weights=str(Digest.of(weights)),
            )
        )
        store.forget()
    if not found:
        raise CommandError(
            f"--without: {device!r} is in no round of the stage together with others; "
            "`fleetledger coordinator rounds` shows who counted"
        )
    return tuple(found), weights


def _remade(maker: NetworkMaker, request: AverageRound, store: KeepingStore) -> bytes:
    """Return a round's weights; raise `CommandError` where they cannot be made."""
    finished = maker.average(request)
    body = finished.happening
    if not isinstance(body, WeightsAveraged):
        reason = getattr(body, "reason", "")
        raise CommandError(
            f"--without: round {request.opened.number} cannot be made again: {reason}"
        )
    small = finished.small_blobs.get(body.weights.digest)
    found = small or store.made(body.weights.digest)
    return found if found is not None else store.get(body.weights.digest)


def _apart(one: Mapping[str, npt.NDArray[Any]], other: Mapping[str, npt.NDArray[Any]]) -> float:
    """Return how far two networks' tensors lie apart, where both have them in one shape."""
    squares = 0.0
    for name, array in one.items():
        if name in other and other[name].shape == array.shape:
            squares += float(np.sum((other[name].astype(np.float64) - array) ** 2))
    return sqrt(squares)
