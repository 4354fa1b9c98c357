"""A file of ONNX by the first execution provider that really runs it.

- Providers that are not installed are passed over; the others are tried in the order given, but for
  those that are unfit.
- One that cannot load the file, or whose libraries do not load, is left for the next one.
- So is one that fails at its first run: a wheel that was built for another GPU is listed, loads,
  and has no kernel for this one.
- A run that no provider manages is the model's or the input's fault, and leaves none for good.
- After its first good run a provider stays: what fails then is told.

Source: `InferenceSession` of ONNX Runtime, whose own fallback is silent and is switched off here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleetledger.device_agent.errors import LoadError

log = logging.getLogger("device_agent.execution")

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
_PLACES = {CUDA: "cuda", TENSORRT: "cuda"}
"""Where a provider's values lie, if not in the host's memory."""
_LONGEST_REASON = 300

Feeds = Mapping[str, Any]


@dataclass(frozen=True)
class Provider:
    """An execution provider, and how it is to work."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    unfit: str = ""
    """Why it is left untried; empty where it is tried."""


class ProvenSession:
    """A file that is open with one provider; safe for several threads."""

    def __init__(
        self,
        runtime: Any,  # noqa: ANN401 - a module without type information
        path: Path,
        providers: Sequence[Provider],
        options: Callable[[], Any],
        *,
        bound: bool = False,
    ) -> None:
        """Open the file; `options` makes the session options of each attempt.

        With `bound` the values of a run are bound to where the provider computes. Raises
        `LoadError` if no provider takes the file.
        """
        self._runtime = runtime
        self._path = path
        self._options = options
        self._bound = bound
        available = runtime.get_available_providers()
        there = [provider for provider in providers if provider.name in available]
        self._wanted = [provider for provider in there if not provider.unfit]
        unfit = tuple(f"{provider.name}: {provider.unfit}" for provider in there if provider.unfit)
        self._lock = threading.Lock()
        self._proven = False
        self._left: tuple[str, ...] = ()
        self._first, self._session, reasons = self._open(0)
        reasons = unfit + reasons
        if self._session is None:
            names = ", ".join(provider.name for provider in providers)
            reasons = reasons or (f"none of {names} is installed",)
            raise LoadError(f"model: file {path.name[:12]} does not load: {'; '.join(reasons)}")
        self._leave(reasons)

    @property
    def provider(self) -> str:
        """The provider in use: after the first run the one that ran."""
        return str(self._session.get_providers()[0])

    @property
    def left(self) -> tuple[str, ...]:
        """Which providers were left for the next one, and why."""
        return self._left

    @property
    def session(self) -> Any:  # noqa: ANN401 - of ONNX Runtime
        """What ONNX Runtime made of the file."""
        return self._session

    def run(self, outputs: Sequence[str], feeds: Feeds) -> list[Any]:
        """Return outputs of one run; raise `LoadError` where no provider runs it."""
        if not self._proven:
            with self._lock:
                if not self._proven:
                    return self._first_run(outputs, feeds)
        try:
            return self._run(outputs, feeds)
        except Exception as error:  # ONNX Runtime's exceptions share no narrower base
            raise LoadError(f"model: {self.provider} cannot run it: {error}") from error

    def _run(self, outputs: Sequence[str], feeds: Feeds) -> list[Any]:
        if self._bound:
            return self._run_bound(outputs, feeds)
        values: list[Any] = self._session.run(list(outputs), dict(feeds))
        return values

    def _run_bound(self, outputs: Sequence[str], feeds: Feeds) -> list[Any]:
        """Run with values where the provider has them; those that are wanted alone come back."""
        place, binding = _PLACES.get(self.provider, "cpu"), self._session.io_binding()
        for name, values in feeds.items():
            there = self._runtime.OrtValue.ortvalue_from_numpy(values, place, 0)
            binding.bind_ortvalue_input(name, there)
        for name in outputs:
            binding.bind_output(name, place, 0)
        self._session.run_with_iobinding(binding)
        found: list[Any] = binding.copy_outputs_to_cpu()
        return found

    def _first_run(self, outputs: Sequence[str], feeds: Feeds) -> list[Any]:
        """Run with the provider in use, or with the first after it that can."""
        began, original, reasons = self._first, self._session, tuple[str, ...]()
        while True:
            try:
                values = self._run(outputs, feeds)
            except Exception as error:  # noqa: BLE001 - no narrower base; told below
                reasons += (f"{self.provider} cannot run it: {_short(error)}",)
            else:
                self._proven = True
                self._leave(reasons)
                return values
            first, session, unopened = self._open(self._first + 1)
            reasons += unopened
            if session is None:
                self._first, self._session = began, original
                raise LoadError(f"model: {'; '.join(reasons)}")
            self._first, self._session = first, session

    def _open(self, first: int) -> tuple[int, Any, tuple[str, ...]]:
        """Open with the first provider from here on that takes the file; None where none does.

        Each brings those after it along, for operators that it lacks.
        """
        reasons: tuple[str, ...] = ()
        for place in range(first, len(self._wanted)):
            wanted = self._wanted[place:]
            try:
                session = self._runtime.InferenceSession(
                    str(self._path),
                    self._options(),
                    providers=[provider.name for provider in wanted],
                    provider_options=[dict(provider.options) for provider in wanted],
                    enable_fallback=0,
                )
            except Exception as error:  # noqa: BLE001 - no narrower base; told by the caller
                reasons += (f"{wanted[0].name}: {_short(error)}",)
                continue
            session.disable_fallback()  # older ones know no `enable_fallback`
            used = session.get_providers()[0]
            skipped = [provider.name for provider in wanted]
            skipped = skipped[: skipped.index(used)] if used in skipped else []
            reasons += tuple(f"{name}: its libraries do not load" for name in skipped)
            return place + len(skipped), session, reasons
        return first, None, reasons

    def _leave(self, reasons: tuple[str, ...]) -> None:
        for reason in reasons:
            log.warning("%s is used: %s", self.provider, reason)
        self._left += reasons


def _short(error: Exception) -> str:
    """Return the first line of an error of ONNX Runtime, which may have many."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST_REASON]
