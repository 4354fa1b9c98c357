"""The whole agent says how it is, by what its machine and its model tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fleetledger.device_agent.home.health.reader import hindered
from fleetledger.device_agent.program.assembly import AgentSurroundings, assemble, rules_of
from fleetledger.runtime.problems import DatedProblem
from fleetledger.schemas.health import DeviceHealth
from fleetledger.schemas.reports import Evaluation
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import model_files as models
from tests.device_agent.scripted import (
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    greet,
    write_settings,
)

TELLING = replace(FAST, health_seconds=0.1)


def test_a_device_says_what_its_model_was_asked(home: Path) -> None:
    broker = InMemoryBroker()
    coordinator = ScriptedCoordinator.in_memory(broker)
    running = RunningAgent(broker, home, TELLING)
    greet(coordinator)
    health, envelope = coordinator.wait_for(DeviceHealth)
    assert (health.provider, health.inferences, health.problems) == (None, 0, ())
    assert health.resident_bytes is not None
    assert health.free_disk_bytes is not None
    good = models.exported(1)
    desired = models.desired_of(good.manifest, good, action=7)
    coordinator.desire(desired, good.manifest.canonical_bytes(), *good.files.values())
    coordinator.wait_for(Evaluation)
    health, later = coordinator.wait_for(DeviceHealth, lambda said: said.inferences >= 4)
    assert health.provider == "CPUExecutionProvider"
    assert health.inferences == 4
    assert health.inference_p95_seconds is not None
    assert later.header.boot == envelope.header.boot
    running.stop()
    coordinator.stop()


def test_what_will_hinder_the_agent_is_told_beside_what_does() -> None:
    problems = [
        DatedProblem(about="broker", text="it is away", since_ns=0, hinders=True),
        DatedProblem(about="certificate", text="it ends soon", since_ns=5 * 10**9),
        DatedProblem(about="sample", text="a.png: left out", since_ns=0),
    ]
    told = hindered(problems, ["no GPU"], 20 * 10**9)
    assert [(one.about, one.seconds, one.hinders) for one in told] == [
        ("broker", 20, True),
        ("certificate", 15, False),
        ("provider", None, True),
    ]


def test_settings_say_how_often_and_what_node_exporter_reads(tmp_path: Path) -> None:
    def assembled(more: str, **around: object):
        home = write_settings(tmp_path, more)
        broker = InMemoryBroker()
        surroundings = AgentSurroundings(
            lambda role, will: broker.connection(role, will=will), **around
        )
        made = assemble(home, surroundings).parts
        made.store.close()
        return made, rules_of(home)

    parts, rules = assembled("")
    assert (rules.health_seconds, parts.textfile) == (60, None)
    parts, rules = assembled('[health]\nseconds = 0\ntextfile = "agent.prom"\n')
    assert rules.health_seconds is None
    assert parts.textfile is not None
    parts, _ = assembled("", machine=None)
    assert parts.state.rules.health_seconds is None
    assert parts.health is None
