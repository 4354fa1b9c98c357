"""What a running agent writes into its status file, by its state."""

from __future__ import annotations

import os

from fleetledger.device_agent.core import coordinator_presence
from fleetledger.device_agent.core.cohorts import describe_masks
from fleetledger.device_agent.core.models import open_action, waits_for_hours
from fleetledger.device_agent.core.policy import declines, images_asked, unable_to, withheld
from fleetledger.device_agent.core.presence import wire_fault
from fleetledger.device_agent.core.releases import root_of
from fleetledger.device_agent.core.standing_problems import left_out
from fleetledger.device_agent.core.state import AgentState
from fleetledger.device_agent.home.memory import resident_bytes
from fleetledger.device_agent.home.status_file import MIB, REMEMBERED, RoundBytes, Status
from fleetledger.device_agent.kinds import Exemplars
from fleetledger.device_agent.models.features.cache import cache_bytes
from fleetledger.device_agent.program.parts import AgentParts
from fleetledger.device_agent.program.round_traffic import RoundTraffic
from fleetledger.learning.numerics.detection import ENTROPY, DetectionRules, Detector
from fleetledger.methods.registry import can_learn
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.pip_command import pip_install
from fleetledger.runtime.problems import ProblemBook
from fleetledger.schemas.assignments import Assignment
from fleetledger.transport.meter import Counts


def status_of(
    parts: AgentParts, book: ProblemBook, total: Counts, rounds: RoundTraffic, heat: str, ended: str
) -> Status:
    """Return what a running agent says of itself now; raise `StoreError`."""
    state, settings = parts.state, parts.home.settings
    records, active = state.records, state.models.active
    return Status(
        device=settings.device,
        fleet=settings.fleet,
        process=os.getpid(),
        written_ns=parts.clock.time_ns(),
        connected=state.presence.connected,
        coordinator=state.presence.welcomed,
        stage=records.assignment.stage if records.assignment else None,
        method=records.assignment.method if records.assignment else "",
        requires=records.assignment.requires if records.assignment else (),
        provider=parts.jobs.provider,
        left_providers=parts.jobs.left,
        building=parts.jobs.building,
        inference_p95_seconds=parts.jobs.inferences.p95_seconds,
        conditions=heat,
        active_version=active.version if active else None,
        active_manifest=active.manifest if active else None,
        variant=state.models.variant if active else None,
        model_state=describe_model(state),
        candidate=describe_candidate(state),
        parts=part_states(state),
        counted_images=sum(len(images) for images in records.counted.values()),
        images_on_disk=len(state.scanning.images),
        samples=settings.data.samples,
        settled=is_settled(state),
        outbox=len(records.outbox),
        dead_letters=records.dead_letters,
        trust=describe_trust(state),
        silence=coordinator_presence.describe(state),
        wire=describe_wire(state),
        key="" if parts.keys is None else parts.keys.describe(),
        ledger_seen=None if records.seen is None else records.seen.size,
        refusals=tuple(item.reason for item in parts.store.dead_letters(REMEMBERED)),
        waiting_classes=dict(state.scanning.waiting),
        training=describe_training(state),
        exemplars=records.exemplars,
        exemplars_as=kept_as(state, settings.training.exemplars),
        feature_cache_bytes=cache_bytes(parts.home.feature_cache),
        novelty_check=describe_look(state),
        rounds=bytes_of_rounds(rounds, total),
        gradients=waiting_gradients(state),
        policy=describe_policy(state),
        masks=describe_masks(state),
        detection=describe_detection(state),
        left_out=len(left_out(state)),
        doing=parts.worker.progress.describe() if parts.worker.progress else "",
        problems=book.current,
        past=book.past,
        ended=ended,
        resident_mib=round(resident_bytes() / MIB, 1),
        bytes_up=total.bytes_up,
        bytes_down=total.bytes_down,
    )


def is_settled(state: AgentState) -> bool:
    """Whether all images there are were looked at for the assignment, and all messages answered.

    Where a network is trained, an order that came is carried out then; another one may follow.
    """
    assignment, scanning = state.records.assignment, state.scanning
    if assignment is None or scanning.done_for != assignment.action or not scanning.at_rest:
        return False
    done = state.work.settled if assignment.frozen is not None else _has_trained(state, assignment)
    waits = state.records.outbox or state.records.comparing is not None or state.records.ready
    return done and not state.detecting.running and not waits


def _has_trained(state: AgentState, assignment: Assignment) -> bool:
    """Whether no order is left to carry out."""
    order = assignment.round
    return state.training.job is None and (order is None or order.number in state.records.answered)


def part_states(state: AgentState) -> dict[str, int]:
    """Count the parts by their state."""
    counts: dict[str, int] = {}
    for part in state.records.parts.values():
        counts[part.state] = counts.get(part.state, 0) + 1
    return counts


def describe_model(state: AgentState) -> str:
    """Say what became of the last desired model."""
    status, wanted = state.records.status, open_action(state)
    if wanted is not None and wanted.hours is not None and waits_for_hours(state):
        return f"version {wanted.version} waits until {_time_of_day(wanted.hours.begins)}"
    if status is None:
        return "none was desired yet"
    reason = f": {status.reason}" if status.reason else ""
    return f"version {status.version} {status.state.replace('_', ' ')}{reason}"


def describe_wire(state: AgentState) -> str:
    """Return the versions of the wire that the agent and the coordinator speak."""
    own, other = state.identity.wire, state.presence.wire
    if other is None:
        return f"speaks {own}; the coordinator was not heard yet"
    common = own.common(other)
    if common is None:
        return wire_fault(own, other).partition(": ")[2]
    return f"version {common}; this agent speaks {own}, the coordinator {other}"


def describe_candidate(state: AgentState) -> str:
    """Say which model is kept to be compared, and what is compared; empty where nothing is."""
    kept, pending = state.models.candidate, state.records.comparing
    said = [f"version {kept.version} is kept beside the model that runs"] if kept else []
    if pending is not None:
        said.append(
            f"version {pending.candidate.version} is being compared with version "
            f"{pending.beside.version}, for group {pending.group} of rollout {pending.rollout}"
        )
    return "; ".join(said)


def _time_of_day(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def describe_training(state: AgentState) -> str:
    """Say what is trained now and which round was answered last; empty where no network is."""
    assignment, training, records = state.records.assignment, state.training, state.records
    if assignment is None or assignment.frozen is not None:
        return ""
    if lacks := unable_to(assignment):
        return f"never asked: {lacks}"
    if not can_learn(state.identity.capabilities, assignment.method):
        return f"never asked: torch is not installed; {pip_install('train')}"
    last = max(records.answered, default=None)
    before = "no round is answered yet"
    if last is not None:
        waiting = any(
            message.key.part == last for message in records.outbox if message.about != "gradients"
        )
        before = f"round {last} is answered" + (", without a receipt yet" if waiting else "")
    if training.job is not None and training.job.observes:
        return f"looks at its images for round {training.job.key.part}; {before}"
    if training.job is not None:
        return f"at round {training.job.key.part} (phase {training.job.phase}); {before}"
    if training.retry.count:
        return f"failed {count_of(training.retry.count, 'time')}, will be tried again; {before}"
    return f"waits for a round; {before}"


def describe_look(state: AgentState) -> str:
    """Say what was seen last; empty where the method does not look."""
    look = state.records.look
    if look is None:
        return ""
    seen = look.observation
    new = ", taken for a new task" if seen.transition else ""
    return (
        f"round {look.number}: mean entropy {seen.entropy:.3f} nats of "
        f"{count_of(seen.images, 'image')}{new}"
    )


def kept_as(state: AgentState, wanted: Exemplars) -> Exemplars:
    """Return as what exemplars are kept; there are features on a frozen backbone only."""
    assignment = state.records.assignment
    return wanted if assignment is not None and assignment.backbone is not None else "images"


def bytes_of_rounds(traffic: RoundTraffic, total: Counts) -> tuple[RoundBytes, ...]:
    """Return what crossed in the newest rounds."""
    return tuple(
        RoundBytes(number=number, bytes_up=counts.bytes_up, bytes_down=counts.bytes_down)
        for number, counts in traffic.by_round(total).items()
    )


def waiting_gradients(state: AgentState) -> int:
    """Count the messages to the proxy that have no receipt."""
    return sum(key.about == "gradients" for key in state.records.outbox)


def describe_policy(state: AgentState) -> str:
    """Say what the owner's policy refuses the fleet, or that images leave; empty for neither."""
    assignment, rules = state.records.assignment, state.rules
    if assignment is None:
        return ""
    refused = declines(rules, assignment) or withheld(rules, assignment.method)
    return refused or images_asked(rules, assignment)


def describe_trust(state: AgentState) -> str:
    """Say by which root models are installed, and which release runs; empty without a root."""
    root, release = root_of(state), state.records.release
    if root is None:
        return ""
    runs = "no release runs" if release is None else f"release {release.release.number} runs"
    return f"root version {root.document.version}, {runs}"


def describe_detection(state: AgentState) -> str:
    """Say what the detector measured last, and what it is compared with."""
    rules, detector = state.rules.detection, state.records.detector
    if rules is None:
        return "off"
    if rules.mode == "sequential":
        return _describe_evidence(rules, detector)
    unit = "entropy in nats" if rules.mode == "fixed-rise" else ENTROPY
    waiting = (
        f"{detector.waiting.images} of {count_of(rules.min_images, 'image')} of the next batch"
    )
    history = f"history of {count_of(len(detector.history), 'batch', 'batches')}"
    last = detector.last
    if last is None:
        return f"no batch yet; {waiting}, {history}"
    against = "no baseline yet"
    if last.baseline is not None:
        spread = f" +/- {last.deviation:.3f}" if last.deviation is not None else ""
        against = f"baseline {last.baseline:.3f}{spread}"
    raised = ", RAISED" if detector.raised else ""
    return (
        f"{unit} {last.uncertainty:.3f} of {count_of(last.images, 'image')}, {against}{raised}; "
        f"{waiting}, {history}"
    )


def _describe_evidence(rules: DetectionRules, detector: Detector) -> str:
    evidence = detector.evidence
    if not evidence.images:
        return "no quiet image yet"
    raised = ", RAISED" if detector.raised else ""
    text = f"evidence {evidence.value:.1f} of {rules.quiet_images}{raised}"
    measure = ENTROPY if detector.head is None else detector.head.measure
    if evidence.run.mean is not None:
        text += f"; {measure} {evidence.run.mean:.3f} of {count_of(evidence.run.images, 'image')}"
    if evidence.before.mean is not None:
        against = f"{evidence.before.mean:.3f} of {evidence.before.images} quiet ones"
        text += f" against {against}" if evidence.run.images else f"; {measure} {against}"
    return text
