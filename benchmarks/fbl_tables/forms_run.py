"""Paper form, released form, and what changes L_FS: on digits, CamVid and MSRC, over seeds.

    python -m benchmarks.fbl_tables.forms_run --footings digits,digits-disjoint
    python -m benchmarks.fbl_tables.forms_run --footings camvid --pack camvid=camvid.npz --trunk ...

Each run has a folder of its own below `--runs`, and is only read when it is there. Its numbers go
to benchmarks/results/fbl_forms.json at once, and the table beside it is made anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.arguments import names_among
from benchmarks.fbl_tables.forms import FOOTINGS, FORMS, Files, changes
from benchmarks.fbl_tables.forms_table import forms_table
from benchmarks.fbl_tables.measuring import measured
from benchmarks.machine import describe_machine
from benchmarks.run_folders import run_case

RESULTS = Path(__file__).resolve().parents[1] / "results" / "fbl_forms.json"


def main() -> None:
    """Measure, print and store, run by run: one seed of all before the next."""
    arguments = _arguments()
    files = Files(dict(arguments.pack), arguments.trunk)
    for seed in arguments.seeds:
        for footing in arguments.footings:
            for form in arguments.forms:
                _run(arguments, footing, form, seed, files)


def _run(arguments: argparse.Namespace, footing: str, form: str, seed: int, files: Files) -> None:
    tried = "".join(f"-{change}" for change in arguments.settings)
    folder = arguments.runs / f"{footing}{tried}" / f"{form}-{seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    told = changes(footing, form, seed, files, arguments.settings)
    found = measured(run_case(FOOTINGS[footing].scenario, told, folder), folder)
    print(f"{footing}{tried}/{form}/{seed}", json.dumps(found), flush=True)
    if not tried:
        _store(footing, form, seed, found)


def _store(footing: str, form: str, seed: int, found: dict[str, Any]) -> None:
    """Put a run into the results, in place of an older one of the same form and seed."""
    kept = json.loads(RESULTS.read_text("utf-8"))["runs"] if RESULTS.exists() else {}
    kept.setdefault(footing, {}).setdefault(form, {})[str(seed)] = found
    machine = {**describe_machine("torch"), "threads": torch.get_num_threads()}
    result = {"claim": "fbl_forms", "machine": machine, "runs": kept}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(forms_table(result), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--footings", type=names_among(FOOTINGS), default=list(FOOTINGS))
    parser.add_argument("--forms", type=names_among(FORMS), default=list(FORMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--pack", type=_pack, nargs="+", default=[], metavar="FOOTING=FILE")
    parser.add_argument("--trunk", type=_path, help="weights of MobileNetV2, of ImageNet")
    parser.add_argument("--runs", type=_path, default=Path(tempfile.gettempdir(), "fbl_forms"))
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", dest="settings")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return arguments


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _pack(text: str) -> tuple[str, Path]:
    footing, _, path = text.partition("=")
    return footing, _path(path)


if __name__ == "__main__":
    main()
