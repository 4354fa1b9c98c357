"""Where features are extracted, by what this machine's packages can use."""

import pytest

from fleetledger.simulator.errors import BackboneError
from fleetledger.simulator.features import providers
from fleetledger.simulator.features.providers import (
    CPU,
    CUDA,
    TORCH_CUDA,
    Choice,
    choose_extraction,
)


def machine(monkeypatch: pytest.MonkeyPatch, *, runtime: bool, torch: bool) -> None:
    monkeypatch.setattr(providers, "_cuda_works", lambda: runtime)
    monkeypatch.setattr(providers, "torch_has_cuda", lambda: torch)


@pytest.mark.parametrize("in_torch", [True, False])
@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_onnx_runtime_on_a_gpu_comes_first(device, in_torch, monkeypatch):
    machine(monkeypatch, runtime=True, torch=True)
    assert choose_extraction(device, in_torch) == Choice(CUDA)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_torch_extracts_on_a_gpu_that_onnx_runtime_cannot_use(device, monkeypatch):
    machine(monkeypatch, runtime=False, torch=True)
    choice = choose_extraction(device, in_torch=True)
    assert choice.provider == TORCH_CUDA
    assert "torch can, and extracts features there" in choice.remark


def test_a_gpu_that_idles_is_told(monkeypatch):
    machine(monkeypatch, runtime=False, torch=True)
    choice = choose_extraction("auto", in_torch=False)
    assert choice.provider == CPU
    assert "on the CPU, which may take hours; install onnxruntime-gpu" in choice.remark


def test_a_gpu_that_is_asked_for_and_cannot_be_used_is_an_error(monkeypatch):
    machine(monkeypatch, runtime=False, torch=True)
    with pytest.raises(BackboneError, match=r"engine\.device: 'cuda' does not work"):
        choose_extraction("cuda", in_torch=False)


@pytest.mark.parametrize("in_torch", [True, False])
def test_nothing_is_told_where_there_is_no_gpu(in_torch, monkeypatch):
    machine(monkeypatch, runtime=False, torch=False)
    assert choose_extraction("auto", in_torch) == Choice(CPU)


def test_the_processor_is_used_where_it_is_asked_for(monkeypatch):
    machine(monkeypatch, runtime=True, torch=True)
    assert choose_extraction("cpu", in_torch=True) == Choice(CPU)
