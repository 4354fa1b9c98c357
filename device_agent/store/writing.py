"""How each durable change is written; the twin of `device_agent.core.apply`.

The law, which the tests hold: the records loaded from the database after a commit equal the records
in memory after `apply`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sqlite_utils import Database

from device_agent.core import changes
from device_agent.core.records import LetterKey
from schemas.canonical import canonical_json
from schemas.contributions import Nothing, PartKey, Withdrawal
from schemas.message import Strict
from schemas.rounds import Observation


def write_change(db: Database, change: changes.Durable) -> None:
    """Write one change, inside a transaction that the caller has begun."""
    _WRITE[type(change)](db, change)


def write_fact(db: Database, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Set a fact; None removes it."""
    if value is None:
        db.execute("DELETE FROM fact WHERE name = ?", [name])
        return
    text = to_json(value)
    db.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", [name, text])


def to_json(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return canonical JSON of a message or of plain values."""
    plain = value.model_dump(mode="json") if isinstance(value, Strict) else value
    return canonical_json(plain).decode("utf-8")


def _assignment_taken(db: Database, change: changes.AssignmentTaken) -> None:
    write_fact(db, "assignment", change.assignment)
    write_fact(db, "ledger_boot", change.ledger_boot)


def _desired_taken(db: Database, change: changes.DesiredTaken) -> None:
    write_fact(db, "desired", change.desired)
    write_fact(db, "ledger_boot", change.ledger_boot)


def _actions_forgotten(db: Database, change: changes.ActionsForgotten) -> None:
    for name in ("assignment", "desired", "acted", "waited"):
        write_fact(db, name, None)
    write_fact(db, "ledger_boot", change.ledger_boot)
    db.execute("DELETE FROM empty_stage")
    db.execute("DELETE FROM reported_class")


def _next_part_learned(db: Database, change: changes.NextPartLearned) -> None:
    write_fact(db, "next_part", change.next_part)


def _part_written(db: Database, change: changes.PartWritten) -> None:
    body = change.contribution
    _release_images(db, body.key)
    db.conn.executemany(
        "INSERT OR REPLACE INTO image (lineage, digest, stage, part, class_name)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (body.lineage, digest, body.key.stage, body.key.part, name)
            for digest, name in change.images
        ],
    )
    db.conn.executemany(
        "DELETE FROM measured WHERE digest = ?", [(digest,) for digest, _ in change.images]
    )
    db.execute(
        "INSERT OR REPLACE INTO part (stage, part, revision, state, lineage, payload)"
        " VALUES (?, ?, ?, 'waiting', ?, ?)",
        [body.key.stage, body.key.part, body.revision, body.lineage, body.payload],
    )
    _post(db, LetterKey("contribution", body.key), body.revision, body, change.attached)


def _part_withdrawn(db: Database, change: changes.PartWithdrawn) -> None:
    _release_images(db, change.key)
    db.execute(
        "INSERT INTO part (stage, part, revision, state, lineage, payload)"
        " VALUES (?, ?, ?, 'withdrawn', NULL, NULL)"
        " ON CONFLICT (stage, part) DO UPDATE"
        " SET revision = excluded.revision, state = 'withdrawn', payload = NULL",
        [change.key.stage, change.key.part, change.revision],
    )
    _take_out(db, LetterKey("contribution", change.key))
    body = Withdrawal(key=change.key, revision=change.revision, reason=change.reason)
    _post(db, LetterKey("withdrawal", change.key), change.revision, body, None)


def _nothing_written(db: Database, change: changes.NothingWritten) -> None:
    db.execute("INSERT OR REPLACE INTO empty_stage (stage) VALUES (?)", [change.stage])
    letter = LetterKey("nothing", PartKey(stage=change.stage, part=0))
    _post(db, letter, 0, Nothing(stage=change.stage, reason=change.reason), None)


def _answer_written(db: Database, change: changes.AnswerWritten) -> None:
    body = change.contribution
    _note_answered(db, body.key.part)
    write_fact(db, "memory", change.memory)
    write_fact(db, "memory_lineage", body.lineage)
    write_fact(db, "exemplars", change.exemplars)
    if body.round is not None and body.round.observation is not None:
        _note_look(db, body.round.number, body.round.observation)
    _post(db, LetterKey("contribution", body.key), body.revision, body, change.attached)


def _gradients_written(db: Database, change: changes.GradientsWritten) -> None:
    _post(db, LetterKey("gradients", change.body.key), 0, change.body, change.attached)


def _gradients_lost(db: Database, change: changes.GradientsLost) -> None:
    _take_out(db, LetterKey("gradients", change.key))


def _memory_forgotten(db: Database, _change: changes.MemoryForgotten) -> None:
    for name in ("memory", "exemplars"):
        write_fact(db, name, None)
    db.execute("DELETE FROM outbox WHERE about = 'gradients'")


def _round_declined(db: Database, change: changes.RoundDeclined) -> None:
    _note_answered(db, change.number)
    letter = LetterKey("nothing", PartKey(stage=change.stage, part=change.number))
    _post(
        db, letter, 0, Nothing(stage=change.stage, round=change.number, reason=change.reason), None
    )


def _observation_written(db: Database, change: changes.ObservationWritten) -> None:
    _note_answered(db, change.number)
    write_fact(db, "memory", change.memory)
    write_fact(db, "memory_lineage", change.lineage)
    _note_look(db, change.number, change.observation)
    key = LetterKey("nothing", PartKey(stage=change.stage, part=change.number))
    body = Nothing(stage=change.stage, round=change.number, observation=change.observation)
    _post(db, key, 0, body, None)


def _note_look(db: Database, number: int, observation: Observation) -> None:
    write_fact(db, "look", observation)
    write_fact(db, "look_round", number)


def _answer_lost(db: Database, change: changes.AnswerLost) -> None:
    db.execute("DELETE FROM answered_round WHERE number = ?", [change.key.part])
    _take_out(db, LetterKey("contribution", change.key))


def _note_answered(db: Database, number: int) -> None:
    db.execute("INSERT OR REPLACE INTO answered_round (number) VALUES (?)", [number])


def _letter_accepted(db: Database, change: changes.LetterAccepted) -> None:
    _take_out(db, change.letter)
    _mark_part(db, change.letter, "accepted")


def _checkpoint_seen(db: Database, change: changes.CheckpointSeen) -> None:
    write_fact(db, "seen", change.seen)


def _checkpoint_forgotten(db: Database, _change: changes.CheckpointForgotten) -> None:
    write_fact(db, "seen", None)


def _letter_refused(db: Database, change: changes.LetterRefused) -> None:
    letter = change.letter
    db.execute(
        "INSERT INTO dead_letter (about, stage, part, revision, body, reason, time_ns)"
        " SELECT about, stage, part, revision, body, ?, ? FROM outbox"
        " WHERE about = ? AND stage = ? AND part = ?",
        [change.reason, time.time_ns(), letter.about, letter.key.stage, letter.key.part],
    )
    _take_out(db, letter)
    _mark_part(db, letter, "refused")


def _part_retracted(db: Database, change: changes.PartRetracted) -> None:
    key = change.key
    db.execute(
        "INSERT INTO dead_letter (about, stage, part, revision, body, reason, time_ns)"
        " SELECT 'contribution', stage, part, revision, '{}', ?, ? FROM part"
        " WHERE stage = ? AND part = ?",
        [change.reason, time.time_ns(), key.stage, key.part],
    )
    _mark_part(db, LetterKey("contribution", key), "refused")


def _images_unusable(db: Database, change: changes.ImagesUnusable) -> None:
    db.conn.executemany(
        "INSERT OR REPLACE INTO unusable (digest, reason) VALUES (?, ?)", change.images
    )


def _action_ended(db: Database, change: changes.ActionEnded) -> None:
    write_fact(db, "status", change.status)
    if change.action is not None:
        write_fact(db, "acted", change.action)


def _wait_noted(db: Database, change: changes.WaitNoted) -> None:
    waited = change.waited
    write_fact(db, "waited", [waited.action, waited.seconds, waited.time_ns])


def _root_taken(db: Database, change: changes.RootTaken) -> None:
    write_fact(db, "root", change.root)
    write_fact(db, "heights", change.heights)


def _release_taken(db: Database, change: changes.ReleaseTaken) -> None:
    write_fact(db, "heights", change.heights)


def _release_installed(db: Database, change: changes.ReleaseInstalled) -> None:
    write_fact(db, "release", change.release)


def _trust_forgotten(db: Database, _change: changes.TrustForgotten) -> None:
    for name in ("root", "heights", "release"):
        write_fact(db, name, None)


def _model_evaluated(db: Database, change: changes.ModelEvaluated) -> None:
    write_fact(db, "evaluation", change.evaluation)


def _images_measured(db: Database, change: changes.ImagesMeasured) -> None:
    state = to_json(change.detector.to_plain())
    db.execute("INSERT OR REPLACE INTO detector (id, state) VALUES (1, ?)", [state])
    rows = [(digest,) for digest in change.images]
    db.conn.executemany("INSERT OR IGNORE INTO measured (digest) VALUES (?)", rows)


def _transition_written(db: Database, change: changes.TransitionWritten) -> None:
    body = change.transition
    write_fact(db, "transitions", body.number + 1)
    rows = [(name,) for name in body.classes]
    db.conn.executemany("INSERT OR IGNORE INTO reported_class (name) VALUES (?)", rows)
    key = PartKey(stage=body.stage, part=body.number)
    _post(db, LetterKey("transition", key), 0, body, None)


def _post(
    db: Database, letter: LetterKey, revision: int, body: Strict, payload: bytes | None
) -> None:
    _take_out(db, letter)
    db.execute(
        "INSERT INTO outbox (about, stage, part, revision, body, payload)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [letter.about, letter.key.stage, letter.key.part, revision, to_json(body), payload],
    )


def _take_out(db: Database, letter: LetterKey) -> None:
    db.execute(
        "DELETE FROM outbox WHERE about = ? AND stage = ? AND part = ?",
        [letter.about, letter.key.stage, letter.key.part],
    )


def _release_images(db: Database, key: PartKey) -> None:
    db.execute("DELETE FROM image WHERE stage = ? AND part = ?", [key.stage, key.part])


def _mark_part(db: Database, letter: LetterKey, mark: str) -> None:
    if letter.about == "contribution":
        db.execute(
            "UPDATE part SET state = ? WHERE stage = ? AND part = ?",
            [mark, letter.key.stage, letter.key.part],
        )


# Each function takes the change under which it is listed; one table cannot say so in types.
_WRITE: dict[type, Callable[..., None]] = {
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
