"""`apply`: the only function that changes a state.

It changes it in place, because a copy for every change would cost as much as the device has images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from device_agent.core import changes, records
from device_agent.core.records import Counted, Letter, LetterKey, Look, Part, PartState
from device_agent.core.state import Records, State
from schemas.contributions import Nothing, PartKey, Withdrawal

_PIECES: dict[type, str] = {
    records.Presence: "presence",
    records.Enrolling: "enrolling",
    records.Scanning: "scanning",
    records.Work: "work",
    records.Training: "training",
    records.Detecting: "detecting",
    records.Sending: "sending",
    records.Files: "files",
    records.Models: "models",
    records.Waiting: "waiting",
    records.Told: "told",
}


def apply(state: State, change: changes.Change) -> None:
    """Take in one change; a durable one has been committed by then."""
    piece = _PIECES.get(type(change))
    if piece is not None:
        setattr(state, piece, change)
    else:
        _APPLY[type(change)](state.records, change)


def _assignment_taken(state: Records, change: changes.AssignmentTaken) -> None:
    state.assignment, state.ledger_boot = change.assignment, change.ledger_boot


def _desired_taken(state: Records, change: changes.DesiredTaken) -> None:
    state.desired, state.ledger_boot = change.desired, change.ledger_boot


def _actions_forgotten(state: Records, change: changes.ActionsForgotten) -> None:
    state.assignment = state.desired = state.acted = state.waited = None
    state.ledger_boot = change.ledger_boot
    state.nothing.clear()
    state.reported.clear()


def _next_part_learned(state: Records, change: changes.NextPartLearned) -> None:
    state.next_part = change.next_part


def _part_written(state: Records, change: changes.PartWritten) -> None:
    body = change.contribution
    _release_images(state, body.key)
    counted = state.counted.setdefault(body.lineage, {})
    counted.update((digest, Counted(body.key, name)) for digest, name in change.images)
    state.measured.difference_update(digest for digest, _ in change.images)
    state.parts[body.key] = Part(body.revision, "waiting", body.lineage, body.payload)
    _post(state, LetterKey("contribution", body.key), Letter(body.revision, body))


def _part_withdrawn(state: Records, change: changes.PartWithdrawn) -> None:
    _release_images(state, change.key)
    known = state.parts.get(change.key)
    lineage = known.lineage if known is not None else None
    state.parts[change.key] = Part(change.revision, "withdrawn", lineage, None)
    state.outbox.pop(LetterKey("contribution", change.key), None)
    body = Withdrawal(key=change.key, revision=change.revision, reason=change.reason)
    _post(state, LetterKey("withdrawal", change.key), Letter(change.revision, body))


def _nothing_written(state: Records, change: changes.NothingWritten) -> None:
    state.nothing.add(change.stage)
    letter = LetterKey("nothing", PartKey(stage=change.stage, part=0))
    _post(state, letter, Letter(0, Nothing(stage=change.stage, reason=change.reason)))


def _answer_written(state: Records, change: changes.AnswerWritten) -> None:
    body = change.contribution
    state.answered.add(body.key.part)
    state.memory, state.exemplars = change.memory, change.exemplars
    state.memory_lineage = body.lineage
    if body.round is not None and body.round.observation is not None:
        state.look = Look(body.round.number, body.round.observation)
    _post(state, LetterKey("contribution", body.key), Letter(body.revision, body))


def _gradients_written(state: Records, change: changes.GradientsWritten) -> None:
    _post(state, LetterKey("gradients", change.body.key), Letter(0, change.body))


def _gradients_lost(state: Records, change: changes.GradientsLost) -> None:
    del state.outbox[LetterKey("gradients", change.key)]


def _memory_forgotten(state: Records, _change: changes.MemoryForgotten) -> None:
    state.memory, state.exemplars = None, 0
    for key in [key for key in state.outbox if key.about == "gradients"]:
        del state.outbox[key]


def _round_declined(state: Records, change: changes.RoundDeclined) -> None:
    state.answered.add(change.number)
    letter = LetterKey("nothing", PartKey(stage=change.stage, part=change.number))
    _post(
        state,
        letter,
        Letter(0, Nothing(stage=change.stage, round=change.number, reason=change.reason)),
    )


def _observation_written(state: Records, change: changes.ObservationWritten) -> None:
    state.answered.add(change.number)
    state.memory, state.memory_lineage = change.memory, change.lineage
    state.look = Look(change.number, change.observation)
    key = LetterKey("nothing", PartKey(stage=change.stage, part=change.number))
    body = Nothing(stage=change.stage, round=change.number, observation=change.observation)
    _post(state, key, Letter(0, body))


def _answer_lost(state: Records, change: changes.AnswerLost) -> None:
    state.answered.discard(change.key.part)
    state.outbox.pop(LetterKey("contribution", change.key), None)


def _letter_accepted(state: Records, change: changes.LetterAccepted) -> None:
    del state.outbox[change.letter]
    _mark_part(state, change.letter, "accepted")


def _checkpoint_seen(state: Records, change: changes.CheckpointSeen) -> None:
    state.seen = change.seen


def _checkpoint_forgotten(state: Records, _change: changes.CheckpointForgotten) -> None:
    state.seen = None


def _letter_refused(state: Records, change: changes.LetterRefused) -> None:
    del state.outbox[change.letter]
    state.dead_letters += 1
    _mark_part(state, change.letter, "refused")


def _part_retracted(state: Records, change: changes.PartRetracted) -> None:
    state.dead_letters += 1
    state.parts[change.key] = replace(state.parts[change.key], state="refused")


def _images_unusable(state: Records, change: changes.ImagesUnusable) -> None:
    state.unusable.update(change.images)


def _action_ended(state: Records, change: changes.ActionEnded) -> None:
    state.status = change.status
    if change.action is not None:
        state.acted = change.action


def _wait_noted(state: Records, change: changes.WaitNoted) -> None:
    state.waited = change.waited


def _root_taken(state: Records, change: changes.RootTaken) -> None:
    state.root, state.heights = change.root, dict(change.heights)


def _release_taken(state: Records, change: changes.ReleaseTaken) -> None:
    state.heights = dict(change.heights)


def _release_installed(state: Records, change: changes.ReleaseInstalled) -> None:
    state.release = change.release


def _trust_forgotten(state: Records, _change: changes.TrustForgotten) -> None:
    state.root = state.release = None
    state.heights.clear()


def _model_evaluated(state: Records, change: changes.ModelEvaluated) -> None:
    state.evaluation = change.evaluation


def _images_measured(state: Records, change: changes.ImagesMeasured) -> None:
    state.detector = change.detector
    state.measured.update(change.images)


def _transition_written(state: Records, change: changes.TransitionWritten) -> None:
    body = change.transition
    state.transitions = body.number + 1
    state.reported.update(body.classes)
    key = PartKey(stage=body.stage, part=body.number)
    _post(state, LetterKey("transition", key), Letter(0, body))


def _post(state: Records, key: LetterKey, letter: Letter) -> None:
    state.outbox.pop(key, None)
    state.outbox[key] = letter


def _release_images(state: Records, key: PartKey) -> None:
    part = state.parts.get(key)
    if part is None or part.lineage is None:
        return
    counted = state.counted.get(part.lineage, {})
    for digest in [digest for digest, item in counted.items() if item.key == key]:
        del counted[digest]
    if not counted:
        state.counted.pop(part.lineage, None)


def _mark_part(state: Records, letter: LetterKey, mark: PartState) -> None:
    # An answer to a round is no part.
    if letter.about == "contribution" and letter.key in state.parts:
        state.parts[letter.key] = replace(state.parts[letter.key], state=mark)


# Each function takes the change under which it is listed; one table cannot say so in types.
_APPLY: dict[type, Callable[..., None]] = {
    changes.AssignmentTaken: _assignment_taken,
    changes.DesiredTaken: _desired_taken,
    changes.ActionsForgotten: _actions_forgotten,
    changes.NextPartLearned: _next_part_learned,
    changes.PartWritten: _part_written,
    changes.PartWithdrawn: _part_withdrawn,
    changes.NothingWritten: _nothing_written,
    changes.AnswerWritten: _answer_written,
    changes.GradientsWritten: _gradients_written,
    changes.GradientsLost: _gradients_lost,
    changes.MemoryForgotten: _memory_forgotten,
    changes.RoundDeclined: _round_declined,
    changes.ObservationWritten: _observation_written,
    changes.AnswerLost: _answer_lost,
    changes.LetterAccepted: _letter_accepted,
    changes.CheckpointSeen: _checkpoint_seen,
    changes.CheckpointForgotten: _checkpoint_forgotten,
    changes.LetterRefused: _letter_refused,
    changes.PartRetracted: _part_retracted,
    changes.ImagesUnusable: _images_unusable,
    changes.ActionEnded: _action_ended,
    changes.WaitNoted: _wait_noted,
    changes.RootTaken: _root_taken,
    changes.ReleaseTaken: _release_taken,
    changes.ReleaseInstalled: _release_installed,
    changes.TrustForgotten: _trust_forgotten,
    changes.ModelEvaluated: _model_evaluated,
    changes.ImagesMeasured: _images_measured,
    changes.TransitionWritten: _transition_written,
}
