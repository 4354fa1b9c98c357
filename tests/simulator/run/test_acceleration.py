"""Statistics are computed on a GPU where a scenario lets its fleet in this process use one."""

import pytest

from fleetledger.simulator.run import seed_run
from fleetledger.simulator.run.seed_run import accelerator_of
from fleetledger.simulator.scenario.sections import EngineSettings


@pytest.mark.parametrize(
    ("kind", "device", "there"),
    [("inprocess", "cpu", True), ("mqtt", "auto", True), ("inprocess", "auto", False)],
)
def test_numpy_computes_where_no_gpu_may(kind, device, there, monkeypatch):
    monkeypatch.setattr(seed_run, "torch_has_cuda", lambda: there)
    assert accelerator_of(EngineSettings(kind=kind, device=device)) is None


@pytest.mark.torch
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_torch_computes_where_it_has_a_gpu(device, monkeypatch):
    from fleetledger.learning.training import torch_accelerator

    made: list[str] = []
    monkeypatch.setattr(seed_run, "torch_has_cuda", lambda: True)
    monkeypatch.setattr(torch_accelerator, "TorchAccelerator", made.append)
    accelerator_of(EngineSettings(kind="inprocess", device=device))
    assert made == ["cuda"]
