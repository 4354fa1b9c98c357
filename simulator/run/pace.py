"""Pace of a run: how long the rest takes if it goes on as its first round or stage did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetledger.simulator.engines.rounds import round_rules
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.trainer import learns_in_rounds


@dataclass(frozen=True)
class Pace:
    """Rounds and stages that are ahead of each seed of a scenario."""

    steps: tuple[int, ...]
    """Rounds of each stage; 1 of a stage without rounds."""
    in_rounds: tuple[bool, ...]
    """Whether devices train in each stage."""

    @classmethod
    def of(cls, scenario: Scenario) -> Pace:
        """Return what is ahead of a seed."""
        rules = round_rules(scenario, 0)
        stages = range(1, scenario.stages.total + 1)
        in_rounds = tuple(learns_in_rounds(scenario, stage) for stage in stages)
        first = rules.per_first_stage or rules.per_stage
        steps = (first, *[rules.per_stage] * (len(in_rounds) - 1))
        return cls(
            tuple(many if rounds else 1 for many, rounds in zip(steps, in_rounds, strict=True)),
            in_rounds,
        )

    def after_round(self, seconds: float, seeds: int) -> float | None:
        """Return the seconds that are left after the first round of the first of some seeds.

        None where later stages are of another kind.
        """
        if not all(self.in_rounds):
            return None
        return seconds * (seeds * sum(self.steps) - 1)

    def after_stages(self, stage_seconds: Sequence[float], rounds: int, seeds: int) -> float | None:
        """Return the seconds that are left after the first stages of the first of some seeds.

        `rounds` were held in the last of these stages. None where that tells nothing of those that
        come: it had other work, or no round.
        """
        done, stages = len(stage_seconds), len(self.steps)
        rest = sum(self.steps[done:])
        last = done - 1
        if rest and self.in_rounds[last] != self.in_rounds[-1]:
            return None
        if rest and self.in_rounds[last] and not rounds:
            return None
        steps = rounds if self.in_rounds[last] else 1
        rest_seconds = rest * stage_seconds[last] / steps if done < stages else 0.0
        return rest_seconds + (seeds - 1) * (sum(stage_seconds) + rest_seconds)
