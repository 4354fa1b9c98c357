"""The benchmark of stacks: its ways to compute agree, and its ratios are those of equal turns."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gpu.entries import difference
from benchmarks.speed.stacked_training import run
from benchmarks.speed.stacked_training.layers import Size, step, ways

pytestmark = pytest.mark.torch

TINY = Size(agents=3, pictures=4, side=8, widths=(4, 6))


def test_all_ways_to_compute_the_layers_give_the_same_gradients() -> None:
    pictures, kernels = TINY.drawn()
    doubled = [kernel.double() for kernel in kernels]
    found = {name: step(way, pictures.double(), doubled) for name, way in ways(TINY).items()}
    for name, gradients in found.items():
        for one, other in zip(gradients, found["alone"], strict=True):
            assert torch.allclose(one, other, atol=1e-9), name
            assert bool((other != 0).any())


def test_a_ratio_is_of_the_same_turn() -> None:
    seconds: dict[str, Any] = {
        "loop": {"wall": [2.0, 8.0, 4.0]},
        "stack": {"wall": [1.0, 2.0, 4.0]},
    }
    found = run.told(seconds, "loop")
    assert found["stack"]["wall"] == {"seconds": 2.0, "ratio": 2.0, "range": [1.0, 4.0]}
    assert found["loop"]["wall"] == {"seconds": 4.0, "ratio": 1.0, "range": [1.0, 1.0]}


def test_loop_and_stack_train_the_same_round() -> None:
    made = run.round_of(3, side=8, batch=8, images=16, network="convnet")
    assert len({len(work.data) for work in made.works}) == 3, "a stack of them pads"
    assert difference(made, run.LOOP, run.STACK) < 1e-5


def test_each_number_of_threads_has_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def measured(threads: int, words: list[str]) -> dict[str, Any]:
        asked.append((threads, words))
        way = {"processor": {"seconds": threads, "ratio": 0.5, "range": [0.25, 1]}}
        rounds = {"a case": {"loop": way, "stack": way, "apart": 1e-6}}
        return {"rounds": rounds, "layers": {"a size": {"alone": way, "last": way}}}

    out = tmp_path / "found.json"
    monkeypatch.setattr(run, "in_process", measured)
    monkeypatch.setattr(sys, "argv", ["run", "--agents", "4", "--turns", "1", "--out", str(out)])
    run.main()
    assert asked == [(count, ["--agents", "4", "--turns", "1"]) for count in (1, 2)]
    found = json.loads(out.read_text())
    assert found["by_threads"].keys() == {"1", "2"}
    assert "| a case | 2 s | 2 s, 0.50 (0.25 to 1.00) |" in capsys.readouterr().out
    assert found["machine"]["cores"]


def test_the_results_are_of_all_that_is_measured() -> None:
    written = json.loads(run.RESULTS.read_text())
    for found in written["by_threads"].values():
        assert found["rounds"].keys() == run.ROUNDS.keys()
        assert found["layers"].keys() == run.LAYERS.keys()
        for layers in found["layers"].values():
            assert layers.keys() == ways(TINY).keys()
