"""What becomes of variants of a frozen part on this device."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line, warning
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName


@dataclass(frozen=True)
class VariantLeftOut(Durable):
    """A variant does not run here as it should; models run on the reference instead."""

    name: VariantName
    frozen: Digest
    reason: str

    def __call__(self, draft: Draft) -> None:
        draft.left_variants[self.frozen] = self.reason

    def says(self) -> Line:
        """Tell that the reference runs, and why."""
        return warning(
            "model.variant_left",
            f"{self.name} is left for the reference: {self.reason}",
            variant=self.name,
            frozen=self.frozen,
        )


@dataclass(frozen=True)
class VariantsForgiven(Durable):
    """Variants that did not run here are tried again when the owner chooses one."""

    def __call__(self, draft: Draft) -> None:
        draft.left_variants.clear()


@dataclass(frozen=True)
class ActionReopened(Durable):
    """The model that runs is to be installed once more, with another file of its frozen part."""

    def __call__(self, draft: Draft) -> None:
        draft.acted = None
