"""Rules of noticing: class folders that nobody knows, and images that the model is unsure about.

- A class folder whose name the assignment lacks is a transition by itself, once per name.
- Images are measured with the active model as they come, before they are counted, because a model
  that has learned an image is sure of it. Of many at once a sample is measured, in an even spread.
- Images of classes that wait are measured only when there is a history to compare them with, so
  that they do not become what is normal.
- Enough evidence that images are stranger than the device's quiet ones is a transition, and so is,
  in mode `baseline`, a batch above the device's own history, once until the level is normal again.
- Held-out images are the first quiet ones of every model (`evaluated` calls `seed`): those of
  classes that the device has, where they are enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Change, Durable
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, ask, change
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line, because
from fleetledger.device_agent.core.notices import problem, recovered, report_problems
from fleetledger.device_agent.core.records import Detecting, ImageToCount, OutboxKey, OutboxMessage
from fleetledger.device_agent.core.requests import Measure
from fleetledger.device_agent.core.standing_problems import left_out
from fleetledger.device_agent.core.state import AgentState
from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    Measurement,
    observe,
    seeded,
)
from fleetledger.schemas.assignments import MAX_NAME_BYTES
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.reports import (
    LONGEST_SECONDS,
    MAX_WAITING_CLASSES,
    Transition,
    Uncertainty,
)
from fleetledger.schemas.values import ClassName, Digest


def names_due(state: AgentState, _now: float) -> AgentDecision:
    """Report names that the fleet lacks, once each, when the folder is at rest."""
    assignment, scanning = state.records.assignment, state.scanning
    if assignment is None or scanning.done_for != assignment.action or not scanning.at_rest:
        return NOTHING_TO_DO
    if scanning.waiting.keys() <= state.records.reported:
        return NOTHING_TO_DO
    transition = Transition(
        stage=assignment.stage,
        number=state.records.transitions,
        why="class name",
        classes=_waiting(state),
    )
    return change(transition_written(transition))


def transition_written(body: Transition) -> Durable:
    """Report something new; its class names are not reported again."""

    def write(draft: Draft) -> None:
        draft.transitions = body.number + 1
        draft.reported |= set(body.classes)
        key = PartKey(stage=body.stage, part=body.number)
        draft.post(OutboxKey("transition", key), OutboxMessage(0, body))

    names = ", ".join(sorted(body.classes))
    text = f"sees something new in stage {body.stage}, by {body.why}{because(names)}"
    fields = {"stage": body.stage, "why": body.why, "classes": names}
    return Durable(write, Line("transition.noticed", text, fields))


def measure_due(state: AgentState, now: float) -> AgentDecision:
    """Measure new images with the active model, when nothing is about to replace or test it."""
    detecting, models = state.detecting, state.models
    if state.rules.detection is None or state.records.assignment is None:
        return NOTHING_TO_DO
    if detecting.began is None:
        return change(replace(detecting, began=now))
    if models.active is None or models.installing or models.evaluating or models.evaluate:
        return NOTHING_TO_DO
    if detecting.running or detecting.settled:
        return NOTHING_TO_DO
    images = _new_images(state)
    if not images:
        return change(replace(detecting, settled=True))
    chosen = _evenly(images, state.rules.measured_at_once)
    known = state.records.detector.head
    return change(replace(detecting, running=True)) + ask(
        Measure(models.active, chosen, known, state.rules.detection)
    )


def measured(state: AgentState, event: inputs.UncertaintyMeasured, now: float) -> AgentDecision:
    """Compare the values with the history, and report a transition."""
    rules = state.rules.detection
    images = state.detecting.measured + len(event.values)
    detecting = replace(state.detecting, running=False, measured=images)
    if event.head is None or rules is None:
        told = report_problems(state.told, [problem("detection", event.reason)], state.rules)
        return change(replace(detecting, settled=True, trouble=event.reason), told)
    detector, measurements = observe(
        state.records.detector, event.values, event.head, rules, event.projections
    )
    waiting = tuple(digest for digest in event.images if not _is_counted(state, digest))
    told = recovered(state.told, [detecting.trouble])
    detecting = replace(detecting, trouble="")
    changes: list[Change] = [detecting, told, images_measured(detector, waiting)]
    found = next((item for item in measurements if item.transition), None)
    if found is not None and state.records.assignment and state.models.active:
        transition = _by_entropy(state, found, _within(detecting, rules, now))
        changes.append(transition_written(transition))
    return AgentDecision(tuple(changes))


def images_measured(detector: Detector, images: tuple[Digest, ...]) -> Durable:
    """Keep what the detector makes of new images, and which of them are not counted."""

    def write(draft: Draft) -> None:
        draft.detector = detector
        draft.measured |= set(images)

    return Durable(write)


def seed(state: AgentState, event: inputs.Evaluated) -> AgentDecision:
    """Let held-out images be the first of a head's history."""
    rules = state.rules.detection
    if rules is None or event.head is None:
        return NOTHING_TO_DO
    detector = seeded(
        state.records.detector, _alike(state, event), event.head, rules, event.projections
    )
    changes: tuple[Change, ...] = (replace(state.detecting, settled=False),)
    if detector != state.records.detector:
        changes += (images_measured(detector, ()),)
    return AgentDecision(changes)


def _alike(state: AgentState, event: inputs.Evaluated) -> Sequence[float]:
    """Return the values of held-out images that are like the new ones: of classes seen here.

    Of all held-out images where the classes are not told, or these are too few.
    """
    rules = state.rules.detection
    assert rules is not None
    scanned = state.scanning.images.values()
    here = {name for sighting in scanned for name in sighting.shown}
    found = [
        value
        for value, name in zip(event.uncertainties, event.classes, strict=False)
        if name in here
    ]
    few = rules.mode != "sequential" or len(found) < rules.min_images
    return event.uncertainties if few else found


def _within(detecting: Detecting, rules: DetectionRules, now: float) -> float:
    """Return the seconds in which this device measures a tenth of `quiet_images`.

    False alarms of half of 20 devices come together within these in less than one of 1,000 times
    `quiet_images` (benchmarks/papers/detection).
    """
    elapsed = now - (now if detecting.began is None else detecting.began)
    pace = elapsed / max(1, detecting.measured)
    return min(LONGEST_SECONDS, max(0.0, pace * rules.quiet_images / 10))


def _by_entropy(state: AgentState, found: Measurement, within_seconds: float) -> Transition:
    assert state.records.assignment is not None
    assert state.models.active is not None
    return Transition(
        stage=state.records.assignment.stage,
        number=state.records.transitions,
        why="entropy",
        classes=_waiting(state),
        uncertainty=Uncertainty(
            model_version=state.models.active.version,
            images=found.images,
            value=found.uncertainty,
            baseline=found.baseline or 0.0,
            within_seconds=within_seconds,
        ),
    )


def _waiting(state: AgentState) -> Mapping[ClassName, int]:
    """Return the classes that wait, those not yet reported first, as many as a message carries."""
    reported, waiting = state.records.reported, state.scanning.waiting
    room = MAX_NAME_BYTES
    chosen: dict[ClassName, int] = {}
    for name in sorted(waiting, key=lambda name: (name in reported, name)):
        room -= len(name.encode("utf-8"))
        if room < 0 or len(chosen) == MAX_WAITING_CLASSES:
            break
        chosen[name] = waiting[name]
    return chosen


def _new_images(state: AgentState) -> list[ImageToCount]:
    """Return the images that are neither counted nor measured, sorted by path."""
    records, rules = state.records, state.rules.detection
    assert records.assignment is not None
    assert rules is not None
    known = set(records.assignment.class_names)
    ready, left = records.detector.ready(rules), left_out(state)
    found = (
        ImageToCount(sighting.path, digest, sighting.class_name)
        for digest, sighting in state.scanning.images.items()
        if digest not in records.measured
        and digest not in left
        and (ready or any(name in known for name in sighting.shown))
        and not _is_counted(state, digest)
    )
    return sorted(found, key=lambda image: image.path)


def _evenly(images: list[ImageToCount], most: int) -> tuple[ImageToCount, ...]:
    return tuple(images[:: -(-len(images) // most)])


def _is_counted(state: AgentState, digest: Digest) -> bool:
    return any(digest in images for images in state.records.counted.values())
