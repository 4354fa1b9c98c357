"""Rules of gradients, which a training makes for the proxy: a message, written with the answer.

They tell of single images, so the coordinator never gets them, and nothing is left of them here
when the proxy's receipt has come. Nobody waits for them: while the proxy is away, they stay in the
outbox, and rounds go on.
"""

from __future__ import annotations

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.changes import Durable
from fleetledger.device_agent.core.decision import NOTHING_TO_DO, AgentDecision, change
from fleetledger.device_agent.core.notices import problem, report_happened
from fleetledger.device_agent.core.records import OutboxKey, OutboxMessage, TrainingJob
from fleetledger.device_agent.core.state import AgentState
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.proxy import PrototypeGradients


def gradients_written(event: inputs.TrainingFinished) -> AgentDecision:
    """Return the message that goes with an answer; nothing where the training made none."""
    made = event.gradients
    if made is None:
        return NOTHING_TO_DO
    return change(gradients_kept(gradients_message(event.job, made), made.attached))


def gradients_kept(body: PrototypeGradients, attached: bytes | None) -> Durable:
    """Put gradients into the outbox; `attached` is the payload, unless it is offered."""
    key, message = OutboxKey("gradients", body.key), OutboxMessage(0, body)
    return Durable(lambda draft: draft.post(key, message, attached))


def gradients_message(job: TrainingJob, made: inputs.MadeGradients) -> PrototypeGradients:
    """Return what the proxy is sent of the gradients that a training made."""
    return PrototypeGradients(
        key=job.key,
        method=job.method,
        lineage=job.lineage,
        payload=made.payload,
        payload_bytes=made.payload_bytes,
        offer=made.offer,
    )


def lost_due(state: AgentState, _now: float) -> AgentDecision:
    """Give up gradients whose file is gone, and say so: they cannot be made again."""
    for message in state.records.outbox.values():
        body = message.body
        if not isinstance(body, PrototypeGradients) or body.offer is None:
            continue
        if body.payload not in state.files.here:
            text = f"round {body.key.part}: their file is gone; the proxy goes without them"
            told = report_happened(state.told, [problem("gradients", text)], state.rules)
            return change(gradients_lost(body.key), told)
    return NOTHING_TO_DO


def gradients_lost(key: PartKey) -> Durable:
    """Take gradients out of the outbox whose file is gone."""
    return Durable(lambda draft: draft.take_out(OutboxKey("gradients", key)))
