"""An extractor's features, with values bound to the provider's memory and without."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.models.inference.installed_model import InferenceSession
from fleetledger.simulator.features import bank, extraction
from fleetledger.simulator.features.bank import open_bank
from fleetledger.simulator.features.extraction import BatchExtractor
from fleetledger.simulator.features.providers import CPU, CUDA, Choice
from tests.export.networks import COLOUR
from tests.simulator.features.scenes import BACKBONE, Heard, images, split


def rows(extractor: BatchExtractor) -> np.ndarray:
    samples = images(20, seed=1)
    return np.concatenate(
        [found for found, _ in extractor.batches([(samples, i) for i in range(20)])]
    )


def test_bound_values_give_the_features_of_plain_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, output = bank._imported(BACKBONE)
    plain = rows(BatchExtractor(model, output, COLOUR, CPU))
    settings = extraction.SessionSettings
    monkeypatch.setattr(
        extraction, "SessionSettings", lambda *given, **_: replace(settings(*given), bound=True)
    )
    runs: list[object] = []
    bound = BatchExtractor(model, output, COLOUR, CPU)
    run = bound._session._proven._run_bound
    monkeypatch.setattr(
        bound._session._proven, "_run_bound", lambda *given: runs.append(given) or run(*given)
    )
    assert np.array_equal(rows(bound), plain)
    assert len(runs) == 3  # of 8, 8 and 4


def test_a_gpu_that_was_to_extract_and_cannot_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr(bank, "choose_extraction", lambda *_, **__: Choice(CUDA))
    monkeypatch.setattr(InferenceSession, "left", property(lambda _: (f"{CUDA}: no kernel image",)))
    open_bank(split(), BACKBONE, tmp_path, "cuda", heard)
    assert heard.remarks == [
        "features were extracted on the CPU: CUDAExecutionProvider: no kernel image"
    ]
