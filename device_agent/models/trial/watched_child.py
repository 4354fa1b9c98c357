"""A child process whose words, time and memory are bounded by whoever started it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from fleetledger.device_agent.errors import TrialError
from fleetledger.device_agent.home.memory import resident_bytes
from fleetledger.device_agent.models.trial.messages import BUILT
from fleetledger.runtime.progress import working_at

_LOOK_SECONDS = 0.05
_LAST_WORDS = 2000
_PIECE = 1 << 16


@dataclass(frozen=True)
class TrialLimits:
    """What a child may take."""

    seconds: float
    """By the clock on the wall."""
    resident_bytes: int
    answer_bytes: int
    build_seconds: float = 0.0
    """Before these, where an engine is built; the child says when that is done."""
    on_built: Callable[[], None] = lambda: None


@dataclass
class ChildOutcome:
    """How a child ended."""

    code: int
    """Exit code; negative the number of the signal that ended it."""
    answer: bytes
    last_words: str
    """The end of its standard error."""


@dataclass
class _Stage:
    """What the child is at, and until when."""

    bounds: TrialLimits
    building: bool = field(init=False)
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.building = self.bounds.build_seconds > 0
        first = self.bounds.build_seconds if self.building else self.bounds.seconds
        self.deadline = time.monotonic() + first

    def hear(self, answer: bytearray) -> None:
        """Take the word that an engine was built out of what the child has answered."""
        if self.building and answer.startswith(BUILT):
            del answer[: len(BUILT)]
            self.building = False
            self.deadline = time.monotonic() + self.bounds.seconds
            self.bounds.on_built()

    def check(self) -> None:
        """Raise `TrialError` where it takes too long; a build within its time gets on."""
        if self.building:
            working_at("the engine that TensorRT builds")
        if time.monotonic() <= self.deadline:
            return
        if self.building:
            raise TrialError(
                f"trial: TensorRT built no engine within {self.bounds.build_seconds:g} s: raise "
                "[model] build_seconds in agent.toml, or leave TensorRT out of [model] providers"
            )
        raise TrialError(
            f"trial: the model was not tried within {self.bounds.seconds:g} s; it hangs, or this "
            "device is slow: raise [model] trial_seconds in agent.toml"
        )


@dataclass
class _Heard:
    answer: bytearray = field(default_factory=bytearray)
    words: bytearray = field(default_factory=bytearray)


def run_child(
    command: Sequence[str], environment: dict[str, str], request: BinaryIO, bounds: TrialLimits
) -> ChildOutcome:
    """Run a command on a request until it ends; nothing of it is left then.

    Raises `TrialError` in words if it exceeds its bounds, or cannot be started.
    """
    try:
        child = subprocess.Popen(  # noqa: S603 - the command is the agent's own
            list(command),
            stdin=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise TrialError(
            f"trial: the process that tries models cannot be started: {error.strerror}"
        ) from error
    try:
        heard = _hear_out(child, bounds)
        return ChildOutcome(child.wait(), bytes(heard.answer), _readable(heard.words))
    finally:
        _end(child)


def _hear_out(child: subprocess.Popen[bytes], bounds: TrialLimits) -> _Heard:
    """Take in what the child says until it has closed both its mouths."""
    assert child.stdout is not None
    assert child.stderr is not None
    heard, stage = _Heard(), _Stage(bounds)
    with selectors.DefaultSelector() as mouths:
        mouths.register(child.stdout, selectors.EVENT_READ, heard.answer)
        mouths.register(child.stderr, selectors.EVENT_READ, heard.words)
        while mouths.get_map():
            for key, _ in mouths.select(_LOOK_SECONDS):
                piece = os.read(key.fd, _PIECE)
                key.data.extend(piece)
                if not piece:
                    mouths.unregister(key.fileobj)
            del heard.words[:-_LAST_WORDS]
            stage.hear(heard.answer)
            _check(child, heard, stage)
    while child.poll() is None:
        # It may close its mouths and live on.
        _check(child, heard, stage)
        time.sleep(_LOOK_SECONDS)
    return heard


def _check(child: subprocess.Popen[bytes], heard: _Heard, stage: _Stage) -> None:
    bounds = stage.bounds
    if len(heard.answer) > bounds.answer_bytes:
        raise TrialError(
            f"trial: the process that tried the model said more than {bounds.answer_bytes} bytes"
        )
    stage.check()
    resident = resident_bytes(child.pid)
    if resident > bounds.resident_bytes:
        raise TrialError(
            f"trial: the process that tried the model took {resident >> 20} MiB; at most "
            f"{bounds.resident_bytes >> 20} are allowed by [model] trial_memory_mib in agent.toml"
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and all that it may have started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _readable(words: bytearray) -> str:
    lines = words.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][-300:] if lines else ""
