"""A file is run by the first execution provider that really can, and it is told which could not."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fleetledger.device_agent.errors import LoadError
from fleetledger.device_agent.models.execution.providers import (
    CPU,
    CUDA,
    TENSORRT,
    ProvenSession,
    Provider,
)

ALL = [Provider(TENSORRT, {"trt_fp16_enable": "1"}), Provider(CUDA), Provider(CPU)]


class FakeSession:
    """A session of ONNX Runtime that fails as its runtime is told to."""

    def __init__(self, runtime: FakeRuntime, used: str) -> None:
        self._runtime = runtime
        self._used = used

    def get_providers(self) -> list[str]:
        return [self._used]

    def disable_fallback(self) -> None:
        pass

    def run(self, _outputs: Sequence[str], _feeds: Mapping[str, Any]) -> list[str]:
        if self._used in self._runtime.cannot_run:
            raise RuntimeError(f"{self._used}: no kernel image\nfor this device")
        return [self._used]

    def io_binding(self) -> FakeBinding:
        return FakeBinding()

    def run_with_iobinding(self, binding: FakeBinding) -> None:
        binding.values = [*self.run((), {}), *binding.bound]


class FakeBinding:
    """What a run's values are bound to."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, Any]] = []
        self.values: list[Any] = []

    def bind_ortvalue_input(self, name: str, value: Any) -> None:
        self.bound.append((name, value))

    def bind_output(self, name: str, place: str, number: int) -> None:
        self.bound.append((name, (place, number)))

    def copy_outputs_to_cpu(self) -> list[Any]:
        return self.values


class FakeValue:
    """`OrtValue`: says where numbers were put."""

    @staticmethod
    def ortvalue_from_numpy(values: str, place: str, number: int) -> tuple[str, str, int]:
        return values, place, number


class FakeRuntime:
    """ONNX Runtime with providers that are listed and do not work."""

    OrtValue = FakeValue

    def __init__(self, available: Sequence[str] = (TENSORRT, CUDA, CPU)) -> None:
        self.available = list(available)
        self.cannot_open: set[str] = set()
        self.cannot_run: set[str] = set()
        self.no_libraries: set[str] = set()
        self.opened: list[tuple[list[str], list[dict[str, str]]]] = []

    def get_available_providers(self) -> list[str]:
        return self.available

    def InferenceSession(  # noqa: N802 - ONNX Runtime's name
        self,
        _path: str,
        _options: object,
        *,
        providers: list[str],
        provider_options: list[dict[str, str]],
        enable_fallback: int,
    ) -> FakeSession:
        assert enable_fallback == 0
        self.opened.append((providers, provider_options))
        if providers[0] in self.cannot_open:
            raise RuntimeError(f"{providers[0]} cannot take this file")
        return FakeSession(self, next(x for x in providers if x not in self.no_libraries))


def opened(runtime: FakeRuntime) -> ProvenSession:
    return ProvenSession(runtime, Path("frozen.onnx"), ALL, object)


def test_the_first_that_is_there_runs_with_its_options() -> None:
    runtime = FakeRuntime()
    session = opened(runtime)
    assert session.run(["y"], {}) == [TENSORRT]
    assert (session.provider, session.left) == (TENSORRT, ())
    assert runtime.opened == [([TENSORRT, CUDA, CPU], [{"trt_fp16_enable": "1"}, {}, {}])]
    assert opened(FakeRuntime([CPU])).run(["y"], {}) == [CPU]


def test_one_that_fails_at_its_first_run_is_left_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = FakeRuntime()
    runtime.cannot_run = {TENSORRT, CUDA}
    session = opened(runtime)
    assert session.provider == TENSORRT
    with caplog.at_level(logging.WARNING):
        assert session.run(["y"], {}) == [CPU]
    assert session.provider == CPU
    assert session.left == (
        f"{TENSORRT} cannot run it: {TENSORRT}: no kernel image",
        f"{CUDA} cannot run it: {CUDA}: no kernel image",
    )
    assert len(caplog.records) == 2


def test_one_that_is_unfit_is_left_untried_and_told() -> None:
    runtime = FakeRuntime()
    unfit = Provider(TENSORRT, unfit="no engine is here")
    session = ProvenSession(runtime, Path("frozen.onnx"), [unfit, *ALL[1:]], object)
    assert session.run(["y"], {}) == [CUDA]
    assert session.left == (f"{TENSORRT}: no engine is here",)
    assert runtime.opened == [([CUDA, CPU], [{}, {}])]
    elsewhere = ProvenSession(FakeRuntime([CPU]), Path("frozen.onnx"), [unfit, ALL[2]], object)
    assert elsewhere.left == ()


def test_one_that_does_not_take_the_file_or_has_no_libraries_is_left() -> None:
    runtime = FakeRuntime()
    runtime.cannot_open, runtime.no_libraries = {TENSORRT}, {CUDA}
    session = opened(runtime)
    assert session.run(["y"], {}) == [CPU]
    assert session.left == (
        f"{TENSORRT}: {TENSORRT} cannot take this file",
        f"{CUDA}: its libraries do not load",
    )


def test_a_run_that_none_manages_leaves_none_for_good() -> None:
    runtime = FakeRuntime()
    runtime.cannot_run = {TENSORRT, CUDA, CPU}
    session = opened(runtime)
    with pytest.raises(LoadError, match=f"{CPU} cannot run it"):
        session.run(["y"], {})
    assert (session.provider, session.left) == (TENSORRT, ())
    runtime.cannot_run = set()
    assert session.run(["y"], {}) == [TENSORRT]


def test_after_a_good_run_what_fails_is_told() -> None:
    runtime = FakeRuntime()
    session = opened(runtime)
    session.run(["y"], {})
    runtime.cannot_run = {TENSORRT}
    with pytest.raises(LoadError, match=f"{TENSORRT} cannot run it"):
        session.run(["y"], {})
    assert session.provider == TENSORRT


def test_a_file_that_none_takes_is_refused_with_all_reasons() -> None:
    runtime = FakeRuntime()
    runtime.cannot_open = {TENSORRT, CUDA, CPU}
    with pytest.raises(LoadError, match=f"{TENSORRT} cannot take.*{CPU} cannot take"):
        opened(runtime)
    with pytest.raises(LoadError, match=f"none of {TENSORRT}, {CUDA}, {CPU} is installed"):
        opened(FakeRuntime([]))


@pytest.mark.parametrize(("used", "place"), [(TENSORRT, "cuda"), (CUDA, "cuda"), (CPU, "cpu")])
def test_values_are_bound_to_where_the_provider_computes(used: str, place: str) -> None:
    runtime = FakeRuntime()
    runtime.cannot_run = {name for name in (TENSORRT, CUDA) if name != used}
    runtime.cannot_run -= {CUDA} if used == TENSORRT else set()
    session = ProvenSession(runtime, Path("frozen.onnx"), ALL, object, bound=True)
    assert session.run(["y"], {"x": "numbers"}) == [
        used,
        ("x", ("numbers", place, 0)),
        ("y", (place, 0)),
    ]
