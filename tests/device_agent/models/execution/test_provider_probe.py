"""Two nodes say whether a provider runs, whatever it does to the process that asks it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from fleetledger.device_agent.cli.doctor import _provider
from fleetledger.device_agent.models.execution.provider_probe import ProbeAnswer, probe, run_probe
from fleetledger.device_agent.models.execution.providers import CPU, CUDA


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_the_processor_computes_both_nodes() -> None:
    answer = probe(CPU)
    assert (answer.ran, answer.failed) == ((CPU,), "")
    assert 0 < answer.milliseconds < 10_000


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import os; os.kill(os.getpid(), 11)", "ends the process that asks it: signal 11"),
        ("raise SystemExit('libcudart is missing')", "1; it last said: libcudart is missing"),
        ("print('hello')", "ends the process that asks it: 0"),
    ],
)
def test_one_that_ends_the_process_is_told(code: str, told: str) -> None:
    assert told in probe(CUDA, python(code)).failed


def test_one_that_hangs_is_given_up() -> None:
    assert "does not answer" in probe(CUDA, python("import time; time.sleep(600)"), 0.5).failed


class Broken:
    """ONNX Runtime whose session fails, or counts wrongly."""

    SessionOptions = onnxruntime.SessionOptions
    GraphOptimizationLevel = onnxruntime.GraphOptimizationLevel

    def __init__(self, *, wrong: bool) -> None:
        self._wrong = wrong

    def InferenceSession(self, *given: Any, **named: Any) -> Any:  # noqa: N802 - its name
        session = onnxruntime.InferenceSession(*given, **named)
        if not self._wrong:
            raise RuntimeError("CUDA failure 209: no kernel image\nmore")
        run = session.run
        session.run = lambda *asked: [np.zeros_like(value) for value in run(*asked)]
        return session


def test_one_that_fails_or_gives_wrong_numbers_is_told(tmp_path: Path) -> None:
    failed = run_probe(Broken(wrong=False), CPU, tmp_path).failed
    assert failed == "CUDA failure 209: no kernel image"
    assert run_probe(Broken(wrong=True), CPU, tmp_path).failed == "gives wrong numbers"


def test_doctor_says_what_ran_and_what_to_do() -> None:
    assert _provider(CPU, ProbeAnswer(ran=(CPU,), milliseconds=0.25)).verdict == "ok"
    elsewhere = _provider(CUDA, ProbeAnswer(ran=(CPU,), milliseconds=0.25))
    assert (elsewhere.verdict, elsewhere.text) == ("note", f"two nodes ran on {CPU} instead")
    assert _provider(CUDA, ProbeAnswer(failed="no kernel image")).verdict == "note"
    assert _provider(CPU, ProbeAnswer(failed="gives wrong numbers")).verdict == "missing"
