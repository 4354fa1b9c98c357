"""What the coordinator asks of a device: the current stage, the method, the frozen model."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from fleetledger.schemas.cohorts import CohortOrder
from fleetledger.schemas.contributions import MAX_CLASSES
from fleetledger.schemas.message import Items, Message, is_absent
from fleetledger.schemas.models import AnyPreprocessing
from fleetledger.schemas.offers import MAX_FILE_URLS, FileUrl, Offer
from fleetledger.schemas.privacy import Privacy
from fleetledger.schemas.requirements import MAX_REQUIREMENTS, Requirement
from fleetledger.schemas.rounds import PhaseName, RoundOrder
from fleetledger.schemas.values import ClassName, Digest

MAX_NAME_BYTES = 40_000
"""Bytes of all class names together: an assignment lists them twice and must fit one header."""


class Assignment(Message):
    """Retained per device; a higher action number replaces a lower one."""

    kind: ClassVar[str] = "assignment"
    action: int = Field(ge=0)
    """Index of the ledger entry that led to it: later assignments have higher numbers."""
    stage: int = Field(ge=1, lt=2**31)
    method: str = Field(min_length=1, max_length=40)
    settings: dict[str, Any]
    """The method's own assignment; validated by its `messages` module."""
    lineage: Digest
    """Names the frozen model whose features are wanted by its digest; or a network by that of its
    first weights, or of these with what they are trained on."""
    frozen: Offer | None = None
    """The frozen model whose features are wanted; None where networks are trained."""
    backbone: Offer | None = None
    """A frozen model on whose features a network is trained; None where it sees the pictures."""
    base: Offer | None = None
    """Tensors of a network that nobody trains; None where all are trained."""
    preprocessing: AnyPreprocessing
    class_names: Items[ClassName] = Field(max_length=MAX_CLASSES)
    """Names that the registry knows; images of other classes wait on the device."""
    stage_class_names: Items[ClassName] = Field(max_length=MAX_CLASSES)
    """Names that this stage added."""
    max_samples_per_part: int = Field(ge=1, le=1_000_000)
    min_samples_per_class: int = Field(default=1, ge=1, le=1000)
    """Images of a class wait on the device while a new part would have fewer of it."""
    phases: Items[PhaseName] = Field(default=(), max_length=16)
    """What orders may ask for, of a network that is trained: those before a stage's rounds, those
    of a round, those after. A device tells its owner by them what would leave it."""
    round: RoundOrder | None = None
    """Given to the cohort of an open round of a method that learns in rounds."""
    urls: Items[FileUrl] = Field(default=(), max_length=MAX_FILE_URLS, exclude_if=is_absent)
    """Where some of the files may be had by HTTP, too."""
    requires: Items[Requirement] = Field(
        default=(), max_length=MAX_REQUIREMENTS, exclude_if=is_absent
    )
    """Method and network, where they are not fleetledger's own; a device that lacks one of them, or
    has other code of it, declines and says what to install."""

    privacy: Privacy | None = Field(default=None, exclude_if=is_absent)
    """How devices keep their numbers to themselves; None for as they are."""
    cohort: CohortOrder | None = Field(default=None, exclude_if=is_absent)
    """Given to the members of a masked cohort that is not summed yet."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        """Every file that the work of this assignment needs."""
        roster = None if self.cohort is None else self.cohort.roster
        every = (self.frozen, self.backbone, self.base, roster)
        files = tuple(offer for offer in every if offer is not None)
        if self.round is None:
            return files
        return (*files, self.round.weights, *self.round.extras.values())
