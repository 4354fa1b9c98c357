"""The engine `mqtt`: the scenario's fleet as real programs on this machine, stage by stage.

The rules of a stage, in their order:

- Devices that are not there are switched off. Those that come, for the first time or again, are
  started with all images that have waited for them, and do first what is left of earlier stages.
- The stage's images reach all devices that are there, and only then the stage opens: the operator
  opens it, or what the devices report does.
- A straggler is paused while the stage opens, for its delay, but for three seconds at most: the
  fleet's clock is the clock on the wall.
- The operator closes the stage when all devices that are there have answered and have nothing left
  to give. A quorum below all closes it as in the field.
- It is done when the desired model was solved from exactly what is counted, and runs on every
  device that is there.
- Where the fleet trains a network, the coordinator leads the stage's rounds and closes it by
  itself; whoever is away is in no cohort.

Processes are started by the thread that makes the engine and calls `learn`; let it be the main one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from fleetledger.coordinator.core.commands import Command
from fleetledger.coordinator.core.state import State
from fleetledger.coordinator.errors import CommandError
from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.paths import blob_folder
from fleetledger.coordinator.program.command_client import carried_out
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.runtime.count_words import count_of
from fleetledger.schemas.values import DeviceId
from fleetledger.simulator.engines.interface import Prepared, Watch
from fleetledger.simulator.engines.model_folder import write_model
from fleetledger.simulator.engines.mqtt.deliveries import Deliveries
from fleetledger.simulator.engines.mqtt.folder import FleetFolder
from fleetledger.simulator.engines.mqtt.homes import admit
from fleetledger.simulator.engines.mqtt.meter import ProcessMeter, phases
from fleetledger.simulator.engines.mqtt.programs import LONGEST_DELAY_SECONDS, Programs, Question
from fleetledger.simulator.engines.mqtt.settings import lacks_cuda
from fleetledger.simulator.engines.mqtt.stage_questions import (
    StageGoal,
    StageQuestions,
    evaluation_awaited,
)
from fleetledger.simulator.engines.presence import needed_names, online, opens_by_itself
from fleetledger.simulator.engines.recorder import Recorder, StageMeasures
from fleetledger.simulator.engines.round_log import RoundWatch
from fleetledger.simulator.engines.rounds import rounds_seconds
from fleetledger.simulator.engines.stages import ledger_stages
from fleetledger.simulator.errors import EngineError
from fleetledger.simulator.plan.fleet_plan import StagePlan
from fleetledger.simulator.records import StageRecord

MAX_AGENTS = 50
EXTRA_SECONDS = 600.0
"""Beyond a stage's deadline, until whatever is awaited must have happened."""


class MqttEngine:
    """A fleet of real programs on `folder`, new or left by a former run; fits `Engine`.

    Raises `EngineError` for more devices than one machine runs as processes.
    """

    def __init__(self, prepared: Prepared, folder: Path, watch: Watch) -> None:
        _check_number(len(prepared.plan.devices))
        self._prepared = prepared
        self._folder = FleetFolder(folder.absolute())
        self._watch = watch
        watch.phase("starting broker and coordinator")
        self._programs = Programs(prepared, self._folder, watch.phase)
        self._follower = self._programs.follower
        self._meter = ProcessMeter(self._programs)
        self._deliveries = Deliveries(prepared, self._folder)
        self._recorder = Recorder(prepared.plan, self._programs.ledger)
        blobs = BlobStore(str(blob_folder(self._folder.coordinator)))
        self._blobs = Blobs(self._programs.ledger, blobs)
        self._rounds = RoundWatch(
            prepared, self._blobs, self._follower.state, self._folder.root, watch
        )

    def learn(self, stage: StagePlan) -> StageRecord:
        """Let the fleet learn a stage to its end; see `Engine`.

        Raises `EngineError`, or another error of the house that says what failed.
        """
        began = time.monotonic()
        there = online(self._prepared.scenario, stage, self._prepared.plan.seed)
        questions = StageQuestions(self._goal(stage, there), self._programs, self._watch)
        gone_on_with = questions.opening_awaited(self._follower.state) is None
        self._come_and_go(stage, there, questions)
        self._watch.phase("images reach the devices")
        arrived_ns = self._deliveries.of_stage(stage, there)
        self._open(stage, there, questions)
        self._wait(partial(self._learning, stage, questions), "devices compute")
        self._close()
        self._wait(questions.stage_awaited, "the model is made and goes round")
        accuracy = self._measured_by(stage, there)
        state = self._follower.state
        numbers = ledger_stages(state, self._prepared.plan, stage)
        measured = StageMeasures(
            there=there,
            usage={device: self._meter.since_last(device) for device in there},
            arrived_ns=arrived_ns,
            seconds=phases(state, numbers, time.monotonic() - began),
            peak_memory_mib=sum(child.peak_mib() for child in self._programs.children.running),
            notes=tuple(self._notes(stage, gone_on_with=gone_on_with)),
            rounds=self._rounds.log.records(numbers),
            accuracy_on_devices=accuracy,
        )
        return self._recorder.record(state, stage, measured)

    def model_folder(self, record: StageRecord) -> Path:
        """Return a folder with the model of `record`, until another one is asked for."""
        return write_model(self._blobs, record.manifest, self._folder.root / "model")

    def close(self) -> None:
        """Stop all programs; the folder stays."""
        self._programs.close()

    def _learning(self, stage: StagePlan, questions: StageQuestions, state: State) -> str | None:
        """Return what devices have left to do, and look at the rounds that are over."""
        self._rounds.look(state, stage)
        return questions.learning_awaited(state)

    def _wait(self, question: Question, label: str) -> None:
        self._watch.phase(label)
        scenario = self._prepared.scenario
        seconds = scenario.engine.deadline_seconds + rounds_seconds(scenario) + EXTRA_SECONDS
        self._follower.wait(question, seconds, label)

    def _goal(self, stage: StagePlan, there: tuple[DeviceId, ...]) -> StageGoal:
        """Return what the stage comes to; what nobody can report is not opened by reports."""
        names = needed_names(self._prepared, stage, there)
        if not names:
            raise EngineError(
                f"stage {stage.number}: no device that is there has images of its classes, so "
                "nobody will report them; set stages.opened_by to schedule, or let one be online"
            )
        return StageGoal(self._prepared.plan, stage, names, there)

    def _measured_by(self, stage: StagePlan, there: tuple[DeviceId, ...]) -> float | None:
        """Return the accuracy that devices tell of the stage's model, if they are to measure it."""
        if not self._prepared.scenario.evaluation.on_devices:
            return None
        asked = {device: self._deliveries.questions(stage, device) for device in there}
        self._wait(partial(evaluation_awaited, questions=asked), "agents measure the model")
        models = self._follower.state.models
        told = models.measured_all(models.desired_of_all or 0)
        return told.correct / told.total if told.total else None

    def _come_and_go(
        self, stage: StagePlan, there: tuple[DeviceId, ...], questions: StageQuestions
    ) -> None:
        """Switch devices off and on; wait until those that came have nothing left to do."""
        programs = self._programs
        programs.stop_agents(programs.running - set(there))
        coming = [device for device in there if device not in programs.running]
        if not coming:
            return
        self._watch.phase(f"starting {count_of(len(coming), 'agent')}")
        known = self._follower.state.devices.admitted
        new = (device for device in coming if device not in known)
        admit(self._folder.coordinator, new, self._programs.children.check)
        for device in coming:
            self._deliveries.of_test(device)
            self._deliveries.of_earlier_stages(stage, device)
            programs.start_agent(device)
        self._wait(partial(questions.rest_awaited, devices=coming), "agents come up")
        self._meter.start(coming)

    def _open(
        self, stage: StagePlan, there: tuple[DeviceId, ...], questions: StageQuestions
    ) -> None:
        """Have the stage opened, unless it was; its stragglers hear of it late."""
        if questions.opening_awaited(self._follower.state) is None:
            return
        if opens_by_itself(self._prepared.scenario, stage):
            self._wait(questions.opening_awaited, "devices report")
            stragglers = self._programs.hold_up(stage, there)
        else:
            stragglers = self._programs.hold_up(stage, there)
            self._command(OpenStage(class_names=self._prepared.plan.names(stage.named)))
            self._wait(questions.opening_awaited, "the stage opens")
        for straggler in stragglers:
            straggler.go_on_later()

    def _close(self) -> None:
        """Close the stage: there is nothing to wait for, nor anybody who is switched off."""
        state = self._follower.state
        if state.lineages.in_rounds:
            return  # rounds wait for those alone who are connected
        if state.stages.open is not None:
            with suppress(CommandError):  # it has closed meanwhile
                self._command(CloseStage())

    def _command(self, command: Command) -> None:
        """Have the coordinator that runs carry out a command."""
        check = self._programs.children.check  # raises why nobody answers, at once
        carried_out(self._folder.coordinator, command, alone=False, meanwhile=check)

    def _notes(self, stage: StagePlan, *, gone_on_with: bool) -> Iterator[str]:
        yield (
            "memory is the sum of the peaks of the coordinator and of every agent that ran; a "
            "device's seconds are processor time of its agent"
        )
        if gone_on_with:
            yield "a former run had opened this stage: what was sent and computed then is missing"
        if lacks_cuda(self._prepared.scenario):
            yield "engine.device asks for CUDA, which ONNX Runtime lacks here: agents used the CPU"
        longest = max((device.delay_seconds for device in stage.devices.values()), default=0.0)
        if longest > LONGEST_DELAY_SECONDS:
            yield (
                f"stragglers were late by {LONGEST_DELAY_SECONDS:g} s at most, since the fleet's "
                f"clock was the clock on the wall; the longest delay planned was {longest:.0f} s"
            )


def _check_number(devices: int) -> None:
    if devices > MAX_AGENTS:
        raise EngineError(
            f"engine.kind: mqtt runs a process for every device, and {devices} are more than the "
            f"{MAX_AGENTS} that share one machine's memory and cores; set engine.kind to inprocess"
        )
