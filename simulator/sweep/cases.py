"""What a sweep runs: every scenario, or every form of a study, with every combination of values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.message import explain
from fleetledger.simulator.errors import RunError, ScenarioError
from fleetledger.simulator.run.durable import replace_file
from fleetledger.simulator.scenario.loading import parse_scenario, scenario_to_toml
from fleetledger.simulator.scenario.model import Scenario
from fleetledger.simulator.scenario.overrides import read_value
from fleetledger.simulator.scenario.shipped import SUFFIX
from fleetledger.simulator.scenario.study import load_forms

MOST_RUNS = 10_000
_FILE, _CASES = "sweep.json", "cases"
_UNSAFE = re.compile(r"[^\w.,=+-]+")


@dataclass(frozen=True)
class Axis:
    """A field, and the values that it is given in turn."""

    field: str
    values: tuple[Any, ...]

    @classmethod
    def read(cls, text: str) -> Axis:
        """Read `FIELD=[VALUE, VALUE, ...]`; raise `ScenarioError` for anything else."""
        field, _, told = text.partition("=")
        values = read_value(told)
        if not isinstance(values, list) or not values:
            raise ScenarioError(
                f"--vary {text}: no list of values; write it like "
                "--vary 'method.settings.ridge=[1e3, 1e4]'"
            )
        if len({json.dumps(value) for value in values}) < len(values):
            raise ScenarioError(f"--vary {text}: a value stands twice; give each once")
        return cls(field.strip(), tuple(values))

    @property
    def name(self) -> str:
        """The last part of the field's name."""
        return self.field.rpartition(".")[2]


@dataclass(frozen=True)
class Case:
    """A scenario with all its seeds; its folder has a run for each seed."""

    name: str
    folder: Path
    scenario: Scenario

    def runs(self) -> Iterator[SweptRun]:
        """Yield the run of each seed."""
        for seed in self.scenario.seeds:
            alone = self.scenario.model_copy(update={"seeds": (seed,)})
            yield SweptRun(f"{self.name}, seed {seed}", self.folder / f"seed-{seed}", seed, alone)


@dataclass(frozen=True)
class SweptRun:
    """One seed of a case."""

    name: str
    folder: Path
    seed: int
    scenario: Scenario


class _Begun(Strict):
    """The file of a sweep: the names of its cases, in order."""

    cases: tuple[str, ...]


def make_cases(
    out: Path, scenarios: Sequence[str], changes: Sequence[str], axes: Sequence[Axis]
) -> list[Case]:
    """Return the cases of a new sweep in `out`, checked; raise `ScenarioError`."""
    fields = [axis.field for axis in axes]
    for told, kind in ((fields, "field"), (scenarios, "scenario")):
        twice = sorted({one for one in told if told.count(one) > 1})
        if twice:
            raise ScenarioError(f"sweep: the {kind} {twice[0]!r} stands twice; give it once")
    cases = []
    for scenario in scenarios:
        for values in product(*(axis.values for axis in axes)):
            varied = list(zip(axes, values, strict=True))
            told = [f"{axis.field}={json.dumps(value)}" for axis, value in varied]
            parts = [f"{axis.name}={_short(value)}" for axis, value in varied]
            for form in load_forms(scenario, [*changes, *told]):
                first = [Path(scenario).name.removesuffix(SUFFIX), *form.name.split(", ")]
                name = _UNSAFE.sub("_", ",".join(filter(None, [*first, *parts])))
                cases.append(Case(name, out / _CASES / name, form.scenario))
    runs = sum(len(case.scenario.seeds) for case in cases)
    if runs > MOST_RUNS:
        raise ScenarioError(
            f"sweep: {count_of(runs, 'run')}; give values for at most {MOST_RUNS:,}"
        )
    return cases


def write_cases(out: Path, cases: Sequence[Case]) -> None:
    """Write down what a sweep runs, so that it can be gone on with; raise `RunError`."""
    if out.exists() and any(out.iterdir()):
        raise RunError(f"{out}: is not empty; give another folder, or go on with --resume {out}")
    for case in cases:
        case.folder.mkdir(parents=True)
        (case.folder / f"scenario{SUFFIX}").write_text(scenario_to_toml(case.scenario))
    begun = _Begun(cases=tuple(case.name for case in cases))
    replace_file(out / _FILE, begun.model_dump_json(indent=1).encode())


def read_cases(out: Path) -> list[Case]:
    """Return the cases of a sweep that was begun; raise `RunError` where there is none."""
    try:
        begun = _Begun.model_validate_json((out / _FILE).read_bytes())
    except OSError as error:
        raise RunError(
            f"{out / _FILE}: cannot be read ({error.strerror}); give the folder of a sweep"
        ) from error
    except ValidationError as error:
        raise RunError(f"{out / _FILE}: not a sweep's: {explain(error)}") from error
    return [_read(out / _CASES / name) for name in begun.cases]


def _short(value: Any) -> str:  # noqa: ANN401 - any TOML value
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read(folder: Path) -> Case:
    path = folder / f"scenario{SUFFIX}"
    scenario = parse_scenario(str(path), path.read_text(encoding="utf-8"), folder)
    return Case(folder.name, folder, scenario)
