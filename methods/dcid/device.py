"""DCID on a device: share, train, distil, measure, as the order's phase says.

    share                 images of its own, without labels            `site`
    imprint               sums of its new images' features             `site`
    train, train-alone    DID (1), (2)                                 `training`
    distil                DCD (3), from its model after DID            `distillation`
    means                 sums of its anchors' features                `site`

Pure functions of bytes and pictures; an engine of `learning.training` runs in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetledger.learning.networks.pictures import Pictures
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.learning.training.shared_inference import SENT, InferenceRequest
from fleetledger.learning.training.work import Trained
from fleetledger.methods.dcid import distillation, training
from fleetledger.methods.dcid.assignment import (
    DISTIL,
    IMPRINT,
    MEANS,
    SHARE,
    TRAIN_ALONE,
    DcidAssignment,
)
from fleetledger.methods.dcid.memory import read_memory
from fleetledger.methods.dcid.site import (
    Site,
    SiteState,
    begin_imprinting,
    begin_means,
    begin_sharing,
    finish_imprinting,
    finish_means,
    finish_sharing,
    rows_of_means,
    rows_to_imprint,
)
from fleetledger.methods.errors import MethodError
from fleetledger.methods.training.exchange import ClientUpdate, FitInstruction, FitJob, LocalData
from fleetledger.methods.training.sides import TrainingDevice
from fleetledger.schemas.rounds import TRAIN


class DcidDevice(TrainingDevice[DcidAssignment, SiteState]):
    """Does what a phase asks of a site."""

    assignment_type = DcidAssignment

    def begin(
        self,
        assignment: DcidAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings | None = None,
    ) -> FitJob[SiteState] | None:
        """Return what is to be done, or None where this site has nothing for the phase.

        `pictures` says how bytes become inputs. Raises `MethodError` for files that do not fit.
        """
        engine = engine or TrainingEngineSettings()
        site = _site(assignment, instruction, data, memory, pictures, engine)
        phase = instruction.round.phase
        if phase == SHARE:
            return begin_sharing(site)
        if phase == IMPRINT:
            return begin_imprinting(site)
        if phase in (TRAIN, TRAIN_ALONE):
            return training.begin(site)
        if phase == DISTIL:
            return distillation.begin(site)
        if phase == MEANS:
            return begin_means(site)
        raise MethodError(f"phase: {phase!r} is none of DCID's; update the agent")

    def shared_requests(
        self,
        assignment: DcidAssignment,
        instruction: FitInstruction,
        data: LocalData,
        memory: bytes | None,
        pictures: Pictures | None,
        engine: TrainingEngineSettings,
    ) -> Sequence[InferenceRequest]:
        """Return what the site asks of the model that was sent, and of the one before it."""
        phase = instruction.round.phase
        if phase not in (TRAIN, TRAIN_ALONE, IMPRINT, MEANS):
            return ()
        site = _site(assignment, instruction, data, memory, pictures, engine)
        if phase not in (IMPRINT, MEANS):
            return training.shared_requests(site)
        rows = rows_of_means(site) if phase == MEANS else rows_to_imprint(site)
        return (site.look(SENT, rows),) if rows else ()

    def finish(
        self, assignment: DcidAssignment, job: FitJob[SiteState], trained: Trained
    ) -> ClientUpdate:
        """Return the update; raise `MethodError` where training left the numbers."""
        if job.state.site.instruction.round.phase == DISTIL:
            return distillation.finish(job, trained)
        return training.finish(job, trained)

    def measured(self, assignment: DcidAssignment, job: FitJob[SiteState]) -> ClientUpdate:
        """Return images, or sums of features; raise `MethodError`."""
        phase = job.state.site.instruction.round.phase
        if phase == SHARE:
            return finish_sharing(job)
        return finish_imprinting(job) if phase == IMPRINT else finish_means(job)


DEVICE = DcidDevice()


def _site(
    assignment: DcidAssignment,
    instruction: FitInstruction,
    data: LocalData,
    memory: bytes | None,
    pictures: Pictures | None,
    engine: TrainingEngineSettings,
) -> Site:
    """Return the site with its memory of what is still there; raise `MethodError`."""
    if pictures is None:
        raise MethodError(
            "data: features of a frozen backbone, and DCID trains whole networks on pictures; "
            "import the network without a backbone"
        )
    known = read_memory(memory, assignment.network).renamed(instruction.round.aliases)
    return Site(assignment, instruction, data, known.present(data), pictures, engine)
