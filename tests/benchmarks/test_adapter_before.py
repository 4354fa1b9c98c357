"""Adapters before the sums: nothing at first, trained by those who are not asked, kept or not."""

from __future__ import annotations

import pytest
import torch

from benchmarks.papers.adapter_before import run as study

pytestmark = pytest.mark.torch


@pytest.fixture
def weights() -> study.Weights:
    """A network of the file's names and shapes."""
    made = {"conv1.weight": torch.randn(16, 3, 3, 3) / 4}
    made |= _normalised("bn1", 16)
    inputs = 16
    for place, width in enumerate((*(16,) * 3, *(32,) * 3, *(64,) * 3)):
        name = f"layer{place // 3 + 1}.{place % 3}"
        for number, channels in ((1, inputs), (2, width)):
            made[f"{name}.conv{number}.weight"] = torch.randn(width, channels, 3, 3) / 12
            made |= _normalised(f"{name}.bn{number}", width)
        inputs = width
    return made


def _normalised(name: str, width: int) -> study.Weights:
    of_ones, of_zeros = ("weight", "running_var"), ("bias", "running_mean")
    return {f"{name}.{part}": torch.ones(width) for part in of_ones} | {
        f"{name}.{part}": torch.zeros(width) for part in of_zeros
    }


def coloured(count: int) -> study.Part:
    """Pictures of 20 classes that differ in colour, noisy, dealt to ten devices in turn."""
    labels = torch.arange(count) % 20
    colours = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    pictures = colours[labels][:, :, None, None] + 0.1 * torch.randn(count, 3, 32, 32)
    return study.Part(pictures, labels, (torch.arange(count) // 20) % study.DEVICES)


def test_an_adapter_begins_as_nothing_and_is_what_devices_train(
    weights: study.Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "ROUNDS", 1)
    part = coloured(200)
    frozen = study.Adapted(weights).eval()
    seen = study.features(frozen, part)
    assert seen.shape == (200, 113)
    first = part.of(part.labels < 4)
    adapted = study.trained(weights, first, 4, seed=1)
    assert abs(study.features(adapted, part) - seen).max() > 1e-3
    again = study.trained(weights, first.of(first.owners < 8), 4, seed=1)
    assert (study.features(again, part) == study.features(adapted, part)).all(), (
        "devices that are held out have no part in it"
    )


def test_the_gate_asks_devices_that_trained_nothing(
    weights: study.Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "ROUNDS", 1)
    found = study.measured(weights, coloured(400), coloured(200), first=4, seed=1)
    assert found["asked"] == 400 * 4 // 20 * study.HELD_OUT // study.DEVICES
    assert found["gained"] + found["lost"] <= found["asked"]
    assert found["keeps"] == (
        found["gained"] > found["lost"] + 2 * (found["gained"] + found["lost"]) ** 0.5
    )
    assert found["frozen"] > 50
