"""Let a fleet of processes learn a data set with MobileNetV2, and open its later stages by itself.

    python -m benchmarks.speed.real_fleet.run --data cifar100.npz --weights mobilenet_v2.safetensors

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

from benchmarks import RESULTS_FOLDER
from fleetledger.device_agent.settings import AgentDetectionSettings
from fleetledger.export.mobilenet_v2 import (
    build_mobilenet_v2,
    imagenet_preprocessing,
    load_weights,
)
from fleetledger.schemas.models import Preprocessing
from fleetledger.simulator.metrics.results import RunResults
from fleetledger.simulator.metrics.seed_metrics import StageMetrics
from fleetledger.simulator.records import StageRecord
from fleetledger.simulator.run.folder import RunFolder
from fleetledger.simulator.run.runs import run_scenario
from fleetledger.simulator.scenario.model import Scenario

RESULTS = RESULTS_FOLDER / "real_fleet.json"


def preprocessing(size: int) -> Preprocessing:
    """Return ImageNet's, but the whole picture: small ones have nothing to cut off."""
    return imagenet_preprocessing(size).model_copy(
        update={"resize": "stretch", "shorter_side": None}
    )


def write_backbone(arguments: argparse.Namespace, folder: Path) -> Path:
    """Write MobileNetV2 and how it sees pictures into a folder; return the ONNX file."""
    file = folder / f"mobilenet-v2-{arguments.size}.onnx"
    file.write_bytes(build_mobilenet_v2(arguments.size, load_weights(arguments.weights)))
    text = preprocessing(arguments.size).model_dump_json()
    file.with_suffix(".json").write_text(text, encoding="utf-8")
    return file


def scenario(arguments: argparse.Namespace, train_per_class: int, backbone: Path) -> Scenario:
    """Return the scenario of one run."""
    return Scenario.model_validate(
        {
            "title": f"{arguments.data.stem}, {train_per_class} images per class",
            "seeds": [arguments.seed],
            "data": {
                "set": "npz",
                "root": str(arguments.data.absolute()),
                "per_class": train_per_class,
                "test_per_class": arguments.test_per_class,
            },
            "stages": {
                "order": "as-is",
                "classes": arguments.stages * arguments.classes_per_stage,
                "count": arguments.stages,
                "opened_by": arguments.open,
            },
            "devices": {
                "count": arguments.devices,
                "partition": {"rule": "dirichlet", "beta": arguments.beta},
            },
            "method": {
                "name": "stsa",
                "settings": {
                    "form": arguments.form,
                    "map_width": arguments.map_width,
                    "map_seed": arguments.seed,
                },
            },
            "backbone": {"network": "file", "file": str(backbone)},
            "detection": AgentDetectionSettings().model_dump(),
            "engine": {"kind": "mqtt", "keys": True},
            "evaluation": {"on_devices": True, "pooled_reference": True},
        }
    )


def summary(
    results: RunResults, records: tuple[StageRecord, ...], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return what is kept of a run: no answers per class, and of each device its bytes."""
    return {
        "data": arguments.data.name,
        "backbone": f"MobileNetV2 at {arguments.size} pixels",
        "scenario": results.scenario.model_dump(mode="json", exclude={"data": {"root"}}),
        "summary": {name: item.mean for name, item in results.summary.items()},
        "stages": [
            _stage(record, measured)
            for record, measured in zip(records, results.first.stages, strict=True)
        ],
        "machine": results.machine,
    }


def _stage(record: StageRecord, measured: StageMetrics) -> dict[str, Any]:
    left_out = {"class_names", "model_classes", "devices", "aggregate", "head", "manifest"}
    return {
        **record.model_dump(mode="json", exclude=left_out),
        "accuracy": measured.accuracy,
        "bytes_up": sum(device.bytes_up for device in record.devices.values()),
        "bytes_down": sum(device.bytes_down for device in record.devices.values()),
    }


def main() -> None:
    """Run, print and store."""
    arguments = _arguments()
    console = Console(width=100)
    runs = []
    for train in arguments.train_per_class:
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(arguments.keep or scratch, f"{train}-per-class")
            asked = scenario(arguments, train, write_backbone(arguments, Path(scratch)))
            results = run_scenario(asked, out, console)
            records = RunFolder(out).seed(arguments.seed).records()
        runs.append(summary(results, records, arguments))
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
    parser.add_argument("--open", choices=("schedule", "reports"), default="reports")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the run folders, else removed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--append", action="store_true", help="to the runs that the file has")
    return parser.parse_args()


if __name__ == "__main__":
    main()
