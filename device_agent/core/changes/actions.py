"""What the coordinator wants of the device: assignment and desired model, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line, because, warning
from fleetledger.device_agent.core.records import SignedNews
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.values import BootId, Digest
from fleetledger.schemas.variants import VariantName


@dataclass(frozen=True)
class DesiredTaken(Durable):
    """A newer desired model replaces the one that was known."""

    desired: DesiredModel
    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        draft.desired, draft.ledger_boot = self.desired, self.ledger_boot
        manifest = self.desired.manifest.digest
        if draft.comparing is not None and draft.comparing.candidate.manifest != manifest:
            draft.comparing = None
        if draft.settling is not None and draft.settling.model.manifest != manifest:
            draft.settling = None

    def says(self) -> Line:
        """Tell what the device is to run."""
        version, mode = self.desired.version, self.desired.mode or "run"
        fields = {"version": version, "index": self.desired.action, "mode": mode}
        return Line("model.asked", f"asked to {mode} model {version}", fields)


@dataclass(frozen=True)
class ActionsForgotten(Durable):
    """The ledger is shorter than it was: its actions begin anew."""

    ledger_boot: BootId

    def __call__(self, draft: Draft) -> None:
        forget_actions(draft, self.ledger_boot)


@dataclass(frozen=True)
class ActionEnded(Durable):
    """A desired model was brought to an end, and this is what is reported of it."""

    action: int | None
    """None for news of a model that was taken before, without a new action."""
    status: ModelStatus

    def __call__(self, draft: Draft) -> None:
        draft.status = self.status
        if self.action is not None:
            draft.acted = self.action

    def says(self) -> Line:
        """Tell what runs now, or why the former model stays."""
        status, version = self.status, self.status.version
        if status.state == "active":
            former = status.previous_version
            fields = {"version": version, "index": self.action, "previous": former}
            text = f"runs model {version} from here on" + (
                f"; before it {former}" if former else ""
            )
            return Line("model.switched", text, fields)
        if status.state == "shadowing":
            fields = {"version": version, "index": self.action}
            return Line("model.shadowed", f"keeps model {version} beside the one that runs", fields)
        back = status.state == "rolled_back"
        event, came = (
            ("model.rolled_back", "was rolled back") if back else ("model.refused", "was not taken")
        )
        return warning(
            event,
            f"model {version} {came}{because(status.reason)}",
            version=version,
            index=self.action,
            reason=status.reason,
        )


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
class CheckpointForgotten(Durable):
    """The owner lets the ledger begin anew: what it has proven, and its actions, are forgotten."""

    def __call__(self, draft: Draft) -> None:
        draft.seen, draft.heard, draft.silent = None, SignedNews(), 0.0
        forget_actions(draft, None)


def forget_actions(draft: Draft, ledger_boot: BootId | None) -> None:
    """Forget what a ledger wanted that is not there any more."""
    draft.assignment = draft.desired = draft.acted = draft.waited = None
    draft.comparing = draft.compared = draft.settling = None
    draft.ledger_boot = ledger_boot
    draft.nothing.clear()
    draft.reported.clear()
