"""Delay against false alarms of the rules that notice new classes, image by image.

    python -m benchmarks.papers.detection.sequences features.npz    # without a file: digits
    python -m benchmarks.papers.detection.sequences --scenario cifar100-best

The fleet, the stages and the heads are those of `benchmarks.papers.detection.run`. In each stage a
device has held-out images of its classes, sees quiet ones of them, and then images of which a share
shows its classes of the next stage. A report while all is quiet is a false alarm; a change is
noticed where a report comes within `changed` images of it. Every rule sees the same images, at
several settings of what it trades.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import RESULTS_FOLDER
from benchmarks.papers.detection.plot import draw
from benchmarks.papers.detection.run import (
    Floats,
    Held,
    Plan,
    StageHead,
    owned_classes,
    solve_heads,
    solve_stages,
)
from benchmarks.papers.stsa_forms.run import digits
from benchmarks.scenario_features import ScenarioFeatures
from fleetledger.learning.numerics.blas import platform_fingerprint
from fleetledger.learning.numerics.detection import (
    DetectionRules,
    Detector,
    ScoringHead,
    observe,
    seeded,
    uncertainty,
)
from fleetledger.learning.numerics.sequential_detection import (
    ChangeEvidence,
    gathered,
    with_reference,
)
from fleetledger.methods.stsa.settings import StsaSettings

RESULTS = RESULTS_FOLDER / "detection_delays.json"
SEEDS = (1, 2, 3)
SHARES = (0.5, 1.0)
QUIET_IMAGES = (1000, 3000, 10_000)
DEVIATIONS = (1.5, 2.0, 2.5, 3.0, 4.0, 6.0)
RISES = (0.1, 0.2, 0.4, 0.6, 1.2)
Images = npt.NDArray[np.intp]
Solving = Callable[[Plan], tuple[list[StageHead], Held]]


@dataclass(frozen=True)
class Lengths:
    """How many images of each kind a device has in a stage."""

    held_out: int = 200
    quiet: int = 300
    changed: int = 200


@dataclass(frozen=True)
class Episode:
    """What a device sees in a stage; `changed` is empty in the last one."""

    stage: int
    held_out: Images
    quiet: Images
    changed: Images


@dataclass(frozen=True)
class Rule:
    """A rule of batches at one setting."""

    name: str
    setting: float
    rules: DetectionRules


def batch_rules() -> list[Rule]:
    """Return the rules of batches at all their settings."""
    found = [
        Rule("baseline", value, DetectionRules(mode="baseline", deviations=value))
        for value in DEVIATIONS
    ]
    return found + [
        Rule("fixed-rise", nats, DetectionRules(mode="fixed-rise", rise_nats=nats))
        for nats in RISES
    ]


def episodes(
    plan: Plan, lengths: Lengths, held: Held, device: int, share: float
) -> Iterator[Episode]:
    """Yield what a device sees, stage by stage; no image twice within one."""
    owned = owned_classes(plan, device)
    for stage in range(plan.stages):
        chance = np.random.default_rng([plan.seed, device, stage, 3])
        known = chance.permutation(held.of(np.concatenate(owned[: stage + 1])))
        first, second = lengths.held_out, lengths.held_out + lengths.quiet
        changed = known[:0]
        if stage + 1 < plan.stages:
            new = chance.permutation(held.of(owned[stage + 1]))
            number = round(share * lengths.changed)
            both = [new[:number], known[second : second + lengths.changed - number]]
            changed = chance.permutation(np.concatenate(both))
            if len(changed) < lengths.changed:
                raise ValueError(f"{len(changed)} images after a change; use fewer quiet ones")
        yield Episode(stage, known[:first], known[first:second], changed)


def values_of(heads: Sequence[StageHead], rules: DetectionRules) -> list[Floats]:
    """Return the doubt of every held-out image under each head."""
    return [
        uncertainty(head.scores, ScoringHead(head.names, head.fitted), None, rules)
        for head in heads
    ]


@dataclass
class Tally:
    """What came of one rule."""

    quiet_images: int = 0
    false_alarms: int = 0
    changes: int = 0
    delays: list[int] = field(default_factory=list)
    """Images from a change to its report, of those that were noticed."""

    def add(self, episode: Episode, false: Sequence[int], true: Sequence[int]) -> None:
        """Count the reports of a stage, by when they came."""
        self.quiet_images += len(episode.quiet)
        self.false_alarms += len(false)
        if len(episode.changed):
            self.changes += 1
            self.delays += true[:1]


def watch(
    rule: Rule, values: Sequence[Floats], heads: Sequence[StageHead], seen: Iterable[Episode]
) -> Tally:
    """Let one device with a rule of batches see its episodes."""
    tally, detector = Tally(), Detector()
    for episode in seen:
        head = ScoringHead(heads[episode.stage].names, heads[episode.stage].fitted)
        level = values[episode.stage]
        detector = seeded(detector, level[episode.held_out].tolist(), head, rule.rules)
        detector, false = _shown(detector, level[episode.quiet], head, rule.rules)
        detector, true = _shown(detector, level[episode.changed], head, rule.rules)
        tally.add(episode, false, true)
    return tally


def _shown(
    detector: Detector, values: Floats, head: ScoringHead, rules: DetectionRules
) -> tuple[Detector, list[int]]:
    """Show images a batch at a time; return after how many each report came."""
    reports = []
    for end in range(rules.min_images, len(values) + 1, rules.min_images):
        batch = values[end - rules.min_images : end].tolist()
        detector, found = observe(detector, batch, head, rules)
        reports += [end] * any(item.transition for item in found)
    return detector, reports


def watch_sequentially(
    settings: Sequence[int], values: Sequence[Floats], seen: Iterable[Episode]
) -> list[Tally]:
    """Let one device with the sequential rule see its episodes, at each of some `quiet_images`."""
    tallies = [Tally() for _ in settings]
    for episode in seen:
        level = values[episode.stage]
        shown = level[np.concatenate([episode.quiet, episode.changed])]
        reports = reports_at(settings, level[episode.held_out], shown)
        quiet = len(episode.quiet)
        for tally, found in zip(tallies, reports, strict=True):
            false = [after for after in found if after <= quiet]
            tally.add(episode, false, [after - quiet for after in found if after > quiet])
    return tallies


def reports_at(
    settings: Sequence[int], reference: Floats, values: Floats, number: int = 0
) -> list[list[int]]:
    """Return after how many images reports come, at each of some `quiet_images`.

    Each image is a shot of its own.
    """
    quiet = with_reference(ChangeEvidence(compared=number), reference.tolist())
    return [
        [alarm.after for alarm in gathered(quiet, values.tolist(), setting)[1]]
        for setting in settings
    ]


def of_scenario(name: str) -> tuple[Solving, int]:
    """Return how a scenario's method solves heads of its samples, and their number."""
    seen = ScenarioFeatures.of(name)
    settings = StsaSettings.model_validate(seen.scenario.method.settings)
    h = np.concatenate([seen.train, seen.test])
    labels = np.concatenate([seen.train_labels, seen.test_labels])
    return lambda plan: solve_heads(h, labels, plan, settings), len(labels)


def study(
    solve: Solving, images: int, plan: Plan, lengths: Lengths, seeds: Sequence[int]
) -> dict[str, Any]:
    """Return what comes of every rule, over all seeds."""
    rows: dict[tuple[str, float, float], list[Tally]] = {}
    for seed in seeds:
        planned = replace(plan, seed=seed)
        heads, held = solve(planned)
        measures = {
            "sequential": (doubts := values_of(heads, DetectionRules())),
            "sequential, distance": [
                doubt if head.novelty is None else head.novelty
                for head, doubt in zip(heads, doubts, strict=True)
            ],
        }
        batches = [(rule, values_of(heads, rule.rules)) for rule in batch_rules()]
        for share, device in itertools.product(SHARES, range(plan.devices)):
            seen = list(episodes(planned, lengths, held, device, share))
            for name, values in measures.items():
                tallies = watch_sequentially(QUIET_IMAGES, values, seen)
                for setting, tally in zip(QUIET_IMAGES, tallies, strict=True):
                    rows.setdefault((name, setting, share), []).append(tally)
            for rule, values in batches:
                tally = watch(rule, values, heads, seen)
                rows.setdefault((rule.name, rule.setting, share), []).append(tally)
        print(f"seed {seed} is done", file=sys.stderr, flush=True)
    return {
        "plan": asdict(plan),
        "lengths": asdict(lengths),
        "seeds": list(seeds),
        "images": images,
        "rows": [
            {"rule": name, "setting": setting, "share": share, **_row(tallies, lengths)}
            for (name, setting, share), tallies in rows.items()
        ],
    }


def _row(tallies: Sequence[Tally], lengths: Lengths) -> dict[str, Any]:
    quiet = sum(one.quiet_images for one in tallies)
    changes = sum(one.changes for one in tallies)
    delays = sorted(delay for one in tallies for delay in one.delays)
    capped = [*delays, *[lengths.changed] * (changes - len(delays))]
    per_thousand = [1000 * one.false_alarms / one.quiet_images for one in tallies]
    noticed = len(delays) / changes
    return {
        "quiet_images": quiet,
        "false_alarms": sum(one.false_alarms for one in tallies),
        "false_alarms_per_1000": round(float(np.mean(per_thousand)), 3),
        "changes": changes,
        "noticed": round(noticed, 4),
        "noticed_interval": [round(value, 4) for value in wilson(len(delays), changes)],
        "median_delay": capped[len(capped) // 2],
        "mean_delay": round(float(np.mean(capped)), 1),
    }


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson, 1927)."""
    z, share = 1.96, successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    half /= 1 + z * z / trials
    return float(centre - half), float(centre + half)


def main(arguments: list[str] | None = None) -> int:
    """Run the study, write its results and draw them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("features", type=Path, nargs="?", help="an .npz of features and labels")
    parser.add_argument("--scenario", help="take the samples, settings and network of one instead")
    parser.add_argument("--quiet", type=int, default=Lengths.quiet, help="quiet images of a stage")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    plan, lengths = Plan(), Lengths(quiet=options.quiet)
    if options.scenario is not None:
        name, (solve, images) = options.scenario, of_scenario(options.scenario)
    else:
        if options.features is None or not options.features.exists():
            print("no file of features is there; the digits are used", file=sys.stderr)
            name, (features, labels), plan, lengths = _of_digits()
        else:
            with np.load(options.features) as data:
                features, labels = data["features"], data["labels"].astype(np.int64)
            name = options.features.stem
        solve, images = partial(solve_stages, features, labels), len(labels)
    report = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
    report[name] = study(solve, images, plan, lengths, options.seeds) | {
        "machine": platform_fingerprint(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    draw(report, options.out.with_suffix(".png"))
    for row in report[name]["rows"]:
        print(
            f"{row['rule']:22} {row['setting']:7g}, {row['share']:.0%} new: "
            f"{row['noticed']:6.1%} noticed, median {row['median_delay']:3} images, "
            f"{row['false_alarms_per_1000']:.2f} false alarms in 1,000"
        )
    return 0


def _of_digits() -> tuple[str, tuple[Any, Any], Plan, Lengths]:
    data = digits()
    both = (
        np.concatenate([data.train_f, data.test_f]),
        np.concatenate([data.train_y, data.test_y]).astype(np.int64),
    )
    plan = Plan(stages=5, per_stage=2, owned=1.0, map_width=250)
    return data.name, both, plan, Lengths(held_out=60, quiet=50, changed=100)


if __name__ == "__main__":
    sys.exit(main())
