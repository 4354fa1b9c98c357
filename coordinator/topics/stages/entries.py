"""When stages begin and end, and what devices report as new."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from fleetledger.coordinator.core.entry import OPERATOR, EntryBody, EntryContext
from fleetledger.coordinator.core.kind import Follows, Kind, LedgerTopic, notify_all_of_assignment
from fleetledger.coordinator.core.phrases import names_of
from fleetledger.coordinator.topics.clock.entries import ClockCorrected
from fleetledger.coordinator.topics.lineages.entries import LINEAGE_KINDS, Lineage
from fleetledger.coordinator.topics.stages import state
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.canonical import canonical_json
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.message import is_absent
from fleetledger.schemas.privacy import Privacy
from fleetledger.schemas.reports import Transition
from fleetledger.schemas.values import ClassName, Digest

_MAX_NAMED = 1000
"""New class names kept of one device; the rest are in the ledger only."""


class StageOpened(EntryBody):
    """Classes are to be learned: new ones, and such of earlier stages that return."""

    kind: ClassVar[str] = "stage.opened"
    stage: int = Field(ge=1)
    class_names: tuple[ClassName, ...]
    reason: str = "operator"
    privacy: Privacy | None = Field(default=None, exclude_if=is_absent)
    """How devices keep their numbers to themselves in it."""

    def say(self, at: EntryContext) -> str:
        because = "" if self.reason == OPERATOR else f" It was opened by {self.reason}."
        masks = None if self.privacy is None else self.privacy.masks
        hidden = "" if masks is None else " Devices are summed behind masks."
        return (
            f"Stage {self.stage} asks the fleet to learn {names_of(self.class_names)}."
            f"{because}{hidden}"
        )


def _open(stages: state.StagesState, body: StageOpened, at: EntryContext) -> None:
    stages.by_number[body.stage] = state.Stage(
        at.index,
        at.time_ns,
        at.time_ns,
        body.class_names,
        body.reason,
        privacy=body.privacy,
    )
    stages.changed = at.index
    for reports in stages.reports.values():
        reports.doubts = None
        for name in body.class_names:
            reports.named.pop(name, None)


class StageClosed(EntryBody):
    """The stage has what it waited for; late contributions still count."""

    kind: ClassVar[str] = "stage.closed"
    stage: int
    reason: str
    answered: int
    expected: int
    without_samples: tuple[ClassName, ...] = ()
    """Classes of the stage of which no device has given samples, in statistics."""

    def say(self, at: EntryContext) -> str:
        late = "" if self.reason.endswith(" rounds") else " Late contributions still count."
        names = self.without_samples
        lacks = f" No device has given samples of {names_of(names)}." if names else ""
        return (
            f"Stage {self.stage} closed because of {self.reason}: {self.answered} of "
            f"{count_of(self.expected, 'device')} answered.{late}{lacks}"
        )


def _close(stages: state.StagesState, body: StageClosed, at: EntryContext) -> None:
    stage = stages.by_number[body.stage]
    stage.closed_because, stage.answered, stage.expected = body.reason, body.answered, body.expected
    stage.closed_index, stage.closed_ns = at.index, at.time_ns


BOUNDS: tuple[type[StageOpened] | type[StageClosed], ...] = (StageOpened, StageClosed)
"""Where what went on in the stage before is over."""


class TransitionReported(EntryBody):
    """A device saw something new: class folders, or images that its model is unsure about."""

    kind: ClassVar[str] = "transition.reported"
    transition: Transition

    @property
    def content(self) -> Digest:
        """Digest of what was reported, by which a repeat is known."""
        return Digest.of(canonical_json(self.model_dump(mode="json")))

    def say(self, at: EntryContext) -> str:
        seen, names = self.transition.uncertainty, names_of(tuple(self.transition.classes))
        if self.transition.why == "class name":
            return f"Device {at.device} has samples of new classes: {names}."
        assert seen is not None
        classes = f" It also has folders for {names}." if self.transition.classes else ""
        return (
            f"Device {at.device} is less sure of new samples than before: {seen.value:.3f} over "
            f"{seen.images} of them under model {seen.model_version}, {seen.baseline:.3f} so far."
            f"{classes}"
        )


def _report(stages: state.StagesState, body: TransitionReported, at: EntryContext) -> None:
    transition, reports = body.transition, stages.reports.setdefault(at.maker, state.Reports())
    key = PartKey(stage=transition.stage, part=transition.number)
    # Reports of earlier stages are refused, so that no repeat of them has to be known.
    kept = {k: said for k, said in reports.transitions.items() if k.stage >= transition.stage - 1}
    reports.transitions = kept
    reports.transitions[key] = state.Reported(at.index, body.content)
    for name, images in transition.classes.items():
        if name in reports.named or len(reports.named) < _MAX_NAMED:
            reports.named[name] = images
    if transition.uncertainty is not None:
        reports.doubts = state.DoubtsReported(at.time_ns, transition.uncertainty.within_seconds)
    stages.last_report_ns = at.time_ns


def _begin_lineage(stages: state.StagesState, body: Lineage, at: EntryContext) -> None:
    """Count the time to answer from now, where a network was frozen in an open stage."""
    if stages.in_rounds and not body.in_rounds and stages.open is not None:
        stages.by_number[stages.open].opened_ns = at.time_ns
    stages.in_rounds = body.in_rounds


def _move_times(stages: state.StagesState, body: ClockCorrected, _at: EntryContext) -> None:
    """Move the times that are compared with later ones."""
    for stage in stages.by_number.values():
        stage.opened_ns -= body.by_ns
    if stages.last_report_ns is not None:
        stages.last_report_ns -= body.by_ns
    for reports in stages.reports.values():
        if (doubts := reports.doubts) is not None:
            reports.doubts = replace(doubts, time_ns=doubts.time_ns - body.by_ns)


STAGES = LedgerTopic(
    "stages",
    kinds=(
        Kind(StageOpened, _open, notify_all_of_assignment),
        Kind(
            StageClosed,
            _close,
            trouble="json_array_length(body, '$.without_samples') > 0",
        ),
        Kind(TransitionReported, _report),
    ),
    follows=(
        *(Follows(body, _begin_lineage) for body in LINEAGE_KINDS),
        Follows(ClockCorrected, _move_times),
    ),
)
