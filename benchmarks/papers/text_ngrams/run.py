"""What counting comes to on a text scenario: next character by the last few, over the classes seen.

`python -m benchmarks.papers.text_ngrams.run [SCENARIO] [--root FILE] [--seed N]` counts, stage by
stage, which character follows the last n - 1 in the training windows that devices have received,
and asks about the same test windows as a run of that scenario. Where a context was never met, a
shorter one answers; at last the most frequent character. Counts only add up, so nothing is
forgotten, and no network takes part. It takes seconds.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from fleetledger.simulator.datasets.loading import load_split
from fleetledger.simulator.datasets.text_windows import TextWindows
from fleetledger.simulator.plan.fleet_plan import FleetPlan
from fleetledger.simulator.plan.plan_maker import make_plan
from fleetledger.simulator.scenario.loading import load_scenario

NAMES = {1: "unigram", 2: "bigram", 3: "trigram", 4: "4-gram", 5: "5-gram", 6: "6-gram"}


class Counts:
    """How often each class followed each context of 0 to n - 1 characters."""

    def __init__(self, order: int) -> None:
        self._order = order
        self._after: dict[str, Counter[int]] = defaultdict(Counter)

    def add(self, text: str, label: int) -> None:
        """Count a class behind a text."""
        for length in range(self._order):
            self._after[text[len(text) - length :]][label] += 1

    def answer(self, text: str) -> int:
        """Return the class that followed the longest known context most often."""
        for length in reversed(range(self._order)):
            after = self._after.get(text[len(text) - length :])
            if after:
                return min(after, key=lambda label: (-after[label], label))
        raise ValueError("nothing was counted yet")


def accuracies(train: TextWindows, test: TextWindows, plan: FleetPlan, order: int) -> list[float]:
    """Return the accuracy on all classes seen so far after every stage, percent."""
    counts, seen, after = Counts(order), set[int](), []
    for stage in plan.stages:
        seen |= set(stage.classes)
        for device in stage.devices.values():
            for index in device.indices.tolist():
                counts.add(train.text(index), int(train.labels[index]))
        asked = np.flatnonzero(np.isin(test.labels, sorted(seen))).tolist()
        right = sum(counts.answer(test.text(index)) == test.labels[index] for index in asked)
        after.append(100 * right / len(asked))
    return after


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row of accuracies for every n."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", nargs="?", default="text-tiny")
    parser.add_argument("--root", help="the text file, where the scenario needs one")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    scenario = load_scenario(given.scenario)
    data = scenario.data.model_copy(update={"root": given.root or scenario.data.root})
    split = load_split(data, given.seed)
    plan = make_plan(scenario, split, given.seed)
    for order, name in NAMES.items():
        found = accuracies(split.train, split.test, plan, order)
        rounded = [round(value, 2) for value in found]
        average = round(sum(found) / len(found), 2)
        print(json.dumps({"model": name, "stages": rounded, "average": average}))


if __name__ == "__main__":
    main()
