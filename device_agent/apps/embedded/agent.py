"""An agent inside an application: the whole of `agent run` in threads of its own.

It takes no signals and changes nothing of the process: not its logging, folder, umask, collector or
allocator. Everything of the agent lives on its thread; a call from elsewhere is a question that the
thread answers between two turns.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from typing_extensions import Self

from fleetledger.device_agent.apps.embedded.given import (
    GivenSample,
    Sample,
    class_given,
    file_of,
    keep_sample,
    under_another,
)
from fleetledger.device_agent.core.scans import counted_images
from fleetledger.device_agent.core.state import AgentState
from fleetledger.device_agent.errors import AgentEndedError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.status_file import Status
from fleetledger.device_agent.models.inference.running_model import RunningModel, home_folder
from fleetledger.device_agent.program.assembly import AgentSurroundings
from fleetledger.device_agent.program.main import agent_in, over_mqtt
from fleetledger.device_agent.program.parts import AgentParts
from fleetledger.device_agent.program.shell import AgentShell
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.waiting import wait_for
from fleetledger.schemas.values import Digest

log = logging.getLogger("device_agent")

_ANSWER_SECONDS = 60.0
"""Time for the agent's thread to answer; a turn takes a second at most."""
Answer = TypeVar("Answer")
_Question = Callable[[AgentShell, AgentParts], Any]


class Agent:
    """The agent of a home, which runs as long as the `with` block.

    `home` is the agent's folder; left out, it is `$FLEETLEDGER_AGENT`, else `agent-home`. Several
    homes may have an agent each in one process. Any thread may call.

    Entering raises `SettingsError`, `HomeError` where another agent runs on the home, and
    `StoreError`. A call and the end of the block raise `AgentEndedError` once the agent has ended
    by an error, which is chained to it.
    """

    surroundings: Callable[[AgentHome], AgentSurroundings] = staticmethod(over_mqtt)
    """Makes what the agent runs on, from its home."""

    def __init__(self, home: str | os.PathLike[str] | None = None) -> None:
        # An application may change its folder while the agent runs.
        self.home = home_folder(home).absolute()
        self._opened: AgentHome | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._began: Future[tuple[AgentShell, AgentParts]] = Future()
        self._questions: SimpleQueue[tuple[_Question, Future[Any]]] = SimpleQueue()
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._stopping = False
        self._giving = threading.Lock()
        self._opening = threading.Lock()
        self._model: RunningModel | None = None

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise AgentEndedError(f"{self._name} was begun already; make another one")
        self._opened = AgentHome.open(self.home)
        # A daemon, for a block that never ends must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._run, name="fleetledger agent", daemon=True)
        atexit.register(self._stop)
        self._thread.start()
        try:
            self._began.result()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        if self._error is None:
            return
        ended = self._ended_by(self._error)
        if kind is None:
            raise ended
        if not isinstance(error, AgentEndedError):
            log.error("%s", ended)  # the application's own error goes on

    def give(self, sample: Sample, label: str) -> GivenSample:
        """Have the device learn a sample of a class; it is on the disk when this returns.

        A sample is what `[data] samples` of agent.toml names: an array of uint8 (height, width, 3),
        red first, or a Pillow image; a `str` where samples are texts; an array of numbers where
        they are arrays. In every case it may be the content of a file as bytes, or its path. It is
        counted once, by the digest of its content. A class that the fleet does not know waits until
        a stage is opened with it.

        Raises `GiveError` for what is no sample, no name of a class, or another class's sample,
        and where the disk refuses.
        """
        opened = self._alive()
        name = class_given(label)
        content = file_of(sample, opened.settings.data)
        digest = Digest.of(content[0])
        state = self._began.result()[1].state
        seen = state.scanning.images.get(digest)
        if seen is not None and (path := opened.data_folder / seen.path).exists():
            if seen.class_name != name:
                raise under_another(path, name)
            return GivenSample(digest, new=False)
        counted = counted_images(state.records).get(digest)
        if counted is not None and counted.class_name == name:
            return GivenSample(digest, new=False)
        with self._giving:
            return GivenSample(digest, keep_sample(opened.data_folder, name, content))

    @property
    def model(self) -> RunningModel:
        """The model that runs on this device, as `fleetledger.active_model` returns it.

        Raises `NoModelError` where none is active yet, and what `RunningModel.open` raises.
        """
        self._alive()
        with self._opening:
            if self._model is None:
                self._model = RunningModel.open(self.home)
            return self._model

    def status(self) -> Status:
        """Return how the agent is now, as `fleetledger agent status --json` prints it."""
        return self._ask(lambda shell, _: shell.status())

    def wait(
        self,
        condition: Callable[[Status], bool] | None = None,
        *,
        version: int | None = None,
        received: GivenSample | str | Iterable[GivenSample | str] = (),
        timeout: float = 60.0,
    ) -> Status:
        """Wait until all that is named holds, and return the status of then.

        `condition` is asked of the status, `version` is the least version of a model that runs
        here, and `received` are samples, or digests of samples, for which the coordinator has sent
        its receipt. Raises `WaitTimeoutError` after `timeout` seconds with how things stand.
        """
        given = [received] if isinstance(received, GivenSample | str) else list(received)
        digests = [one.digest if isinstance(one, GivenSample) else Digest(one) for one in given]
        if condition is None and version is None and not digests:
            raise ValueError("wait: nothing is named; give a condition, version= or received=")

        def ask() -> tuple[Status, int]:
            return self._ask(lambda shell, parts: (shell.status(), _missing(parts.state, digests)))

        def met(found: tuple[Status, int]) -> bool:
            status, missing = found
            return (
                not missing
                and (version is None or (status.active_version or 0) >= version)
                and (condition is None or condition(status))
            )

        def describe(found: tuple[Status, int]) -> str:
            wanted = [f"model version {version}"] if version is not None else []
            if digests:
                wanted.append(
                    f"receipts, which {found[1]} of {count_of(len(digests), 'sample')} lack"
                )
            if condition is not None:
                wanted.append("the condition")
            return f"{' and '.join(wanted)}; {self._name} {_stands(found[0])}"

        return wait_for(ask, met, timeout, describe)[0]

    @property
    def _name(self) -> str:
        return f"the agent of {self.home}"

    def _run(self) -> None:
        """Run on the agent's thread from the lock to the end; what it raises is kept."""
        try:
            with agent_in(self.home, self.surroundings) as (shell, parts):

                def turn() -> None:
                    if not self._began.done():
                        self._began.set_result((shell, parts))
                    if self._stopping:
                        shell.stop()
                    self._answer(shell, parts)

                shell.run(turn)
        except BaseException as error:
            self._error = error
            if self._began.done():
                log.exception("%s has ended by an error", self._name)
        finally:
            self._ended.set()
            self._refuse_questions()
            if not self._began.done():
                # What keeps an agent from its start is the application's to read as it is.
                self._began.set_exception(self._error or AgentEndedError(f"{self._name} has ended"))
                self._error = None

    def _answer(self, shell: AgentShell, parts: AgentParts) -> None:
        """Answer what was asked since the last turn."""
        while True:
            try:
                question, answer = self._questions.get_nowait()
            except Empty:
                return
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(question(shell, parts))
            except Exception as error:  # noqa: BLE001 - raised again where it was asked
                answer.set_exception(error)

    def _ask(self, question: Callable[[AgentShell, AgentParts], Answer]) -> Answer:
        """Return what the agent's thread answers; raise what the question raises there."""
        self._alive()
        answer: Future[Answer] = Future()
        self._questions.put((question, answer))
        self._began.result()[0].wake()
        if self._ended.is_set():
            self._refuse_questions()
        try:
            return answer.result(_ANSWER_SECONDS)
        except FutureTimeoutError:
            answer.cancel()
            raise AgentEndedError(
                f"{self._name} did not answer within {_ANSWER_SECONDS:g} s; "
                "look whether its disk answers"
            ) from None

    def _refuse_questions(self) -> None:
        while True:
            try:
                _, answer = self._questions.get_nowait()
            except Empty:
                return
            if answer.set_running_or_notify_cancel():
                answer.set_exception(self._ended_by(self._error))

    def _alive(self) -> AgentHome:
        """Return the home; raise `AgentEndedError` where the agent does not run."""
        if self._process != os.getpid():
            raise AgentEndedError(
                f"{self._name} is of process {self._process}, from which this one was forked; call "
                "it there, or make one of another home here"
            )
        if self._opened is None:
            raise AgentEndedError(f"{self._name} was not begun; call it inside `with`")
        if self._ended.is_set():
            raise self._ended_by(self._error)
        return self._opened

    def _ended_by(self, error: BaseException | None) -> AgentEndedError:
        if error is None:
            return AgentEndedError(f"{self._name} was stopped; make another one")
        ended = AgentEndedError(f"{self._name} has ended by an error: {str(error) or repr(error)}")
        ended.__cause__ = error
        return ended

    def _stop(self) -> None:
        """End the agent and wait for it; also where it was not begun, and a second time."""
        if self._process != os.getpid():
            return  # it is the other process's
        atexit.unregister(self._stop)
        self._stopping = True
        if self._began.done() and self._began.exception() is None:
            self._began.result()[0].stop()
        if self._thread is not None:
            self._thread.join()
        with self._opening:
            if self._model is not None:
                self._model.close()


def _missing(state: AgentState, digests: list[Digest]) -> int:
    """Return how many samples are in no part that the coordinator has accepted.

    Raises `ValueError` where samples get no receipt.
    """
    assignment = state.records.assignment
    if digests and assignment is not None and assignment.frozen is None:
        raise ValueError("received: a fleet that trains in rounds sends none; wait for version=")
    counted, parts = counted_images(state.records), state.records.parts
    found = (counted.get(digest) for digest in digests)
    return sum(one is None or parts[one.key].state != "accepted" for one in found)


def _stands(status: Status) -> str:
    """Say in a clause how an agent is."""
    if not status.connected:
        broker = "is not connected to its broker"
    elif not status.coordinator:
        broker = "is connected and has not heard its coordinator"
    else:
        broker = "hears its coordinator"
    model = "no model" if status.active_version is None else f"model {status.active_version}"
    stage = "no stage" if status.stage is None else f"stage {status.stage}"
    said = (
        f"{broker}, runs {model}, knows {stage} and has {count_of(status.images_on_disk, 'sample')}"
    )
    waiting = ", ".join(status.waiting_classes)
    return "; ".join(
        (
            said,
            *([f"classes that no stage has: {waiting}"] if waiting else []),
            *(str(problem) for problem in status.problems),
        )
    )
