"""Let a fleet of processes learn a data set with MobileNetV2, and open its later stages by itself.

    python -m benchmarks.real_fleet.run --data cifar100.npz --weights mobilenet_v2.safetensors

The data set is an `.npz` file as `simulator.datasets.npz` reads it, the weights are torchvision's
state dict as safetensors. Broker, coordinator and agents are processes of this machine; images
are PNG files in folders named after their class. The operator opens the first stage; then the
folders of the next classes appear on the devices, and nobody says so.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.networks.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    load_weights,
)
from schemas.models import Preprocessing
from schemas.values import FleetId
from simulator.datasets import Split
from simulator.datasets.npz import load_npz
from simulator.demo.material import Material
from simulator.demo.run import run_material
from simulator.demo.settings import DemoSettings, Patience

RESULTS = Path(__file__).resolve().parents[1] / "results" / "real_fleet.json"
PATIENCE = Patience(start=120.0, stage=900.0)


def preprocessing(size: int) -> Preprocessing:
    """Return ImageNet's, but the whole picture: small ones have nothing to cut off."""
    return imagenet_preprocessing(size).model_copy(
        update={"resize": "stretch", "shorter_side": None}
    )


def material(arguments: argparse.Namespace, train_per_class: int) -> Material:
    """Return the first images of every class, and MobileNetV2."""
    whole = load_npz(arguments.data)
    split = Split(
        train=whole.train.at_most(train_per_class),
        test=whole.test.at_most(arguments.test_per_class),
    )
    return Material(
        title=arguments.data.stem,
        split=split,
        backbone_name=f"mobilenet-v2-{arguments.size}",
        backbone=build_mobilenet_v2(arguments.size, load_weights(arguments.weights)),
        preprocessing=preprocessing(arguments.size),
    )


def settings(arguments: argparse.Namespace, out: Path) -> DemoSettings:
    """Return the settings of one run."""
    return DemoSettings(
        out,
        form=arguments.form,
        seed=arguments.seed,
        agents=arguments.devices,
        stages=arguments.stages,
        classes_per_stage=arguments.classes_per_stage,
        map_width=arguments.map_width,
        beta=arguments.beta,
        patience=PATIENCE,
        opening=arguments.open,
        fleet=FleetId("real-fleet"),
    )


def summary(content: dict[str, Any], arguments: argparse.Namespace, train: int) -> dict[str, Any]:
    """Return what is kept of a run's `metrics.json`: no paths, and no answers per class."""
    left_out = ("by_class", "aggregate", "manifest")
    return {
        "data": arguments.data.name,
        "train_per_class": train,
        "test_per_class": arguments.test_per_class,
        "backbone": f"MobileNetV2 at {arguments.size} pixels",
        "settings": {k: v for k, v in content["settings"].items() if k not in ("out", "patience")},
        "final": content["final"],
        "stages": [
            {key: value for key, value in stage.items() if key not in left_out}
            for stage in content["stages"]
        ],
        "accuracy_by_task": content["accuracy_by_task"],
        "reports": [_shortened(report) for report in content["reports"]],
        "devices": content["devices"],
        "resident_mib": content["resident_mib"],
        "problems": content["problems"],
        "ledger": {key: content["ledger"][key] for key in ("entries", "verified")},
        "broker": content["broker"]["kind"],
        "machine": content["machine"],
        "versions": content["versions"],
    }


def _shortened(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the number of its new classes and of their images."""
    classes = report["classes"]
    return {**report, "classes": len(classes), "images": sum(classes.values())}


def main() -> None:
    """Run, print and store."""
    arguments = _arguments()
    console = Console(width=100)
    runs = []
    for train in arguments.train_per_class:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(arguments.keep or scratch, f"{train}-per-class")
            content = run_material(settings(arguments, out), material(arguments, train), console)
        runs.append(summary(content, arguments, train))
        for name, mebibytes in runs[-1]["resident_mib"].items():
            print(f"{name:>12}  {mebibytes} MiB")
    if arguments.append:
        runs = json.loads(arguments.out.read_text(encoding="utf-8"))["runs"] + runs
    result = {"claim": "real_fleet", "runs": runs}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="data set, .npz")
    parser.add_argument("--weights", type=Path, required=True, help="MobileNetV2, safetensors")
    parser.add_argument("--size", type=int, default=112, help="pixels along a side")
    parser.add_argument("--train-per-class", type=int, nargs="+", default=[60, 200])
    parser.add_argument("--test-per-class", type=int, default=50)
    parser.add_argument("--devices", type=int, default=3)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--classes-per-stage", type=int, default=10)
    parser.add_argument("--beta", type=float, default=0.5, help="of the Dirichlet partition")
    parser.add_argument("--map-width", type=int, default=1250)
    parser.add_argument("--form", choices=("exact", "compact"), default="compact")
    parser.add_argument("--open", choices=("operator", "reports"), default="reports")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the run folders, else removed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--append", action="store_true", help="to the runs that the file has")
    return parser.parse_args()


if __name__ == "__main__":
    main()
