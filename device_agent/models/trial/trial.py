"""The agent's side of a trial: it asks, watches the process, and judges what comes back."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from fleetledger.device_agent.errors import MissingError, ModelError, TrialError
from fleetledger.device_agent.home.health.machine import Machine
from fleetledger.device_agent.home.memory import total_bytes
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.device_agent.models.execution.engines import EngineFolder, EngineStore
from fleetledger.device_agent.models.execution.providers import TENSORRT
from fleetledger.device_agent.models.inference.installed_model import (
    Inputs,
    SessionSettings,
    describe_runtime,
)
from fleetledger.device_agent.models.trial.messages import (
    MAX_ANSWER_BYTES,
    TrialAnswer,
    TrialEngines,
    TrialRequest,
    write_request,
)
from fleetledger.device_agent.models.trial.watched_child import ChildOutcome, TrialLimits, run_child
from fleetledger.device_agent.settings import ModelSettings
from fleetledger.runtime.child_limits import child_environment
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.errors import SchemaError
from fleetledger.runtime.progress import working_at
from fleetledger.schemas.models import Manifest
from fleetledger.schemas.values import Digest
from fleetledger.schemas.variants import VariantName

log = logging.getLogger("device_agent.trial")

VariantOf = Callable[[Digest], "VariantName | None"]
COMMAND = (sys.executable, "-m", "fleetledger.device_agent.models.trial.child")
NOTICEABLE_SECONDS = 0.01
"""Of one sample: what is slower by less is not too slow, whatever it is a multiple of."""
LEAK_BYTES = 64 << 20
_LIBRARIES_BYTES = 512 << 20
"""More than Python, NumPy and ONNX Runtime are resident with."""


@dataclass(frozen=True)
class TriedModel:
    """A model that is tried, and on what."""

    manifest: Digest
    variant: VariantName | None
    """Of the frozen part; None for the reference."""


class Trial:
    """Tries models in processes of their own; for one thread."""

    def __init__(
        self,
        blobs: BlobFolder,
        sessions: SessionSettings,
        settings: ModelSettings,
        command: Sequence[str] = COMMAND,
        machine: Machine | None = None,
        variant_of: VariantOf = lambda _: None,
    ) -> None:
        """Take what each trial has in common.

        `machine` says how warm it was when a model was slow; None where none is asked. `variant_of`
        tells on which variant a model in a slot runs, by its manifest.
        """
        self._blobs = blobs
        self._sessions = sessions
        self._settings = settings
        self._command = command
        self._variant_of = variant_of
        self._machine = machine
        self._building_since: float | None = None

    @property
    def building(self) -> str:
        """What is built now, and for how long; empty where nothing is; from any thread."""
        began = self._building_since
        if began is None:
            return ""
        return (
            f"an engine of TensorRT, for {time.monotonic() - began:.0f} s; at most "
            f"{self._settings.build_seconds:g} s, by [model] build_seconds"
        )

    def run(
        self,
        manifest: Digest,
        former: Digest | None,
        samples: Sequence[Inputs],
        variant: VariantName | None = None,
    ) -> TrialAnswer:
        """Try a model whose files are here, beside the former one; return what it took.

        Raises `TrialError` in words if the process died, hung or took too much, if the model gave
        wrong answers, or is too slow.
        """
        answer = self._ask(TriedModel(manifest, variant), former, samples)
        judge(answer, self._settings, self._conditions())
        return answer

    def build(self, manifest: Digest) -> None:
        """Build the engine of a model that is there already, where it has none that counts.

        What comes in the way is told in the log: the model then runs on the next provider.
        """
        candidate = TriedModel(manifest, self._variant_of(manifest))
        engine = self._engine_to_build(candidate)
        if engine is None:
            return
        try:
            refused = self._ask(candidate, None, ()).refused
        except TrialError as error:
            refused = str(error)
        if refused is not None:
            _give_up(engine, refused)

    def weigh(self, manifest: Digest) -> int | None:
        """Return the resident bytes of a process that has tested one model; None if it cannot."""
        try:
            answer = self._ask(TriedModel(manifest, self._variant_of(manifest)), None, ())
        except TrialError as error:
            log.warning("a model's memory is not known: %s", error)
            return None
        return answer.resident_bytes if answer.refused is None else None

    def _ask(
        self, candidate: TriedModel, former: Digest | None, samples: Sequence[Inputs]
    ) -> TrialAnswer:
        engine = self._engine_to_build(candidate)
        request = self._request(candidate, former, engine)
        try:
            outcome = self._run(request, samples, builds=engine is not None)
            answer = read_outcome(outcome, self._settings)
        except TrialError:
            if engine is not None:
                engine.discard()
            raise
        if engine is not None:
            _settle(engine, answer)
        return answer

    def _run(
        self, request: TrialRequest, samples: Sequence[Inputs], *, builds: bool
    ) -> ChildOutcome:
        working_at("the process that tries the model")
        if builds:
            log.info("TensorRT builds an engine; that may take minutes, and is done once")
            self._building_since = time.monotonic()
        # In memory, because samples of this device have no place in a folder for everybody.
        with os.fdopen(os.memfd_create("trial"), "w+b") as file:
            write_request(file, request, samples)
            file.seek(0)
            bounds = TrialLimits(
                self._settings.trial_seconds,
                request.memory_bytes + _LIBRARIES_BYTES,
                MAX_ANSWER_BYTES,
                self._settings.build_seconds if builds else 0.0,
                self._built,
            )
            try:
                return run_child(self._command, child_environment(dict(os.environ)), file, bounds)
            finally:
                self._built()

    def _built(self) -> None:
        self._building_since = None

    def _conditions(self) -> str:
        return "" if self._machine is None else self._machine.conditions().described

    def _store(self) -> EngineStore | None:
        """Return the engines of this device; None where TensorRT is not used."""
        if TENSORRT not in self._sessions.providers or self._sessions.engines is None:
            return None
        try:
            _, available = describe_runtime()
        except MissingError:
            return None  # the process that tries the model says so
        return self._sessions.engines if TENSORRT in available else None

    def _engine_to_build(self, candidate: TriedModel) -> EngineFolder | None:
        """Return an empty folder for the engine of a model; None where none is to be built."""
        store = self._store()
        if store is None:
            return None
        try:
            manifest = Manifest.read(self._blobs.read(candidate.manifest))
            frozen = manifest.frozen_with(candidate.variant).digest
            engine = store.of(frozen, self._sessions.batch)
            if engine.record() is not None:
                return None
            engine.begin()
        except (ModelError, SchemaError):
            return None  # as above
        except OSError as error:
            log.warning("%s: no engine can be kept: %s", store.folder, error)
            return None
        return engine

    def _engines(self, engine: EngineFolder | None) -> TrialEngines | None:
        store = self._store()
        if store is None:
            return None
        seconds = self._settings.trial_seconds * self._sessions.threads
        if engine is not None:
            # Of its threads: TensorRT takes as many as it likes.
            seconds += self._settings.build_seconds * (os.cpu_count() or 1)
        return TrialEngines(
            folder=str(store.folder),
            environment=store.environment(),
            builds=None if engine is None else engine.frozen,
            cpu_seconds=max(1, int(seconds)),
        )

    def _request(
        self, candidate: TriedModel, former: Digest | None, engine: EngineFolder | None
    ) -> TrialRequest:
        mib = self._settings.trial_memory_mib
        allowed = total_bytes() // 2 if mib is None else mib << 20
        return TrialRequest(
            blobs=str(self._blobs.folder.absolute()),
            manifest=candidate.manifest,
            former=former,
            variant=candidate.variant,
            former_variant=None if former is None else self._variant_of(former),
            providers=self._sessions.providers,
            threads=self._sessions.threads,
            batch=self._sessions.batch,
            domains=tuple(sorted(self._sessions.domains)),
            memory_bytes=allowed,
            cpu_seconds=max(1, int(self._settings.trial_seconds * self._sessions.threads)),
            engines=self._engines(engine),
        )


def _settle(engine: EngineFolder, answer: TrialAnswer) -> None:
    """Have an engine count that was built and ran; remember it where TensorRT cannot run this."""
    if answer.refused is not None:
        engine.discard()
    elif answer.provider != TENSORRT:
        _give_up(engine, "; ".join(answer.left))
    else:
        try:
            engine.keep()
        except OSError as error:
            log.warning("the engine is not kept: %s", error)
            engine.discard()


def _give_up(engine: EngineFolder, reason: str) -> None:
    log.warning("TensorRT is left for the next provider: %s", reason)
    try:
        engine.give_up(reason)
    except OSError as error:
        log.warning("%s: cannot be written: %s", engine.path, error)


def read_outcome(outcome: ChildOutcome, settings: ModelSettings) -> TrialAnswer:
    """Return what the process answered; raise `TrialError` if it did not."""
    if outcome.code < 0:
        raise TrialError(_died(-outcome.code, settings))
    said = f"; it last said: {outcome.last_words}" if outcome.last_words else ""
    if outcome.code > 0:
        raise TrialError(
            f"trial: the process that tried the model ended with exit code {outcome.code}{said}"
        )
    try:
        return TrialAnswer.model_validate_json(outcome.answer)
    except ValidationError as error:
        raise TrialError(
            f"trial: the process that tried the model answered nonsense, {outcome.answer[:40]!r}"
            f"{said}"
        ) from error


def judge(answer: TrialAnswer, settings: ModelSettings, conditions: str = "") -> None:
    """Raise `TrialError` for a model that was refused, leaves memory behind, or is too slow.

    `conditions` say how the machine was when its time was taken.
    """
    if answer.refused is not None:
        raise TrialError(answer.refused)
    if answer.grown_bytes > LEAK_BYTES:
        raise TrialError(
            f"trial: memory grew by {answer.grown_bytes >> 20} MiB in "
            f"{count_of(answer.runs, 'run')} of the model; it leaks"
        )
    told = f" ({conditions})" if conditions else ""
    takes = f"trial: the model takes {answer.seconds * 1000:.1f} ms for a sample{told}"
    if answer.seconds > settings.sample_seconds:
        raise TrialError(
            f"{takes}; [model] sample_seconds in agent.toml allows {settings.sample_seconds:g} s"
        )
    former, slower = answer.former_seconds, answer.slower
    if former is None or slower is None or answer.seconds - former < NOTICEABLE_SECONDS:
        return
    if slower > settings.slowdown:
        raise TrialError(
            f"{takes}, {slower:.1f} times as long as the former one of its lineage; [model] "
            f"slowdown in agent.toml allows {settings.slowdown:g}"
        )


def _died(number: int, settings: ModelSettings) -> str:
    if number == signal.SIGXCPU:
        return (
            f"trial: the model took more than {settings.trial_seconds:g} s of processor time; it "
            "hangs, or this device is slow: raise [model] trial_seconds in agent.toml"
        )
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    return f"trial: the model crashed the process that tried it: signal {number} ({name})"
