r"""Features of a scenario's frozen network, for the classes that its first seed meets.

    python -m benchmarks.papers.packs.scenario_features text-tiny --out text.npz
    python -m benchmarks.papers.packs.scenario_features omniglot --out omniglot_features.npz \
        --set data.set=npz --set data.root=omniglot.npz

The file is laid out as that of `benchmarks.papers.packs.extract_features`; classes count from 0 in
the order in which the stages bring them. What the scenario needs, this needs too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console

from fleetledger.export.backbone import import_backbone
from fleetledger.export.frozen import plain_frozen
from fleetledger.simulator.datasets.cache_folder import cache_folder
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.interface import own_features
from fleetledger.simulator.run.preparation import PreparedSeed
from fleetledger.simulator.run.progress import Screen
from fleetledger.simulator.scenario.loading import load_scenario


def main() -> None:
    """Load, extract, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("scenario")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    scenario = load_scenario(options.scenario, options.set)
    seed = PreparedSeed.load(scenario, scenario.seeds[0])
    backbone, split = seed.backbone, seed.split
    whole = plain_frozen(import_backbone(backbone.data, backbone.preprocessing).model)
    screen = Screen(Console(), seeds=1)
    bank = open_bank(split, backbone, cache_folder("features"), "cpu", screen)
    features = bank.frozen(own_features(whole))
    place = {label: new for new, label in enumerate(seed.plan.seen(len(seed.plan.stages)))}
    found = {}
    for part, samples, rows in (
        ("train", split.train, features.train),
        ("test", split.test, features.test),
    ):
        indices = np.flatnonzero(np.isin(samples.labels, list(place))).astype(np.int64)
        found[f"{part}_f"] = rows(indices)
        found[f"{part}_y"] = np.array([place[label] for label in samples.labels[indices].tolist()])
    np.savez(options.out, **found)
    print(f"{options.out}: {found['train_f'].shape} and {found['test_f'].shape}")


if __name__ == "__main__":
    main()
