"""Whether a model is better than the one before, for which class, where it runs, what made it."""

from __future__ import annotations

import math
from itertools import islice, pairwise
from typing import Literal

from fleetledger.coordinator.core.state_fold import state_of
from fleetledger.coordinator.dashboard.page import PageModel
from fleetledger.coordinator.dashboard.parts.plot import scale_from
from fleetledger.coordinator.dashboard.sources import (
    Asked,
    NotThereError,
    Sources,
    count_of,
    number_in_path,
)
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.reports import models
from fleetledger.coordinator.reports.contributions import contributors
from fleetledger.coordinator.reports.model_waits import version_wait
from fleetledger.coordinator.reports.models import ClassPair, ProviderRow, VersionRefusal
from fleetledger.coordinator.reports.old_and_new_classes import (
    ClassCount,
    class_counts,
    correct_ratios,
    newest_classes,
)
from fleetledger.coordinator.reports.rollouts.lookup import summaries
from fleetledger.coordinator.reports.rollouts.report import RolloutSummary
from fleetledger.coordinator.reports.waits import Wait
from fleetledger.coordinator.topics.models.queries import ModelReport, model_facts
from fleetledger.coordinator.topics.models.stack import earlier
from fleetledger.coordinator.topics.models.state import DeviceMeasurement, MeasuredAll, ModelVersion
from fleetledger.coordinator.topics.releases.views import ReleaseRow, releases
from fleetledger.runtime.strict import Strict
from fleetledger.transport.pages.words import percent, plural

DRAWN = 14
"""Versions of the lineage that are drawn."""
SHOWN = 15
"""Devices of a page of the list of measurements."""
_ROLLOUTS = 5
"""That are named, newest first."""
_SURE = 2.326
"""Standard deviations that chance alone exceeds in one of a hundred."""
Verdict = Literal["worse", "better", "no evidence", "new", "not compared"]


class ClassLine(Strict):
    """A class on devices, under this version and the one before."""

    name: str
    new: bool
    """It came in the newest stage that the model knows."""
    correct: int
    total: int
    share: float | None
    before: float | None
    """Under the version before, on the devices that measured both."""
    now: float | None
    """Under this one, on the same devices."""
    verdict: Verdict


class DrawnVersion(Strict):
    """A version in the drawing of the lineage; `x` in the drawing's units."""

    version: int
    x: float
    running: int
    after_retraction: bool


class DrawnStage(Strict):
    """The versions of a stage in the drawing."""

    stage: int
    classes: int
    left: float
    right: float


class ModelLineage(Strict):
    """The versions around this one that came of the same frozen model or network."""

    digest: str
    versions: tuple[DrawnVersion, ...]
    stages: tuple[DrawnStage, ...]
    retractions: tuple[int, ...]
    """Entries by which something left the sum before one of the versions."""


class ParityPart(Strict):
    """Whether what devices compute is what was solved."""

    runtime: str
    samples: int
    providers: tuple[ProviderRow, ...]


class RunningLine(Strict):
    """Where the version runs."""

    desired: bool
    """Whether all devices are to run it."""
    goes_back_to: int | None
    """The version that going back from it leads to; None where it is not desired."""
    on: int
    devices: int
    waiting: int
    """Devices that are to run it and have not said that they do."""
    refusals: tuple[VersionRefusal, ...]


class Comparison(Strict):
    """How well the version does on devices, against the one before."""

    of_pixels: bool
    all: float | None
    old: float | None
    new: float | None
    before: int | None
    on: int
    """Devices that measured this version and the one before."""
    classes: tuple[ClassLine, ...]
    scale_from: float
    """Share at which the plot's scale begins."""


class MeasuredPart(Strict):
    """Where the version was measured, the weakest first."""

    devices: int
    lines: dict[str, DeviceMeasurement]
    """By device."""
    more: int | None
    """From which place on there are more; None where there are none."""


class Made(Strict):
    """What the version was made from."""

    method: str
    contributors: int
    in_rounds: bool
    seconds: float
    remarks: tuple[str, ...]
    releases: tuple[ReleaseRow, ...]


class ModelPage(PageModel):
    """A version of the model."""

    facts: ModelReport
    """What `model show` shows."""
    lead: str
    wait: Wait | None
    """What keeps it from going out by itself."""
    before: int | None
    after: int | None
    runs: RunningLine
    comparison: Comparison
    lineage: ModelLineage
    parity: ParityPart
    measured: MeasuredPart
    made: Made
    rollouts: tuple[RolloutSummary, ...]
    """That bring it, or brought it, newest first."""


def read(sources: Sources, asked: Asked) -> ModelPage:
    """Return a version; raise `NotThereError` where there is none."""
    ledger, version = sources.ledger, number_in_path(asked, "version", "model")
    known = sources.state.models
    model = known.by_version.get(version)
    if model is None:
        raise NotThereError(f"There is no model {version}; /models lists those that there are.")
    compared, measured = _comparison(ledger, model), known.measured_all(version)
    return ModelPage(
        title=_title(model, measured, compared),
        lead=_lead(compared),
        wait=version_wait(ledger, sources.live, sources.now_ns, version),
        facts=model_facts(known, version),
        before=compared.before,
        after=min((one for one in known.by_version if one > version), default=None),
        runs=_running(ledger, model),
        comparison=compared,
        lineage=_lineage(ledger, model),
        parity=_parity(ledger, model),
        measured=_measured(ledger, version, measured, count_of(asked.query.get("measured")) or 0),
        made=_made(ledger, model),
        rollouts=tuple(summaries(ledger, sources.now_ns, limit=_ROLLOUTS, version=version)),
    )


def _comparison(ledger: LedgerReader, model: ModelVersion) -> Comparison:
    known = state_of(ledger).models
    before = max((one for one in known.by_version if one < model.version), default=None)
    both, pairs = (0, []) if before is None else models.class_pairs(ledger, model.version, before)
    of_pixels = known.measured_all(model.version).mean_iou is not None
    ratios = correct_ratios(ledger, model.version)
    newest, counts = newest_classes(ledger, model.version), class_counts(ledger, model.version)
    classes = _classes(counts, pairs, newest, tests=not of_pixels)
    return Comparison(
        of_pixels=of_pixels,
        all=ratios.all,
        old=ratios.old,
        new=ratios.new,
        before=before,
        on=both,
        classes=classes,
        scale_from=scale_from(
            share
            for line in classes
            for share in (line.share, line.before, line.now)
            if share is not None
        ),
    )


def _running(ledger: LedgerReader, model: ModelVersion) -> RunningLine:
    known = state_of(ledger).models
    desired = known.desired_of_all == model.version
    below = earlier(known.stack) if desired else ()
    devices, on = len(known.devices.admitted), known.running[model.version]
    refusals = models.refused_by(ledger, model.version)
    return RunningLine(
        desired=desired,
        goes_back_to=below[0] if below else None,
        on=on,
        devices=devices,
        waiting=max(0, devices - on - len(refusals)) if desired else 0,
        refusals=tuple(refusals),
    )


def _parity(ledger: LedgerReader, model: ModelVersion) -> ParityPart:
    parity = None if model.exported is None else model.exported.parity
    return ParityPart(
        runtime="" if parity is None else parity.runtime,
        samples=0 if parity is None else parity.samples,
        providers=tuple(models.providers(ledger, model.version)),
    )


def _measured(
    ledger: LedgerReader, version: int, measured: MeasuredAll, place: int
) -> MeasuredPart:
    found = models.measured_on(ledger, version, place, SHOWN + 1)
    return MeasuredPart(
        devices=measured.devices,
        lines=dict(islice(found.items(), SHOWN)),
        more=place + SHOWN if len(found) > SHOWN else None,
    )


def _made(ledger: LedgerReader, model: ModelVersion) -> Made:
    solved = ledger.entry(model.solved_index).body
    if model.source is not None:
        solved = {"method": "imported", "seconds": 0.0}
    return Made(
        method=solved["method"],
        contributors=contributors(ledger, model.version),
        in_rounds=solved.get("weights_index") is not None,
        seconds=solved["seconds"],
        remarks=tuple(solved.get("remarks", ())),
        releases=tuple(releases(ledger, version=model.version)),
    )


def _title(model: ModelVersion, measured: MeasuredAll, there: Comparison) -> str:
    known = f"Model {model.version} knows {plural(len(model.made.class_names), 'class', 'classes')}"
    if not measured.devices:
        return f"{known}; no device has measured it yet."
    compared = [
        line for line in there.classes if line.verdict in {"worse", "better", "no evidence"}
    ]
    before, worse = there.before, [line.name for line in compared if line.verdict == "worse"]
    if before is None or not compared:
        return f"{known}, and is right for {percent(measured.accuracy)} on devices."
    if not worse:
        return f"{known}, and there is no evidence that it is worse than model {before} for any."
    what = f"for {worse[0]}" if len(worse) == 1 else f"for {len(worse)} of them"
    return f"{known}, and is worse than model {before} {what}."


def _lead(there: Comparison) -> str:
    if there.all is None:
        return ""
    what = "mean IoU" if there.of_pixels else "right on devices"
    if there.old is None or there.new is None:
        return f"{percent(there.all)} {what}."
    return (
        f"Old classes: {percent(there.old)} {what}. New classes: {percent(there.new)}. "
        f"All: {percent(there.all)}."
    )


def _classes(
    counts: dict[str, ClassCount],
    pairs: list[ClassPair],
    newest: frozenset[str],
    *,
    tests: bool,
) -> tuple[ClassLine, ...]:
    paired = {pair.name: pair for pair in pairs}
    found = [
        _class_line(name, count, paired.get(name), new=name in newest, tests=tests)
        for name, count in counts.items()
    ]
    return tuple(sorted(found, key=lambda line: (line.new, _change(line), line.name)))


def _class_line(
    name: str, count: ClassCount, pair: ClassPair | None, *, new: bool, tests: bool
) -> ClassLine:
    before = pair.correct_before / pair.total_before if pair and pair.total_before else None
    return ClassLine(
        name=name,
        new=new,
        correct=count.correct,
        total=count.total,
        share=count.correct / count.total if count.total else None,
        before=before,
        now=pair.correct / pair.total if pair and pair.total and before is not None else None,
        verdict=_verdict(pair, new=new, tests=tests),
    )


def _verdict(pair: ClassPair | None, *, new: bool, tests: bool) -> Verdict:
    """Compare two shares as if the images had been drawn anew: the pooled test of proportions."""
    if pair is None or not pair.total or not pair.total_before:
        return "new" if new else "not compared"
    if not tests:
        return "not compared"
    pooled = (pair.correct + pair.correct_before) / (pair.total + pair.total_before)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / pair.total + 1 / pair.total_before))
    change = pair.correct / pair.total - pair.correct_before / pair.total_before
    if spread == 0 or abs(change) < _SURE * spread:
        return "no evidence"
    return "better" if change > 0 else "worse"


def _change(line: ClassLine) -> float:
    if line.now is None or line.before is None:
        return line.share or 0.0
    return line.now - line.before


def _lineage(ledger: LedgerReader, model: ModelVersion) -> ModelLineage:
    known = state_of(ledger).models
    found, running = models.of_lineage(known, model.digest, model.version, DRAWN), known.running
    step = 1080 / max(1, len(found) - 1)
    places = {item.version: 20 + step * place for place, item in enumerate(found)}
    retracted = models.retractions(ledger)
    former = {item.version: before.solved_index for before, item in pairwise(found)}
    marks = {
        item.version: [
            index
            for index in retracted
            if former.get(item.version, item.solved_index) < index < item.solved_index
        ]
        for item in found
    }
    return ModelLineage(
        digest=model.digest,
        versions=tuple(
            DrawnVersion(
                version=item.version,
                x=round(places[item.version] if len(found) > 1 else 560, 1),
                running=running[item.version],
                after_retraction=bool(marks[item.version]),
            )
            for item in found
        ),
        stages=_drawn_stages(models.stages_of(ledger), found, places),
        retractions=tuple(index for item in found for index in marks[item.version]),
    )


def _drawn_stages(
    stages: list[tuple[int, int, int]], found: list[ModelVersion], places: dict[int, float]
) -> tuple[DrawnStage, ...]:
    """Return under which versions each stage stands: the newest that was opened before them."""
    if len(found) < 2:
        return ()
    drawn = list[DrawnStage]()
    for item in found:
        stage = max((s for s, index, _ in stages if index < item.solved_index), default=None)
        if stage is None:
            continue
        x = round(places[item.version], 1)
        if drawn and drawn[-1].stage == stage:
            drawn[-1] = drawn[-1].model_copy(update={"right": x + 16})
        else:
            known = len(item.made.class_names)
            drawn.append(DrawnStage(stage=stage, classes=known, left=x - 16, right=x + 16))
    return tuple(drawn)
