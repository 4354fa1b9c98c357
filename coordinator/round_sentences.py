"""Sentences about rounds: what they asked, what came of them, and what a proxy chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.core import entries
from coordinator.ledger.entries import Entry
from schemas.offers import Offer
from schemas.rounds import TRAIN


def round_opened(body: entries.RoundOpened, _: Entry) -> str:
    """Say who is asked for what."""
    looking = f" Only looking at images: {names_of(body.observers)}." if body.observers else ""
    what = "to train" if body.phase == TRAIN else f"for phase {body.phase!r}"
    after = "" if body.follows is None else f", going on from what they did in round {body.follows}"
    return (
        f"Round {body.number} (stage {body.stage}, {body.round_of_stage} of "
        f"{body.rounds_of_stage}) asks {names_of(body.cohort)} {what} from weights "
        f"{body.weights.digest.short}{after}.{looking}"
    )


def round_closed(body: entries.RoundClosed, _: Entry) -> str:
    """Say why a round closed, and what counts."""
    missing = f" Missing: {names_of(body.missing)}." if body.missing else ""
    failed = f" Gave no answer and said why: {names_of(body.failed)}." if body.failed else ""
    refused = "".join(
        f" Refused: {names_of(devices)} ({reason})." for reason, devices in body.refused.items()
    )
    what = f"{len(body.counted)} answers count" if body.counted else "it comes to nothing"
    less = "".join(
        f" Entry {index} counts as {samples} samples, its share."
        for index, samples in body.weights.items()
    )
    said = f"{less}{missing}{refused}{failed}"
    return f"Round {body.number} closed because of {body.reason}: {what}.{said}"


def weights_averaged(body: entries.WeightsAveraged, _: Entry) -> str:
    """Say what came of the answers."""
    if body.unchanged:
        return (
            f"Round {body.number} (phase {body.phase!r}) left the weights as they are. What came "
            f"of {len(body.inputs)} answers about {body.samples} samples, whose exact sum has the "
            f"digest {body.aggregate.short}, goes with them: {files(body.extras)}."
            + "".join(f" Note: {remark}." for remark in body.remarks)
        )
    return (
        f"Round {body.number} gave weights {body.weights.digest.short}: the mean of "
        f"{len(body.inputs)} answers learned from {body.samples} samples, whose exact sum has the "
        f"digest {body.aggregate.short}." + "".join(f" Note: {remark}." for remark in body.remarks)
    )


def weights_pruned(body: entries.WeightsPruned, _: Entry) -> str:
    """Say whose results are deleted."""
    rounds = ", ".join(str(number) for number in body.numbers)
    return (
        f"What round{'s' if len(body.numbers) > 1 else ''} {rounds} gave is deleted: that of the "
        f"newest {body.kept_rounds} is kept, and what a model or a device needs."
    )


def round_failed(body: entries.RoundFailed, _: Entry) -> str:
    """Say why nothing came of a round."""
    return f"Round {body.number} came to nothing: {body.reason}."


def rounds_stopped(body: entries.RoundsStopped, _: Entry) -> str:
    """Say why a stage asks nothing more."""
    return f"{body.reason[:1].upper()}{body.reason[1:]}."


def rounds_resumed(body: entries.RoundsResumed, _: Entry) -> str:
    """Say why a stage goes on."""
    return f"Stage {body.stage} goes on with its rounds: {body.reason}."


def old_model_chosen(body: entries.OldModelChosen, _: Entry) -> str:
    """Say what a proxy scored and chose."""
    notes = "".join(f" Note: {remark}." for remark in body.remarks)
    return f"{_scored(body)} {_distilled(body)}{notes}"


def _scored(body: entries.OldModelChosen) -> str:
    if body.newest is None or body.winner is None:
        return f"The proxy has nothing to score the model of round {body.number} by."
    task = " New gradients began a task with this round." if body.shifted else ""
    compared = ", ".join(f"round {model.round} {model.score:.3f}" for model in body.scored)
    return (
        f"The proxy scored the model of round {body.number} at {body.newest.score:.3f}, by "
        f"{body.images} images out of {body.gradients} sets of gradients.{task} Scores of this "
        f"task: {compared}; the best is that of round {body.winner.round}."
    )


def _distilled(body: entries.OldModelChosen) -> str:
    within, entering = _slot(body.previous), _slot(body.current)
    if body.previous is None and body.current is None:
        return "Devices have no old model to distil from yet."
    return (
        f"Devices in the present task distil from {within}, those that enter the next one from "
        f"{entering}."
    )


def _slot(model: entries.OldModel | None) -> str:
    if model is None:
        return "no old model yet"
    return f"the model of round {model.round} ({model.weights.digest.short})"


def old_model_missed(body: entries.OldModelMissed, _: Entry) -> str:
    """Say that a proxy was waited for in vain."""
    return (
        f"The proxy did not score the model of round {body.number} within {body.seconds:g} s; "
        "devices go on with the old models that they have."
    )


def files(extras: Mapping[str, Offer]) -> str:
    """Return files by name and digest."""
    named = (f"{name} {offer.digest.short}" for name, offer in sorted(extras.items()))
    return ", ".join(named) or "nothing"


def names_of(names: tuple[Any, ...]) -> str:
    """Return names as they stand in a sentence."""
    return ", ".join(str(name) for name in names) or "no classes"
