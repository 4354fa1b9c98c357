"""An engine is built once, in a trial, and used by all; one that may not fit is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.status_file import Status, read_status
from fleetledger.device_agent.models.execution.engines import (
    RECORD,
    EngineFolder,
    EngineStore,
    environment_name,
)
from fleetledger.device_agent.models.execution.providers import CPU, TENSORRT
from fleetledger.device_agent.models.host import ModelHost, sessions_of
from fleetledger.device_agent.models.inference import installed_model
from fleetledger.device_agent.models.inference.installed_model import SessionSettings
from fleetledger.device_agent.models.inference.running_model import RunningModel
from fleetledger.device_agent.models.trial.trial import Trial
from fleetledger.device_agent.program import device_jobs
from fleetledger.device_agent.settings import ModelSettings
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.presence import Heartbeat
from fleetledger.schemas.values import Digest
from fleetledger.transport.memory import InMemoryBroker
from tests.device_agent import model_files as models
from tests.device_agent.hostile.place import Place, good
from tests.device_agent.models.execution.fake_tensorrt import COMMAND_MODULE, FakeTensorRt
from tests.device_agent.models.inference.homes import ServingHome
from tests.device_agent.scripted import (
    FAST,
    RunningAgent,
    ScriptedCoordinator,
    eventually,
    greet,
    write_settings,
)

CHILD = (sys.executable, "-m", COMMAND_MODULE)
LINEAGE = good().manifest.frozen.digest
JETPACK_6 = "36.4.3-10.3.0-sm87-1.23.0"
SETTINGS = ModelSettings(trial_seconds=60.0, build_seconds=60.0, trial_memory_mib=256)
BATCH = 8


@pytest.fixture(autouse=True)
def tensorrt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Have the made-up runtime in this process; return the file that gets a line for each build."""
    log = tmp_path / "builds"
    log.touch()
    monkeypatch.setattr(installed_model, "_runtime", FakeTensorRt)
    monkeypatch.setenv("TRT_FAKE_LOG", str(log))
    return log


def builds(log: Path) -> int:
    return len(log.read_text().splitlines())


def sessions(folder: Path, environment: str = JETPACK_6, batch: int = BATCH) -> SessionSettings:
    store = EngineStore(folder / "engines", lambda: environment)
    return SessionSettings((TENSORRT, CPU), batch=batch, engines=store)


def place(
    folder: Path,
    settings: ModelSettings = SETTINGS,
    command: tuple[str, ...] = CHILD,
    environment: str = JETPACK_6,
) -> Place:
    return Place(folder / "device", settings, command, sessions(folder, environment))


def engine_of(folder: Path, environment: str = JETPACK_6, batch: int = BATCH) -> EngineFolder:
    store = sessions(folder, environment).engines
    assert store is not None
    return store.of(LINEAGE, batch)


def runs_on(settings: SessionSettings, device: Place) -> tuple[str, tuple[str, ...]]:
    """Return the provider after two runs of the active model, and what was left for it."""
    active = device.slots.active()
    assert active is not None
    host = ModelHost(device.blobs, settings)
    model = host.model(host.manifest(active.manifest))
    for images in (1, BATCH):
        model.predict(np.zeros((images, 1, 8, 8), np.float32))
    return model.provider, model.left


def test_an_engine_is_built_once_in_the_trial_for_every_batch_and_head(
    tmp_path: Path, tensorrt: Path
) -> None:
    device = place(tmp_path)
    provider, left = runs_on(sessions(tmp_path), device)
    assert (provider, builds(tensorrt)) == (CPU, 0)
    assert "no engine of this network is here" in left[0]
    assert isinstance(device.install(good()), inputs.ModelInstalled)
    assert builds(tensorrt) == 2  # for one sample, then for the largest batch
    assert runs_on(sessions(tmp_path), device) == (TENSORRT, ())
    another_head = models.exported(3)
    assert isinstance(device.install(another_head), inputs.ModelInstalled)
    assert runs_on(sessions(tmp_path), device) == (TENSORRT, ())
    assert builds(tensorrt) == 2
    for folder in (engine_of(tmp_path).path, tmp_path / "engines"):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_agents_session_of_before_is_opened_anew_with_the_engine(tmp_path: Path) -> None:
    device = place(tmp_path)
    host = ModelHost(device.blobs, sessions(tmp_path))
    assert host.frozen(LINEAGE).provider == CPU
    device.trial.run(device.store(good()).manifest.digest, None, [])
    assert host.frozen(LINEAGE).provider == CPU
    host.reopen()
    assert host.frozen(LINEAGE).provider == TENSORRT


def damage(engine: EngineFolder) -> None:
    (file,) = engine.path.glob("*.engine")
    file.write_text(file.read_text() + " ")


def add(engine: EngineFolder) -> None:
    (engine.path / "another.engine").write_bytes(b"of somebody else")


def lead_away(engine: EngineFolder) -> None:
    (file,) = engine.path.glob("*.engine")
    file.rename(engine.path.parent / "elsewhere")
    file.symlink_to(engine.path.parent / "elsewhere")


def forget(engine: EngineFolder) -> None:
    (engine.path / RECORD).write_text("{")


@pytest.mark.parametrize(
    "spoil",
    [damage, *(pytest.param(way, marks=pytest.mark.nightly) for way in (add, lead_away, forget))],
)
def test_an_engine_that_is_not_as_it_was_written_is_never_used_and_built_again_at_a_start(
    tmp_path: Path, tensorrt: Path, spoil: Callable[[EngineFolder], None]
) -> None:
    device = place(tmp_path)
    assert isinstance(device.install(good()), inputs.ModelInstalled)
    spoil(engine_of(tmp_path))
    assert runs_on(sessions(tmp_path), device)[0] == CPU
    slot = device.slots.active()
    assert slot is not None
    assert device.installer().check_active(slot.model) is None
    assert builds(tensorrt) == 4
    assert runs_on(sessions(tmp_path), device) == (TENSORRT, ())


@pytest.mark.parametrize(
    "environment",
    [
        "36.5.0-10.3.0-sm87-1.23.0",
        "36.4.3-10.4.0-sm87-1.23.0",
        "36.4.3-10.3.0-sm72-1.23.0",
        "36.4.3-10.3.0-sm87-1.24.0",
    ],
)
def test_an_engine_of_another_system_is_never_used(tmp_path: Path, environment: str) -> None:
    engine = engine_of(tmp_path)
    engine.begin()
    (engine.path / "model_1_sm87.engine").write_text("[1, 8]")
    engine.keep()
    assert engine.record() is not None
    assert engine_of(tmp_path, batch=BATCH + 1).record() is None
    other = engine_of(tmp_path, environment)
    assert other.record() is None
    other.begin()
    (other.path / "model_1_sm87.engine").write_text("[1, 8]")
    other.keep()
    assert [item.name for item in engine.path.parent.iterdir()] == [environment]


def test_only_engines_of_the_slots_networks_stay(tmp_path: Path) -> None:
    store = sessions(tmp_path).engines
    assert store is not None
    store.keep([LINEAGE])  # nothing is there yet
    other = Digest.of(b"another network")
    for frozen in (LINEAGE, other):
        store.of(frozen, BATCH).begin()
    store.keep([LINEAGE, Digest.of(b"a head")])
    assert [item.name for item in store.folder.iterdir()] == [LINEAGE]


def test_an_application_uses_the_engine_and_builds_none(tmp_path: Path, tensorrt: Path) -> None:
    home = ServingHome(tmp_path / "home")
    slot = home.switch(good())
    frame = np.zeros((8, 8), np.uint8)
    with RunningModel.open(home.folder) as model:
        model.classify(frame)
        assert model.loaded().provider == CPU
    opened = sessions_of(AgentHome.open(home.folder))
    Trial(home.blobs, opened, SETTINGS, CHILD).build(slot.manifest)
    assert builds(tensorrt) == 2
    with RunningModel.open(home.folder) as model:
        model.classify_all([frame] * (BATCH + 3))
        assert model.loaded().provider == TENSORRT
    assert builds(tensorrt) == 2


def test_a_provider_that_fails_at_its_first_run_is_left_in_the_trial_once_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRT_FAKE_FAILS", "1")
    device = place(tmp_path)
    assert isinstance(device.install(good()), inputs.ModelInstalled)
    provider, left = runs_on(sessions(tmp_path), device)
    assert provider == CPU
    assert left == (
        f"{TENSORRT}: no engine could be built: {TENSORRT} cannot run it: CUDA failure 209: no "
        "kernel image is available",
    )
    record = engine_of(tmp_path).record()
    assert record is not None
    assert record.files == {}
    monkeypatch.delenv("TRT_FAKE_FAILS")
    device.trial.build(good().manifest.digest)
    assert engine_of(tmp_path).record() == record
    assert engine_of(tmp_path, "36.5.0-10.3.0-sm87-1.23.0").record() is None


def test_an_engine_that_a_full_disk_cut_short_is_found_out_in_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRT_FAKE_TRUNCATES", "1")
    device = place(tmp_path)
    assert isinstance(device.install(good()), inputs.ModelInstalled)
    provider, left = runs_on(sessions(tmp_path), device)
    assert provider == CPU
    assert "could not deserialize engine" in left[0]


def slow_child(build: float, answer: str) -> tuple[str, ...]:
    """Return a process that builds for so long, and then answers at once."""
    program = (
        "import json, sys, time\n"
        "asked = json.loads(sys.stdin.buffer.readline())['engines']\n"
        f"time.sleep({build})\n"
        "import pathlib\n"
        "folder = pathlib.Path(asked['folder'], asked['builds'], asked['environment'])\n"
        "(folder / 'model_1_sm87.engine').write_text('[1, 8]')\n"
        f"print('built', flush=True)\n{answer}"
    )
    return (sys.executable, "-S", "-c", program)


ANSWERS = f'print(\'{{"provider": "{TENSORRT}"}}\')'


def test_a_build_that_takes_longer_than_a_trial_may_passes(tmp_path: Path) -> None:
    settings = ModelSettings(trial_seconds=1.0, build_seconds=60.0)
    device = place(tmp_path, settings, slow_child(1.5, ANSWERS))
    answer = device.trial.run(device.store(good()).manifest.digest, None, [])
    assert answer.provider == TENSORRT
    assert device.trial.building == ""
    assert engine_of(tmp_path).record() is not None


def test_a_build_that_takes_too_long_is_refused_in_words_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    device = place(
        tmp_path, SETTINGS.model_copy(update={"build_seconds": 1.0}), slow_child(60, ANSWERS)
    )
    event = device.install(good())
    assert isinstance(event, inputs.ModelRefused)
    assert "TensorRT built no engine within 1 s: raise [model] build_seconds" in event.reason
    active = device.slots.active()
    assert active is not None
    assert active.version == 1
    assert not engine_of(tmp_path).path.exists()


def test_once_the_engine_is_there_the_trial_has_its_own_time(tmp_path: Path) -> None:
    device = place(
        tmp_path, ModelSettings(trial_seconds=1.0), slow_child(0, "import time; time.sleep(60)")
    )
    event = device.install(good())
    assert isinstance(event, inputs.ModelRefused)
    assert "was not tried within 1 s" in event.reason


def test_at_a_start_a_build_that_fails_leaves_the_active_model_on_the_next_provider(
    tmp_path: Path,
) -> None:
    device = place(
        tmp_path, SETTINGS.model_copy(update={"build_seconds": 0.5}), slow_child(60, ANSWERS)
    )
    slot = device.slots.active()
    assert slot is not None
    assert device.installer().check_active(slot.model) is None
    record = engine_of(tmp_path).record()
    assert record is not None
    assert "no engine within 0.5 s" in record.failed


def test_the_agent_goes_on_with_the_former_model_while_an_engine_is_built(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, tensorrt: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    monkeypatch.setenv("TRT_FAKE_GATE", str(gate))
    monkeypatch.setattr(device_jobs, "Trial", partial(Trial, command=CHILD))

    def settings(folder: Path) -> AgentHome:
        made = write_settings(folder)
        text = made.settings_file.read_text().replace("trial = false", "trial = true")
        text = text.replace(f'["{CPU}"]', f'["{TENSORRT}", "{CPU}"]')
        made.settings_file.write_text(text)
        return AgentHome.open(folder)

    monkeypatch.setattr("tests.device_agent.scripted.write_settings", settings)
    broker = InMemoryBroker()
    coordinator = ScriptedCoordinator.in_memory(broker)
    running = RunningAgent(broker, home, replace(FAST, heartbeat_seconds=0.2))
    greet(coordinator)
    desire(coordinator, models.exported(1), action=7)
    coordinator.wait_for(ModelStatus, lambda said: said.state == "active")
    assert builds(tensorrt) == 2
    gate.unlink()
    desire(coordinator, models.of_another_network(2), action=8)
    eventually(lambda: status_of(home).building != "")
    while_building = status_of(home)
    assert while_building.active_version == 1
    assert while_building.provider == TENSORRT
    assert "an engine of TensorRT, for" in while_building.building
    eventually(lambda: status_of(home).written_ns > while_building.written_ns)
    assert status_of(home).building
    coordinator.wait_for(Heartbeat, lambda said: said.desired_action == 8)
    gate.touch()
    coordinator.wait_for(ModelStatus, lambda said: (said.version, said.state) == (2, "active"))
    eventually(lambda: status_of(home).building == "")
    assert builds(tensorrt) == 4
    running.stop()
    coordinator.stop()


def status_of(home: Path) -> Status:
    status = read_status(home / "status.json")
    assert status is not None
    return status


def desire(coordinator: ScriptedCoordinator, model: models.ExportedModel, action: int) -> None:
    desired = models.desired_of(model.manifest, model, action=action)
    coordinator.desire(desired, model.manifest.canonical_bytes(), *model.files.values())


def test_the_name_of_a_system_says_all_that_engines_depend_on(tmp_path: Path) -> None:
    def name(root: Path, capability: str = "") -> str:
        return environment_name("1.23.0", root, lambda: capability, packages=())

    assert name(tmp_path) == "unknown-unknown-unknown-1.23.0"
    assert name(tmp_path, "9.0") == "unknown-unknown-sm90-1.23.0"
    assert name(tmp_path, "[N/A]") == "unknown-unknown-unknown-1.23.0"
    tree = tmp_path / "proc/device-tree"
    tree.mkdir(parents=True)
    (tree / "compatible").write_bytes(b"nvidia,p3768-0000+p3767-0000\0nvidia,tegra234\0")
    (tmp_path / "etc").mkdir()
    release = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n"
    (tmp_path / "etc/nv_tegra_release").write_text(release)
    libraries = tmp_path / "usr/lib/aarch64-linux-gnu"
    libraries.mkdir(parents=True)
    for file in ("libnvinfer.so.10.3.0", "libnvinfer.so.10", "libnvinfer_plugin.so.10.3.0"):
        (libraries / file).touch()
    assert name(tmp_path) == "36.4.3-10.3.0-sm87-1.23.0"
    (libraries / "libnvinfer.so.10.9.0").touch()
    assert name(tmp_path) == "36.4.3-10.3.0+10.9.0-sm87-1.23.0"
    assert "/" not in environment_name("../../x", tmp_path, lambda: "", packages=())
