"""The command that fills the GPU's table: budget, checkpoint, refusals, and what it compares."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu.budget import Budget, OutOfTimeError
from benchmarks.gpu.cases import CASES, FIRST_STAGE, LocalRound
from benchmarks.gpu.checkpoint import Checkpoint, CheckpointError
from benchmarks.gpu.entries import Check, Entry, Place, Speed, difference, entries
from benchmarks.gpu.machine import precise
from benchmarks.gpu.profile import share_of
from benchmarks.gpu.run import RESULTS, measure, parsed, run
from benchmarks.gpu.table import table
from benchmarks.speed.kernel_counts.accelerator import DEVICE, counted
from fleetledger.learning.training.settings import TrainingEngineSettings
from fleetledger.simulator.scenario.loading import load_scenario

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
TINY = Place("cpu", small=True)
FEDHAF, MLP, LGA = CASES[0], CASES[1], CASES[-1]
ROWS: list[Entry] = [
    Check(FEDHAF, "stack beside loop", "float64"),
    Speed(FEDHAF, "stack", "float32"),
    Speed(FEDHAF, "loop", "float32"),
    Speed(LGA, "loop", "bfloat16"),
]


class Clock:
    """A clock that moves when it is told to, or by so much whenever it is looked at."""

    def __init__(self, each_look: float = 0.0) -> None:
        self.now = 0.0
        self.each_look = each_look

    def __call__(self) -> float:
        self.now += self.each_look
        return self.now

    def taking(self, seconds: float) -> Callable[[], None]:
        """Return what takes so long."""

        def wait() -> None:
            self.now += seconds

        return wait


def hour() -> Budget:
    return Budget.starting(3600.0)


def opened(path: Path, **about: object) -> Checkpoint:
    return Checkpoint.opened(path, {"device": "cpu", "small": True, **about})


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed_by(names: set[str]) -> set[str]:
    """Return the distributions and those that they need here themselves, extras left out."""
    found: set[str] = set()
    todo = [canonical(name) for name in names]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        with suppress(PackageNotFoundError):  # what another platform needs
            lines = [line for line in requires(name) or () if "extra ==" not in line]
            todo += [canonical(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines]
    return found


def test_runs_are_repeated_while_a_share_lasts() -> None:
    clock = Clock()
    budget = Budget.starting(100.0, clock)
    assert budget.share(4).repeat(clock.taking(5.0), most=7) == [5.0] * 4  # and one to warm up
    assert budget.left() == 75.0
    assert budget.share(3).repeat(clock.taking(1.0), most=7) == [1.0] * 7
    clock.now = 90.0
    assert budget.share(1).repeat(clock.taking(1.0), most=7, spare_runs=4) == [1.0] * 5


def test_a_run_longer_than_its_share_is_measured_once_and_one_beyond_the_budget_never() -> None:
    clock = Clock()
    budget = Budget.starting(100.0, clock)
    assert budget.share(10).repeat(clock.taking(30.0), most=7) == [30.0]
    with pytest.raises(OutOfTimeError, match=r"takes 30\.0 s, more than is left"):
        budget.share(10).repeat(clock.taking(30.0), most=7)


def test_a_run_that_was_cut_off_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    soon = Budget.starting(4.0, Clock(each_look=1.0))
    left = measure(ROWS, TINY, opened(path), soon)
    assert left == [row.name for row in ROWS[1:]]
    (before,) = opened(path).entries.items()
    assert measure(ROWS, TINY, opened(path), hour()) == []
    found = opened(path).entries
    assert list(found) == [row.name for row in ROWS]
    assert found[ROWS[0].name] == before[1]
    assert found[ROWS[0].name]["equal"] is True
    for row in ROWS[1:]:
        assert found[row.name]["seconds"]["runs"] > 1
        assert found[row.name]["gpu"] is found[row.name]["peak_bytes"] is None
    stacked, looped = found[ROWS[1].name], found[ROWS[2].name]
    assert stacked["steps"] == looped["steps"] == 3 * (10 + 2)
    assert found[ROWS[3].name]["protocol"]["steps"] == 780_000


def test_a_row_that_failed_is_kept_as_such_and_measured_again(tmp_path: Path) -> None:
    def broken(**_: object) -> LocalRound:
        raise RuntimeError("no such kernel")

    path = tmp_path / "gpu.json"
    rows: list[Entry] = [
        Speed(replace(MLP, make=broken), "loop", "float32"),
        Speed(LGA, "loop", "float32"),
    ]
    assert measure(rows, TINY, opened(path), hour()) == []
    found = opened(path)
    assert found.entries[rows[0].name]["failed"] == "RuntimeError: no such kernel"
    assert "seconds" in found.entries[rows[1].name]
    assert not found.has(rows[0].name, rows[0].work(True))
    assert found.has(rows[1].name, rows[1].work(True))
    assert not found.has(rows[1].name, rows[1].work(False))


def test_results_of_another_machine_or_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    opened(path, machine={"card": "one"}).put("a row", {"work": {}})
    with pytest.raises(CheckpointError, match="card was 'one' and is 'other' here"):
        opened(path, machine={"card": "other"})
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match="holds no results of this command"):
        opened(path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "device: cuda, which torch"),
        (["--small"], "nothing was measured"),
        (["--device", "cpu"], "goes with --small"),
        (["--device", "meta", "--small"], "give cuda"),
        (["--device", "cuda:7"], "device: cuda:7, which torch"),
        (["--device", "gpu"], "device: 'gpu', which torch does not know"),
        (["--device", "cpu", "--small"], "--out: missing"),
        (["--device", "cpu", "--small", "--budget", "0"], "--budget: 0; give"),
    ],
)
def test_without_a_gpu_it_refuses_in_words_and_writes_nothing(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = RESULTS.exists()
    assert run(parsed(words)) == 2
    assert told in capsys.readouterr().err
    assert RESULTS.exists() == before


def test_the_command_needs_no_package_but_those_that_it_names(tmp_path: Path) -> None:
    out = tmp_path / "tiny.json"
    program = f"""
import sys
from benchmarks.gpu.run import parsed, run
status = run(parsed("--device cpu --small --only engine --budget 4 --out {out}".split()))
print("NEEDS", *{{name.partition(".")[0] for name in sys.modules}})
sys.exit(status)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    roots = done.stdout.splitlines()[-1].split()[1:]
    there = packages_distributions()
    needs = {canonical(one) for root in roots for one in there.get(root, [])}
    needed = needed_by({"torch", "numpy", "safetensors", "pydantic", "zstandard"})
    assert needs - {"setuptools"} <= needed | {"fleetledger"}  # setuptools: loaded by a .pth file
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["about"]["device"], found["about"]["small"]) == ("cpu", True)
    assert next(iter(entries())).name in found["entries"]
    assert "On cpu, in a tiny size" in out.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", [FEDHAF, MLP], ids=lambda case: str(case.name))
def test_ways_that_differ_are_apart_by_more_than_rounding(case: Any) -> None:
    made: LocalRound = case.round(small=True)
    loop, stack = TrainingEngineSettings("loop"), TrainingEngineSettings("stack")
    assert difference(made, loop, stack) < 1e-5
    assert difference(made.doubled(), loop, stack) < 1e-12
    assert difference(made, loop, replace(loop, autocast=True)) > 1e-5


def test_a_comparison_needs_something_that_was_trained() -> None:
    made = CASES[-2].round(small=True)
    still = [replace(work, optimiser=replace(work.optimiser, rates=(0.0,))) for work in made.works]
    loop = TrainingEngineSettings("loop")
    with pytest.raises(ValueError, match="none has moved"):
        difference(LocalRound(still), loop, loop)


def test_nothing_of_a_case_is_prepared_by_convolutions_on_the_processor() -> None:
    """LGA looks at its images first: with ResNet-18 that takes a processor minutes."""
    for case in CASES[2:]:

        def made(case: Any = case) -> object:
            return case.round(small=True, device=DEVICE)

        assert counted(made).totals()["host_convolutions"] == 0, case.name
    assert counted(lambda: LGA.round(small=True)).totals()["host_convolutions"] > 0


def test_the_first_stage_is_that_of_the_shipped_scenario() -> None:
    first = load_scenario("cifar100-stsa-scratch").method.first_stage
    assert first is not None
    assert dict(first.settings) == FIRST_STAGE


def test_kernels_beside_each_other_count_once_and_copies_do_not_compute() -> None:
    seen = [("gemm", (0.0, 4e5)), ("norm", (3e5, 5e5)), ("Memcpy HtoD", (6e5, 9e5))]
    found = share_of(seen, wall=1.0)
    assert (found["share"], found["kernels"], found["copies"]) == (0.5, 2, 1)
    assert share_of([], wall=1.0)["share"] is None


def test_tf32_is_switched_as_a_row_says_and_then_as_it_was() -> None:
    convolutions, before = torch.backends.cudnn, torch.backends.cudnn.allow_tf32
    for precision in ("float32", "tf32"):
        with precise(precision):
            assert convolutions.allow_tf32 is (precision == "tf32")
        assert convolutions.allow_tf32 is before


def test_estimates_stand_apart_and_say_that_nobody_measured_them() -> None:
    names = [row.name for row in entries()]
    assert len(set(names)) == len(names)
    rows: dict[str, Mapping[str, Any]] = {
        name: {
            "seconds": {"median": took, "lowest": took, "highest": took, "runs": 3},
            "agents_per_second": 100 / took,
            "steps_per_second": 1.0,
            "gpu": {"share": 0.5},
            "peak_bytes": {"tensors": 2**20},
        }
        for name, took in (("fedhaf, stack of 1 GiB, float32", 2.0), ("fedhaf, loop, float32", 8.0))
    }
    assert rows.keys() <= set(names)
    machine = {"torch": "2", "python": "3", "cpu": "one"}
    about = {"device": "cuda", "small": False, "machine": machine}
    text = table({"about": about, "entries": rows})
    assert "estimate for one H100, not measured" in text
    assert "| 50.0% | 1 MiB | - | 0.06 to 0.1 s a round |" in text
    assert "stack of 1 GiB, float32 trains 4 times as many agents per second" in text
