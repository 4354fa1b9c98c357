"""Paper form, released form, and what changes L_FS: on digits, CamVid and MSRC, over seeds.

    python -m benchmarks.papers.fbl_tables.forms_run --footings digits,digits-disjoint
    python -m benchmarks.papers.fbl_tables.forms_run --footings camvid --pack camvid=camvid.npz \
        --trunk ...

`--rates 0.3 1 3` first tries each form with these multiples of the footing's rate, on a seed that
is not among those reported (`--search-seed`); reported seeds have the best of them from then on.
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

from benchmarks import RESULTS_FOLDER
from benchmarks.arguments import names_among
from benchmarks.machine import describe_machine
from benchmarks.papers.fbl_tables.first_task import train_first
from benchmarks.papers.fbl_tables.forms import FOOTINGS, FORMS, Case, Files, changes
from benchmarks.papers.fbl_tables.forms_table import best_rate, forms_table
from benchmarks.papers.fbl_tables.measuring import measured
from benchmarks.run_folders import run_case

RESULTS = RESULTS_FOLDER / "fbl_forms.json"


def main() -> None:
    """Measure, print and store, run by run: the rates, then one seed of all before the next."""
    arguments = _arguments()
    files = Files(dict(arguments.pack), arguments.trunk, arguments.runs / "first")
    rows = [(footing, form) for footing in arguments.footings for form in arguments.forms]
    for footing, form in rows:
        for rate in arguments.rates:
            case = Case(footing, form, arguments.search_seed, rate)
            _run(arguments, case, files, "search", str(rate))
    for seed in arguments.seeds:
        for footing, form in rows:
            rate = 1.0 if arguments.settings else best_rate(_stored(), footing, form)
            _run(arguments, Case(footing, form, seed, rate), files, "runs", str(seed))


def _run(arguments: argparse.Namespace, case: Case, files: Files, part: str, key: str) -> None:
    tried = "".join(f"-{change}" for change in arguments.settings)
    rate = "" if case.rate == 1 else f"-rate-{case.rate}"
    folder = arguments.runs / f"{case.footing}{tried}" / f"{case.form}{rate}-{case.seed}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {"rate": case.rate}
    if FOOTINGS[case.footing].first_epochs is not None:
        first = train_first(case.footing, case.seed, files)
        found["first_seconds"] = first["processor_seconds"]
    told = changes(case, files, arguments.settings)
    found |= measured(run_case(FOOTINGS[case.footing].scenario, told, folder, report=False), folder)
    print(f"{case.footing}{tried}/{case.form}/{part}/{key}", json.dumps(found), flush=True)
    if not tried:
        _store(case, part, key, found)


def _stored() -> dict[str, Any]:
    empty: dict[str, Any] = {"runs": {}, "search": {}}
    return empty | (json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {})


def _store(case: Case, part: str, key: str, found: dict[str, Any]) -> None:
    """Put a run into the results, in place of an older one of the same form and seed, or rate."""
    kept = _stored()
    kept[part].setdefault(case.footing, {}).setdefault(case.form, {})[key] = found
    machine = {**describe_machine("torch"), "threads": torch.get_num_threads()}
    result = {"claim": "fbl_forms", "machine": machine, "runs": kept["runs"]}
    result["search"] = kept["search"]
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(forms_table(result), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--footings", type=names_among(FOOTINGS), default=list(FOOTINGS))
    parser.add_argument("--forms", type=names_among(FORMS), default=list(FORMS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rates", type=float, nargs="+", default=[], help="multiples to search")
    parser.add_argument("--search-seed", type=int, default=4)
    parser.add_argument("--pack", type=_pack, nargs="+", default=[], metavar="FOOTING=FILE")
    parser.add_argument("--trunk", type=_path, help="weights of MobileNetV2, of ImageNet")
    parser.add_argument("--runs", type=_path, default=Path(tempfile.gettempdir(), "fbl_forms"))
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE", dest="settings")
    arguments = parser.parse_args()
    if arguments.rates and (arguments.settings or arguments.search_seed in arguments.seeds):
        parser.error("--rates: goes with no --set, and with a --search-seed that --seeds lacks")
    torch.set_num_threads(1)
    return arguments


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _pack(text: str) -> tuple[str, Path]:
    footing, _, path = text.partition("=")
    return footing, _path(path)


if __name__ == "__main__":
    main()
