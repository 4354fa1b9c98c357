"""What the models of a seed are asked when a stage is finished, and how a seed is resumed."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fleetledger.simulator.errors import RunError
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.folder import Kept, SeedFolder

Changes = Mapping[str, Any]
"""Fields of a stage's record that are measured here."""


class StageEvaluation(ABC):
    """Asks the exported model of each stage about the test part of a data set."""

    @abstractmethod
    def nothing(self) -> Kept:
        """Return the answers of no stage."""

    @abstractmethod
    def fits(self, kept: Kept) -> bool:
        """Return whether answers are of this seed."""

    @abstractmethod
    def ask(self, stage: StagePlan, model_folder: Path, kept: Kept) -> tuple[Changes, Kept]:
        """Return what is measured of a stage, and the answers with those of its model."""

    def kept(self, folder: SeedFolder, finished: int) -> Kept:
        """Return the answers of the finished stages; raise `RunError` for another seed's.

        A stage whose record was never written is asked about again.
        """
        if not finished:
            return self.nothing()
        kept = folder.kept()
        if kept is None or kept.stages < finished or not self.fits(kept):
            raise RunError(
                f"{folder.root}: its predictions do not belong to its stages; delete the folder, "
                "and the seed is run again"
            )
        return kept.first(finished)

    def after(
        self, stage: StagePlan, record: StageRecord, model_folder: Path, kept: Kept
    ) -> tuple[StageRecord, Kept]:
        """Return the record with what is measured here, and the answers with the stage's."""
        began = time.perf_counter()
        changes, after = self.ask(stage, model_folder, kept)
        spent = record.seconds.get("evaluation", 0.0) + time.perf_counter() - began
        seconds = {**record.seconds, "evaluation": spent}
        return record.model_copy(update={**changes, "seconds": seconds}), after
