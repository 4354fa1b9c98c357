"""Whether new classes in scenes are noticed by the entropy of pixels: the agent's rule, and FBL's.

    python -m benchmarks.papers.detection.scenes RUN... --name camvid

RUN is the folder of a finished run of FBL. Before each of its later tasks the fleet has a network
that knows none of the task's classes. Test scenes, which no device ever learns, are put before it:
quiet ones show nothing that it does not know, new ones show a class of the task. In each of many
draws a device has some quiet scenes to compare with, sees others, and then scenes of which a share
is new. A report while all is quiet is a false alarm. The same scenes are looked at in two heaps
too, as FBL's devices do once a round.

Draws take scenes from the same few, so they say how much chance there is in the order, and runs
with other seeds how much there is in the network.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.detection.run import Floats, StageHead
from benchmarks.papers.detection.scene_cases import Case, Plan, cases_of
from benchmarks.papers.detection.sequences import (
    Episode,
    Images,
    Rule,
    Tally,
    reports_at,
    watch,
    watch_sequentially,
)
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.learning.numerics.conformal import counts_of, is_stranger
from fleetledger.learning.numerics.detection import DetectionRules

RESULTS = RESULTS_FOLDER / "detection_scenes.json"
QUIET_IMAGES = (30, 100, 300, 1000)
RISE = 0.6
"""tau of FBL's paper and program."""
BATCH = 10
"""Scenes of a batch, for the rule that compares batches."""
SHARES = (0.5, 1.0)


@dataclass
class Looks:
    """What came of a rule that compares a heap of scenes with the one before."""

    changes: int = 0
    noticed: int = 0
    quiet: int = 0
    false: int = 0


def episodes(case: Case, share: float, plan: Plan) -> Iterator[Episode]:
    """Yield draws: a third of the quiet scenes to compare with, a third as they come, then both."""
    third = len(case.quiet) // 3
    length = min(plan.changed, round(len(case.new) / share))
    if share < 1:
        length = min(length, round(third / (1 - share)))
    number = round(share * length)
    for draw in range(plan.draws):
        chance = np.random.default_rng([case.seed, draw, 5])
        quiet, new = chance.permutation(case.quiet), chance.permutation(case.new)
        rest = quiet[2 * third : 2 * third + length - number]
        changed = chance.permutation(np.concatenate([new[:number], rest]))
        yield Episode(0, quiet[:third], quiet[third : 2 * third], changed)


def study_case(case: Case, plan: Plan) -> dict[str, Any]:
    """Return what comes of every rule for one network."""
    rows: dict[str, Any] = {}
    head = StageHead(("background", "known"), np.empty((0, 2)), 1.0, None)
    rise = Rule("fixed-rise", RISE, DetectionRules("fixed-rise", rise_nats=RISE, min_images=BATCH))
    for share in SHARES:
        for episode in episodes(case, share, plan):
            found = {}
            for name, measure in measures(case).items():
                told = watch_sequentially(QUIET_IMAGES, [measure], [episode])
                found |= {f"{name} {n}": one for n, one in zip(QUIET_IMAGES, told, strict=True)}
            found["fixed-rise"] = watch(rise, [case.values.nats], [head], [episode])
            for name, tally in found.items():
                _add(rows.setdefault(name, {}).setdefault(str(share), Tally()), tally)
    return {
        "seed": case.seed,
        "new_classes": list(case.added),
        "scenes": {"quiet": len(case.quiet), "new": len(case.new)},
        "stranger": {name: stranger_than_quiet(case, one) for name, one in measures(case).items()},
        "streams": {
            name: {share: asdict(one) for share, one in found.items()}
            for name, found in rows.items()
        },
        "looks": {name: asdict(found) for name, found in study_looks(case, plan).items()},
    }


def measures(case: Case) -> dict[str, Floats]:
    """Return what the agent's rule may go by: all pixels alike, or the most uncertain tenth."""
    return {"sequential": case.values.doubt, "sequential, tenth": case.values.tenth}


def study_looks(case: Case, plan: Plan) -> dict[str, Looks]:
    """Return what FBL's rules make of a heap of scenes after another, of which all are new or none.

    "grown" is the look with a head that has the task's rows, after one without: as it is in the
    round that follows their registration.
    """
    values, half = case.values, len(case.quiet) // 2

    def rose(now: Floats) -> Callable[[Images, Images], bool]:
        return lambda before, after: bool(
            now[after].mean() - values.look_nats[before].mean() >= RISE
        )

    def stranger(level: Floats) -> Callable[[Images, Images], bool]:
        return lambda before, after: is_stranger(
            counts_of(level[before].tolist()),
            level[after].tolist(),
            plan.quiet_looks,
            f"{case.seed}/{after[0]}",
            either=True,
        )

    rules: dict[str, Callable[[Images, Images], bool]] = {
        "sequential": stranger(values.wide_level),
        "sequential, tenth": stranger(values.level),
        "rise": rose(values.look_nats),
        "rise, grown": rose(case.grown.look_nats),
    }
    found = {name: Looks() for name in rules}
    for draw in range(plan.draws):
        chance = np.random.default_rng([case.seed, draw, 6])
        quiet = chance.permutation(case.quiet)
        before, again = quiet[:half], quiet[half : 2 * half]
        new = chance.permutation(case.new)[: plan.changed]
        for name, rule in rules.items():
            looks = found[name]
            looks.changes, looks.quiet = looks.changes + 1, looks.quiet + 1
            looks.noticed += rule(before, new)
            looks.false += rule(before, again)
    return found


def in_order(case: Case, plan: Plan) -> list[dict[str, Any]]:
    """Return reports over quiet scenes in the data set's order, that of a film if it is one.

    Every third is what the others are compared with, or the first third. Beside them the mean of
    the same scenes in orders of chance.
    """
    quiet = case.quiet
    first = np.arange(len(quiet)) < len(quiet) // 3
    every_third = np.arange(len(quiet)) % 3 == 0
    chance = np.random.default_rng([case.seed, 7])
    orders = [chance.permutation(quiet) for _ in range(plan.draws)]
    return [
        {"seed": case.seed, "held_out": "every third", **_reports(case, [quiet], every_third)},
        {"seed": case.seed, "held_out": "the first third", **_reports(case, [quiet], first)},
        {"seed": case.seed, "held_out": "a third by chance", **_reports(case, orders, first)},
    ]


def _reports(case: Case, orders: Sequence[Images], held: npt.NDArray[np.bool_]) -> dict[str, Any]:
    doubt, scenes = case.values.doubt, int((~held).sum())
    found = [reports_at(QUIET_IMAGES, doubt[one[held]], doubt[one[~held]]) for one in orders]
    return {
        "scenes": scenes,
        "reports_per_1000": {
            str(setting): round(1000 * float(np.mean([len(one[n]) for one in found])) / scenes, 2)
            for n, setting in enumerate(QUIET_IMAGES)
        },
    }


def _add(total: Tally, one: Tally) -> None:
    total.quiet_images += one.quiet_images
    total.false_alarms += one.false_alarms
    total.changes += one.changes
    total.delays += one.delays


def stranger_than_quiet(case: Case, values: Floats) -> float:
    """Return how often a new scene is stranger than a quiet one: 0.5 where they are alike."""
    new, quiet = values[case.new][:, None], values[case.quiet][None]
    return round(float((new > quiet).mean() + (new == quiet).mean() / 2), 3)


def summed_up(studies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per task, rule and share, with a number for each network before that task."""
    rows = []
    for added in dict.fromkeys(tuple(study["new_classes"]) for study in studies):
        found = [study for study in studies if tuple(study["new_classes"]) == added]
        for name, by_share in found[0]["streams"].items():
            for share in by_share:
                tallies = [study["streams"][name][share] for study in found]
                rows.append(
                    {"new_classes": added, "rule": name, "share": float(share), **_row(tallies)}
                )
    return rows


def _row(tallies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    delays = sorted(delay for one in tallies for delay in one["delays"])
    half = sum(one["changes"] for one in tallies) // 2
    return {
        "noticed": [round(len(one["delays"]) / one["changes"], 3) for one in tallies],
        "median_delay": delays[half] if len(delays) > half else None,
        "false_alarms_per_1000": [
            round(1000 * one["false_alarms"] / one["quiet_images"], 2) for one in tallies
        ],
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the study on some runs, write its results and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    parser.add_argument("--name", required=True, help="under which the results stand")
    parser.add_argument("--draws", type=int, default=Plan.draws)
    parser.add_argument("--most", type=float, default=Plan.most, help="unknown in a quiet scene")
    parser.add_argument("--least", type=float, default=Plan.least, help="of the new in a new one")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    plan = Plan(draws=options.draws, most=options.most, least=options.least)
    studies, films = [], []
    for folder in options.runs:
        for case in cases_of(folder, plan):
            if case.knows_all:
                films += in_order(case, plan)
            else:
                studies.append(study_case(case, plan))
    report = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    if not studies:
        parser.error("RUN: no network has enough quiet and new scenes; see --most and --least")
    rows = summed_up(studies)
    for study in studies:
        for found in study["streams"].values():
            for one in found.values():
                one["noticed"] = len(one.pop("delays"))
    report[options.name] = {
        "plan": asdict(plan),
        "rows": rows,
        "networks": studies,
        "all_quiet": films,
        "machine": platform_fingerprint(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for row in (*rows, *films):
        print(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
