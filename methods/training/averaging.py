"""The coordinator side of methods whose devices answer with weights that are averaged.

Pure functions of bytes; no torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from fleetledger.learning.errors import LearningError
from fleetledger.methods.errors import ContributionError, MethodError
from fleetledger.methods.training.asynchronous import StaleSum, moved
from fleetledger.methods.training.client_drift import spread_partial
from fleetledger.methods.training.client_updates import (
    MOST_SAMPLES,
    Mean,
    UpdateFrame,
    UpdateSum,
)
from fleetledger.methods.training.exchange import (
    BufferStep,
    CountedUpdate,
    Partial,
    RoundConfig,
    RoundOutcome,
    StaleUpdates,
    Summing,
)
from fleetledger.methods.training.held_answers import HeldAnswers
from fleetledger.methods.training.network_weights import Arrays, encode_weights
from fleetledger.methods.training.robust import BESIDE_MASKS, BESIDE_NOISE
from fleetledger.methods.training.round_cache import RoundCache
from fleetledger.methods.training.sides import Assignment, TrainingCoordinator
from fleetledger.methods.training.words import Words, summed_answers
from fleetledger.schemas.rounds import TRAIN


class AveragingCoordinator(TrainingCoordinator[Assignment]):
    """Checks updates, and averages them exactly.

    A method says with `frame` around which weights the updates to a round lie, and with
    `extras_after` what goes with their mean.
    """

    def __init__(self) -> None:
        # Of the newest round: each of its updates is checked against it.
        self._newest = RoundCache[UpdateFrame]()

    @abstractmethod
    def frame(self, assignment: Assignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates to a round look like."""

    def extras_after(
        self,
        assignment: Assignment,
        config: RoundConfig,
        weights: bytes,
    ) -> Mapping[str, bytes]:
        """Return the files that devices are given anew with `weights`, by name; none by default."""
        return {}

    def after(
        self,
        assignment: Assignment,
        config: RoundConfig,
        mean: Arrays,
        extras: dict[str, bytes],
    ) -> tuple[bytes, Mapping[str, bytes]]:
        """Return the fleet's weights and every file that devices are given from here on.

        `extras` are those of the round, with what an own step has put there.
        """
        weights = encode_weights(mean, config.class_names)
        return weights, {**extras, **self.extras_after(assignment, config, weights)}

    def check(self, assignment: Assignment, payload: bytes, config: RoundConfig) -> None:
        """Raise `ContributionError` unless the payload answers what was asked.

        Tensors, shapes and types are those of the network, its size is bounded by theirs, nothing
        leaves the grid, and no running variance is below zero. An own check sees the weights of
        an answer whose form is right.
        """
        frame = self._frame(assignment, config)
        if config.phase == TRAIN and assignment.steps.changes("check"):
            assignment.steps.check(frame.arrays(payload), frame.sent)
        else:
            frame.check(payload)

    def summing(
        self, assignment: Assignment, config: RoundConfig, most: int
    ) -> UpdateSum | HeldAnswers:
        """Return the empty sum of at most so many updates; `MethodError` if it may not fit."""
        frame = self._frame(assignment, config)
        weighted = assignment.is_weighted
        if config.robust is not None:
            if assignment.hides_in_sum:
                raise MethodError(f"rounds.{BESIDE_NOISE}")
            return HeldAnswers(frame, config.robust, weighted=weighted)
        return frame.summing(most, weighted=weighted)

    def from_words(
        self, assignment: Assignment, config: RoundConfig, words: Words, members: int
    ) -> Partial:
        """Return what `join` of a sum takes of so many members' words (`methods.training.words`).

        Raises `ContributionError` for words that no answers have, `MethodError` where answers are
        not summed behind masks. How far answers lie apart is not known of them.
        """
        assignment.masked_form()
        if config.robust is not None:
            raise MethodError(f"rounds.{BESIDE_MASKS}")
        grid = self._frame(assignment, config).grid
        most = MOST_SAMPLES // members if assignment.is_weighted else 1
        weight, flat = summed_answers(words, grid, members, most)
        try:
            grid.check_flat(flat)
        except LearningError as error:
            raise ContributionError(f"words: {error}") from error
        return Partial((members, weight, weight), (flat,)) + spread_partial(weight, ())

    def combine(
        self,
        assignment: Assignment,
        config: RoundConfig,
        updates: Sequence[CountedUpdate] | Summing,
    ) -> RoundOutcome:
        """Return the mean of the updates, and what follows from it; raise `MethodError`."""
        return self._outcome(assignment, config, self._mean(assignment, config, updates))

    def _outcome(self, assignment: Assignment, config: RoundConfig, mean: Mean) -> RoundOutcome:
        """Return what follows from a mean, of which an own step may make something else."""
        arrays: Arrays = dict(mean.arrays)
        extras = dict(config.extras)
        if config.phase == TRAIN and assignment.steps.changes("combine"):
            sent = self._frame(assignment, config).sent
            arrays = assignment.steps.combined(arrays, sent, extras)
        weights, files = self.after(assignment, config, arrays, extras)
        return RoundOutcome(
            weights,
            files,
            mean.aggregate,
            mean.samples,
            mean.client_drift,
            mean.remarks,
            mean.measures,
        )

    def combine_stale(
        self,
        assignment: Assignment,
        config: RoundConfig,
        step: BufferStep,
        groups: Sequence[StaleUpdates],
    ) -> RoundOutcome:
        """Return the weights after an asynchronous round; see `methods.training.asynchronous`."""
        if assignment.adds_noise:
            raise MethodError(
                "privacy: asynchronous rounds add no noise; leave [rounds.asynchronous] out"
            )
        weighted, most = assignment.is_weighted, sum(len(group.updates) for group in groups)
        parts = []
        for group in groups:
            frame = self._bounded(assignment, group.config)
            total = frame.summing(most, weighted=weighted)
            for update in group.updates:
                total.add(update.read(), update.samples)
            parts.append(StaleSum(frame, group.weight, total.partial()))
        mean = moved(self.frame(assignment, config).sent, step, parts)
        return self._outcome(assignment, config, mean)

    def _mean(
        self,
        assignment: Assignment,
        config: RoundConfig,
        updates: Sequence[CountedUpdate] | Summing,
    ) -> Mean:
        if isinstance(updates, HeldAnswers):
            return updates.mean()
        if isinstance(updates, UpdateSum):
            return updates.mean(config.noise_seed)
        assert isinstance(updates, Sequence)
        total = self.summing(assignment, config, len(updates))
        for update in updates:
            total.add(update.read(), update.samples)
        return self._mean(assignment, config, total)

    def _frame(self, assignment: Assignment, config: RoundConfig) -> UpdateFrame:
        return self._newest(config, assignment, lambda: self._bounded(assignment, config))

    def _bounded(self, assignment: Assignment, config: RoundConfig) -> UpdateFrame:
        """Return what updates look like, held to the round's bound where they are weights."""
        frame = self.frame(assignment, config)
        if config.robust is not None and config.phase == TRAIN:
            frame.bound = config.robust.bound
        return frame
