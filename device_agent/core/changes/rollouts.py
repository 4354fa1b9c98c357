"""What comes of rollouts on this device: comparisons of two models, and models that settle."""

from __future__ import annotations

from dataclasses import dataclass

from fleetledger.device_agent.core.changes.durable import Durable
from fleetledger.device_agent.core.draft import Draft
from fleetledger.device_agent.core.log_words import Line
from fleetledger.device_agent.core.records import (
    OutboxKey,
    OutboxMessage,
    PendingComparison,
)
from fleetledger.schemas.count_words import count_of
from fleetledger.schemas.rollouts import ModelComparison


@dataclass(frozen=True)
class ComparisonWritten(Durable):
    """Two models were compared, and it is to be told."""

    pending: PendingComparison
    comparison: ModelComparison
    """With any number; it gets the next one."""

    def __call__(self, draft: Draft) -> None:
        body = self.comparison.model_copy(update={"number": draft.comparisons})
        draft.comparisons += 1
        draft.comparing, draft.compared = None, self.pending.pair
        draft.post(OutboxKey("comparison", body.key), OutboxMessage(0, body))

    def says(self) -> Line:
        """Tell what was compared."""
        body = self.comparison
        pairs = body.classes.values()
        images = sum(pair.images for pair in pairs)
        only = (sum(pair.only_active for pair in pairs), sum(pair.only_candidate for pair in pairs))
        text = (
            f"compared model {body.candidate_version} with model {body.active_version} on {images} "
            f"held-out samples, of which {only[0]} only the latter had right, {only[1]} only the "
            f"former, and on {count_of(body.unlabelled, 'other')}"
        )
        fields = {
            "version": body.candidate_version,
            "rollout": body.rollout,
            "group": body.group,
            "beside": body.active_version,
            "images": images,
            "only_active": only[0],
            "only_candidate": only[1],
        }
        return Line("model.compared", text, fields)
