"""How often gates stop a good model, and how early a bad one: 1,000 devices with 20 images each.

    python -m benchmarks.papers.rollout_gates.run              # 200 seeds: some minutes
    python -m benchmarks.papers.rollout_gates.run --seeds 20

Rollouts go through the coordinator's own rules, entries and gates, in groups of 1 device, 5 %, 25 %
and all; the devices are drawn. Beside it the rule "accuracy fell by more than a point".
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import RESULTS_FOLDER
from benchmarks.machine import describe_machine
from benchmarks.papers.rollout_gates.devices import CLASSES, DEVICES, IMAGES, Case, draw
from benchmarks.papers.rollout_gates.naive import naive
from benchmarks.papers.rollout_gates.rollout import Ending, Fleet
from fleetledger.coordinator.topics.rollouts.plan import RolloutPlan

RESULTS = RESULTS_FOLDER / "rollout_gates.json"
SEEDS = 200
PLAN = RolloutPlan(groups=(1, 0.05, 0.25, 1.0))
SIZES = (1, 50, 250, 1000)
CASES = (
    Case("equal"),
    Case("equal, devices differ", spread=0.05),
    Case("4 points worse", drop=0.04),
    Case("4 points worse, devices differ", drop=0.04, spread=0.05),
    Case("2 points worse", drop=0.02),
    Case("2 points worse, devices differ", drop=0.02, spread=0.05),
    Case("crashes", crashes=True),
)


@dataclass(frozen=True)
class Promise:
    """What is promised of a case."""

    case: str
    figure: str
    """`stopped` at all, or by which group at the latest."""
    bound: float
    at_most: bool = False

    def holds(self, found: dict[str, Any]) -> bool:
        """Whether figures of that case keep it."""
        value = found[self.figure]
        return bool(value <= self.bound if self.at_most else value >= self.bound)


PROMISES = (
    Promise("equal", "stopped", 0.01, at_most=True),
    Promise("equal, devices differ", "stopped", 0.01, at_most=True),
    Promise("4 points worse", "by_group_2", 0.80),
    Promise("4 points worse, devices differ", "by_group_2", 0.35),
    Promise("2 points worse", "by_group_3", 0.85),
    Promise("2 points worse, devices differ", "by_group_3", 0.50),
    Promise("crashes", "by_group_1", 1.0),
)
_SHOWN = {
    "stopped": "stopped",
    "by_group_1": "by group 1",
    "by_group_2": "by group 2",
    "by_group_3": "by group 3",
    "went_back": "went back by itself",
}


def roll_out(case: Case, seed: int) -> tuple[Ending, Ending]:
    """Return how a rollout ends by the gates, and by the rule of thumb."""
    measured = draw(case, seed)
    ending = Fleet(DEVICES).roll_out(PLAN, measured, case, seed)
    return ending, naive(SIZES, measured, seed)


def figures(endings: Sequence[Ending]) -> dict[str, Any]:
    """Return shares of rollouts, and how many devices were told to run the candidate."""
    count = len(endings)
    stopped = [ending for ending in endings if ending.stopped]
    exposed = sorted(ending.exposed for ending in endings)
    return {
        "stopped": len(stopped) / count,
        **{
            f"by_group_{group}": sum(ending.group <= group for ending in stopped) / count
            for group in range(1, len(SIZES))
        },
        "went_back": sum(ending.stage == "rolled_back" for ending in stopped) / count,
        "exposed_median": median(exposed),
        "exposed_most": exposed[-1],
        "gates": dict(Counter(gate for ending in stopped for gate in ending.gates)),
    }


def measure(seeds: int, workers: int = 1) -> dict[str, Any]:
    """Return the figures of all cases, and which promises do not hold."""
    tasks = [(case, seed) for case in CASES for seed in range(seeds)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        endings = list(pool.map(roll_out, *zip(*tasks, strict=True), chunksize=4))
    found: dict[str, Any] = {}
    for number, case in enumerate(CASES):
        of_case = endings[number * seeds : (number + 1) * seeds]
        found[case.name] = {
            "case": asdict(case),
            "gates": figures([ending for ending, _ in of_case]),
            "rule_of_thumb": None if case.crashes else figures([other for _, other in of_case]),
        }
    broken = [asdict(one) for one in PROMISES if not one.holds(found[one.case]["gates"])]
    return {
        "claim": "rollout_gates",
        "machine": describe_machine("numpy", "pydantic"),
        "devices": DEVICES,
        "images": IMAGES,
        "classes": len(CLASSES),
        "groups": SIZES,
        "seeds": seeds,
        "cases": found,
        "promises": [asdict(one) for one in PROMISES],
        "broken": broken,
    }


def table(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    columns = [
        "candidate",
        *_SHOWN.values(),
        "devices told to run it, median (most)",
        "rule of thumb: stopped",
        "by group 2",
    ]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for name, case in found["cases"].items():
        gates, other = case["gates"], case["rule_of_thumb"]
        cells = [
            name,
            *(_percent(gates[key]) for key in _SHOWN),
            f"{gates['exposed_median']:.0f} ({gates['exposed_most']})",
            *("–" if other is None else _percent(other[key]) for key in ("stopped", "by_group_2")),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = measure(options.seeds, options.workers)
    print(table(found))
    for one in found["broken"]:
        print("does not hold:", one)
    options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
