"""Measure what the log of `coordinator serve` costs: contributions per second with and without.

Sides take turns, in one run and over one broker: the log as it is when nothing is said, to a file;
the same as JSON; and a log of errors alone, in which nothing is written.

    python -m benchmarks.speed.contribution_rate.log_cost [--rounds 8]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.speed.contribution_rate.load import Plan
from benchmarks.speed.contribution_rate.run import RESULTS, Measured, measure_served, set_up, spread

SIDES = {
    "default": (),
    "json": ("--log-format", "json"),
    "errors": ("--log-level", "error"),
}
"""Options of `coordinator serve`."""


def measure(plan: Plan) -> dict[str, object]:
    """Run all rounds, each side once in each, in rotating order; return what is written down."""
    rounds: list[dict[str, Measured]] = []
    names = list(SIDES)
    with set_up(plan) as bench:
        for number in range(plan.rounds):
            first = number % len(names)
            order = names[first:] + names[:first]
            rounds.append(
                {side: measure_served(bench, bench.home, options=SIDES[side]) for side in order}
            )
            print({side: round(rounds[-1][side].per_second) for side in names}, file=sys.stderr)
    return {
        "command": "python -m benchmarks.speed.contribution_rate.log_cost "
        f"{' '.join(sys.argv[1:])}",
        "machine": describe_machine("paho-mqtt", "pydantic"),
        "contributions_per_second": {
            side: spread([one[side].per_second for one in rounds]) for side in names
        },
        "cpu_microseconds_per_contribution": {
            side: spread([one[side].cpu_seconds / plan.count * 1e6 for one in rounds])
            for side in names
        },
        "per_second_to_errors": {
            side: spread([one[side].per_second / one["errors"].per_second for one in rounds], 3)
            for side in ("default", "json")
        },
        "cpu_to_errors": {
            side: spread([one[side].cpu_seconds / one["errors"].cpu_seconds for one in rounds], 3)
            for side in ("default", "json")
        },
    }


def main() -> None:
    """Run the rounds, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--parts", type=int, default=200, help="contributions of each device")
    parser.add_argument("--out", type=Path, default=RESULTS.with_name("contribution_rate_log.json"))
    given = parser.parse_args()
    plan = Plan(given.rounds, 50, given.parts, 4, 40)
    text = json.dumps(measure(plan), indent=2)
    given.out.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
