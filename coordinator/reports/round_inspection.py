"""How the answers of devices to rounds lie beside those of the others, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Annotated, ClassVar, Literal

from fleetledger.coordinator.core.phrases import some
from fleetledger.runtime.command_report import Column, Report
from fleetledger.runtime.count_words import agree, count_of
from fleetledger.runtime.strict import Strict

LEAST_ANSWERS = 5
"""Answers without which a device is not judged."""
NEARLY_ALL = 0.95
"""Share of a device's answers that lie against the others where it is named: honest devices with
classes of their own reach more than half."""
FAR = 3.0
"""Times the usual length from which on moves are far."""


class MeasuredMove(Strict):
    """An answer of a device beside the others of its round."""

    round: int
    length: float
    """Of its move from the weights that were sent, without running statistics."""
    usual: float
    """Median length of the round's answers."""
    cosine: float | None
    """Of its move to the mean direction of the others; null where either did not move."""


class InspectedMoves(Strict):
    """A device, and how its answers lie beside those of the others."""

    name: Annotated[str, Column("device")]
    answers: Annotated[int, Column("answers")]
    cosine: Annotated[float | None, Column("cosine", "{:.2f}".format)]
    """Median of its answers; null where none has one."""
    against: Annotated[int, Column("against")]
    """Answers whose cosine is below zero."""
    length: Annotated[float, Column("length", "{:.2g}".format)]
    """Median over its answers of the length, in usual lengths of the round."""
    verdict: Annotated[
        Literal["against the others", "far", "with the others", "not judged"], Column("verdict")
    ]
    sentence: Annotated[str, Column("how it moves", last=True)]
    moves: tuple[MeasuredMove, ...]

    @classmethod
    def of(cls, name: str, moves: tuple[MeasuredMove, ...]) -> InspectedMoves:
        """Return a device that answered once at least."""
        cosines = [move.cosine for move in moves if move.cosine is not None]
        against = sum(cosine < 0 for cosine in cosines)
        length = median(move.length / move.usual if move.usual else 0.0 for move in moves)
        answers = count_of(len(moves), "answer")
        verdict: Literal["against the others", "far", "with the others", "not judged"]
        verdict, sentence = "with the others", f"{answers}, {against} of them against the others"
        if len(moves) < LEAST_ANSWERS:
            verdict, sentence = "not judged", f"{answers}, of {LEAST_ANSWERS} that it takes"
        elif against > NEARLY_ALL * len(moves):
            verdict = "against the others"
        elif length > FAR:
            verdict, sentence = "far", f"moves {count_of(round(length, 1), 'time')} as far as usual"
        return cls(
            name=name,
            answers=len(moves),
            cosine=round(median(cosines), 4) if cosines else None,
            against=against,
            length=round(length, 3),
            verdict=verdict,
            sentence=sentence,
            moves=moves,
        )


class RoundWithout(Strict):
    """A round made again without a device."""

    round: int
    apart: float
    """How far its weights then lie from those that it gave, in lengths of the round's step."""
    weights: str
    """Digest of the weights without the device."""


class RoundsInspection(Report):
    """What `ledger inspect --rounds` shows."""

    lines_field: ClassVar[str | None] = "devices"
    titles: ClassVar[Mapping[str, str]] = {"devices": ""}
    stage: int
    rounds: tuple[int, ...]
    """Rounds of the stage that were measured."""
    devices: tuple[InspectedMoves, ...]
    """Those that lie farthest from the others first."""
    unread: tuple[str, ...]
    """Rounds that cannot be measured, and why."""
    without: tuple[RoundWithout, ...]
    """Rounds made again without the device of `--without`, each from what it began with."""

    @property
    def suspicious(self) -> tuple[str, ...]:
        """Names of those that lie against the others or far away."""
        return tuple(d.name for d in self.devices if d.verdict in {"against the others", "far"})

    def above(self) -> Iterator[str]:
        """Return the answer in a sentence."""
        measured = count_of(len(self.rounds), "round")
        if not self.rounds:
            yield f"No round of stage {self.stage} can be measured."
        elif not self.suspicious:
            yield f"Nobody lies against the others or far away, in {measured}."
        else:
            found = self.suspicious
            lie = agree(len(found), "lies", "lie")
            yield f"{some(found)} {lie} against the others or far away, in {measured}."

    def below(self) -> Iterator[str]:
        """Return what could not be read, what a device changed, and the way out."""
        yield from self.unread
        for one in self.without:
            yield (
                f"Round {one.round} without it gives weights {one.weights[:12]}, "
                f"{one.apart:.2g} of the round's step away."
            )
        if self.without:
            yield (
                "What that does to accuracy is not known here, where no images are: --write FILE "
                "keeps the last of these weights, `fleetledger model import-network "
                "--first-weights FILE` begins with them, and devices measure what comes of it."
            )
        elif self.suspicious:
            yield (
                "Nothing was changed, and lying apart is no proof: a device with classes of its "
                "own may. --without DEVICE makes the rounds again without one; [rounds.robust] "
                "bounds what any of them does: docs/rounds.md."
            )
