"""ONNX Runtime with a TensorRT that is made up: it keeps engines as the real one does.

`python -m tests.device_agent.models.execution.fake_tensorrt` is the process of a trial that has it.
What it does is said by variables whose names reach that process, too:

    TRT_FAKE_LOG        a file that gets a line for each build
    TRT_FAKE_GATE       a build ends once this file is there
    TRT_FAKE_TRUNCATES  the disk has no room for what is built
    TRT_FAKE_FAILS      it has no kernel for this GPU, and says so at its first run
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from fleetledger.device_agent.models.execution.providers import CPU, TENSORRT
from fleetledger.device_agent.models.inference import installed_model
from fleetledger.device_agent.models.trial import child
from fleetledger.schemas.values import Digest

COMMAND_MODULE = "tests.device_agent.models.execution.fake_tensorrt"


class EngineSession:
    """A session that computes on the processor, and only with an engine for its batches."""

    def __init__(self, path: str, session: Any, options: Mapping[str, str]) -> None:
        self._session = session
        self._name = Digest.of(Path(path).read_bytes()).short
        self._options = options
        self._engine: list[int] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def get_providers(self) -> list[str]:
        return [TENSORRT, CPU]

    def run(self, outputs: Sequence[str], feeds: Mapping[str, Any]) -> Any:
        if "TRT_FAKE_FAILS" in os.environ:
            raise RuntimeError("CUDA failure 209: no kernel image is available\nmore")
        (batch,) = {len(value) for value in feeds.values()}
        self._have_engine(batch)
        return self._session.run(outputs, feeds)

    def _have_engine(self, batch: int) -> None:
        assert self._options["trt_engine_cache_enable"] == "True"
        folder = Path(self._options["trt_engine_cache_path"])
        file = folder / f"{self._options['trt_engine_cache_prefix']}_{self._name}_0_sm87.engine"
        if self._engine is None and file.exists():
            try:
                self._engine = json.loads(file.read_text())
            except ValueError as error:
                raise RuntimeError("TensorRT EP could not deserialize engine") from error
        first, last = self._engine or (batch, batch)
        if self._engine and first <= batch <= last:
            return
        gate = os.environ.get("TRT_FAKE_GATE")
        while gate is not None and not Path(gate).exists():
            time.sleep(0.01)
        with Path(os.environ["TRT_FAKE_LOG"]).open("a") as log:
            log.write(f"{os.getpid()} {batch}\n")
        self._engine = [min(first, batch), max(last, batch)]
        text = json.dumps(self._engine)
        file.write_text(text[:-1] if "TRT_FAKE_TRUNCATES" in os.environ else text)
        (folder / "TensorrtExecutionProvider_cache_sm87.timing").write_bytes(b"timings")


class FakeTensorRt:
    """The module."""

    __version__ = onnxruntime.__version__
    SessionOptions = onnxruntime.SessionOptions

    def get_available_providers(self) -> list[str]:
        return [TENSORRT, CPU]

    def InferenceSession(  # noqa: N802 - its name
        self,
        path: str,
        options: Any,
        *,
        providers: list[str],
        provider_options: list[dict[str, str]],
        enable_fallback: int,
    ) -> Any:
        session = onnxruntime.InferenceSession(
            path, options, providers=[CPU], enable_fallback=enable_fallback
        )
        if providers[0] == TENSORRT:
            return EngineSession(path, session, provider_options[0])
        return session


if __name__ == "__main__":
    installed_model._runtime = FakeTensorRt
    child.main()
