"""`agent doctor` and `agent status`: findings with a way out, and lines for people."""

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetledger.device_agent.cli import doctor
from fleetledger.device_agent.cli.commands import app
from fleetledger.device_agent.cli.report import status_lines
from fleetledger.device_agent.errors import MissingError
from fleetledger.device_agent.home.home import AgentHome
from fleetledger.device_agent.home.status_file import Status, is_running, read_status, write_status
from fleetledger.device_agent.models.execution.jetson import Jetson
from fleetledger.device_agent.models.slots import ModelSlots, Slot
from fleetledger.runtime.exit_codes import ExitCode
from fleetledger.runtime.pip_command import pip_install
from fleetledger.schemas.values import Digest
from tests.device_agent import model_files as models
from tests.device_agent.scripted import write_settings

JETPACK_6 = Jetson(36, "4.3", 87)


@pytest.fixture
def home(tmp_path: Path) -> AgentHome:
    return write_settings(tmp_path / "home")


@pytest.fixture(autouse=True)
def a_machine_without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "BROKER_SECONDS", 0.2)
    monkeypatch.setattr(doctor, "has_gpu", lambda: False)
    monkeypatch.setattr(doctor, "read_jetson", lambda: None)


def finding(home: AgentHome, about: str) -> doctor.Finding:
    (found,) = [item for item in doctor.examine(home.folder) if about in item.about]
    return found


def test_a_broker_that_is_away_is_told_with_its_address(home: AgentHome) -> None:
    found = finding(home, "broker")
    assert found.verdict == "missing"
    assert "127.0.0.1:1883" in found.about
    assert "[broker]" in found.way_out


def test_folders_are_counted(home: AgentHome) -> None:
    assert finding(home, "data folder").verdict == "note"
    models.put_pictures(home.data_folder, "dark", 1, 2)
    assert "2 images in 1 class folder" in finding(home, "data folder").text
    assert finding(home, "evaluation folder").way_out.startswith("mkdir -p ")


def test_a_missing_onnx_runtime_is_told_with_the_command(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing():
        raise MissingError("onnxruntime: not installed")

    monkeypatch.setattr(doctor, "describe_runtime", missing)
    found = finding(home, "onnxruntime")
    assert (found.verdict, found.way_out) == ("missing", pip_install("cpu"))


@pytest.mark.parametrize(
    ("jetson", "gpu", "command"),
    [
        (None, False, pip_install("cpu")),
        (None, True, pip_install("gpu")),
        (
            JETPACK_6,
            True,
            "pip install onnxruntime-gpu --index-url https://pypi.jetson-ai-lab.io/jp6",
        ),
        (Jetson(35, "4.1"), True, "too old: JetPack 5"),
    ],
)
def test_each_kind_of_device_has_its_own_command(
    monkeypatch: pytest.MonkeyPatch, jetson: Jetson | None, gpu: bool, command: str
) -> None:
    monkeypatch.setattr(doctor, "has_gpu", lambda: gpu)
    monkeypatch.setattr(doctor, "read_jetson", lambda: jetson)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert doctor.runtime_command().startswith(command)


def test_a_gpu_that_is_not_used_is_noted(home: AgentHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "has_gpu", lambda: True)
    monkeypatch.setattr(doctor, "describe_runtime", lambda: ("1.20", ("CPUExecutionProvider",)))
    found = finding(home, "onnxruntime")
    assert (found.verdict, found.text) == (
        "note",
        "1.20, will try CPUExecutionProvider; there is a GPU",
    )
    assert pip_install("gpu") in found.way_out


def test_every_phase_of_the_fleets_method_is_judged_and_of_no_other(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_status(home.status_file, status_of(home, method="stsa"))
    assert finding(home, "stsa, phase learn").verdict == "ok"
    assert sum("phase" in item.about for item in doctor.examine(home.folder)) == 1
    monkeypatch.setattr(
        doctor, "find_spec", lambda name: None if name == "onnxruntime" else object()
    )
    found = finding(home, "stsa, phase learn")
    assert (found.verdict, found.text) == ("missing", "needs onnxruntime")
    assert found.way_out == pip_install("cpu")


def test_torch_is_spoken_of_only_where_the_fleet_trains(
    home: AgentHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "torch" else object())
    assert finding(home, "method").verdict == "ok"
    for statistics in ("", "stsa"):
        write_status(home.status_file, status_of(home, method=statistics))
        assert "needs torch" not in str(doctor.examine(home.folder))
    write_status(home.status_file, status_of(home, method="rounds"))
    found = finding(home, "rounds, phase learn")
    assert (found.verdict, found.text) == ("missing", "needs torch")
    assert found.way_out == pip_install("train")
    monkeypatch.setattr(doctor, "read_jetson", lambda: JETPACK_6)
    assert finding(home, "rounds, phase learn").way_out.startswith("pip install torch --index-url")


def test_settings_that_cannot_be_read_are_a_finding_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text("device = ")
    found = doctor.examine(tmp_path)[-1]
    assert (found.about, found.verdict) == ("settings", "missing")
    assert "agent.toml" in found.text
    assert found.way_out == f"edit {tmp_path / 'agent.toml'}"
    assert doctor.examine(tmp_path / "new")[-1].way_out.startswith("fleetledger agent init")


def test_little_space_is_a_finding(home: AgentHome, monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding(home, "disk").verdict == "ok"
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 1 << 60)
    assert finding(home, "disk").verdict == "missing"


def test_findings_are_printed_with_their_way_out() -> None:
    found = doctor.Finding("disk", "missing", "3 MiB free", "free 500 MiB")
    assert list(doctor.DoctorReport.of([found]).above()) == [
        "MISSING disk: 3 MiB free",
        "        -> free 500 MiB",
    ]


def test_doctor_fails_when_something_is_missing(home: AgentHome) -> None:
    done = CliRunner().invoke(app, ["doctor", "--home", str(home.folder)])
    assert done.exit_code == 1
    assert "MISSING broker" in done.output


def status_of(home: AgentHome, process: int = 1, **changes) -> Status:
    values = {
        "device": home.settings.device,
        "fleet": home.settings.fleet,
        "process": process,
        "written_ns": time.time_ns(),
        "connected": True,
        "coordinator": True,
        "wire": "version 1; this agent speaks version 1, the coordinator version 1",
        "stage": 2,
        "provider": "CPUExecutionProvider",
        "active_version": 3,
        "active_manifest": Digest.of(b"manifest"),
        "model_state": "version 4 rolled back: scores stray",
        "parts": {"accepted": 2, "waiting": 1},
        "counted_images": 9,
        "images_on_disk": 10,
        "outbox": 1,
        "dead_letters": 1,
        "refusals": ("stage: 7 was never opened",),
        "waiting_classes": {"owl": 4},
        "problems": (
            {"about": "sample", "text": "cat/1.png: the picture is damaged", "since_ns": 1},
        ),
        "resident_mib": 88.25,
        "bytes_up": 1000,
        "bytes_down": 2000,
        **changes,
    }
    return Status.model_validate(values)


def test_status_is_told_in_lines(home: AgentHome) -> None:
    text = "\n".join(status_lines(status_of(home), age=1.0, running=True))
    for words in (
        "bench-3 of fleet workshop: running",
        "wire         version 1; this agent speaks version 1, the coordinator version 1",
        "2 accepted, 1 waiting",
        "1 without a receipt, 1 refused",
        "version 3 (" + Digest.of(b"manifest").short,
        "version 4 rolled back: scores stray",
        "88.2 MiB resident",
        "4 owl",
        "stage: 7 was never opened",
        "cat/1.png: the picture is damaged",
    ):
        assert words in text


def test_status_and_doctor_tell_of_a_candidate(home: AgentHome) -> None:
    assert not any("candidate" in line for line in status_lines(status_of(home), 1.0, running=True))
    status = status_of(home, candidate="version 4 is kept beside the model that runs")
    line = "candidate    version 4 is kept beside the model that runs"
    assert line in status_lines(status, age=1.0, running=True)
    assert not any(item.about == "candidate" for item in doctor.examine(home.folder))
    slots = ModelSlots(home.state_folder / "slots")
    for version in (3, 4):
        digest = Digest.of(b"manifest %d" % version)
        slot = Slot(version=version, manifest=digest, files=())
        slots.install(slot) if version == 3 else slots.keep_candidate(slot)
    assert finding(home, "candidate").text == "version 4 is kept beside version 3, which runs"


def test_status_says_what_is_built_what_was_left_and_how_the_machine_is(home: AgentHome) -> None:
    def lines(**changes: object) -> list[str]:
        return list(status_lines(status_of(home, **changes), age=1.0, running=True))

    assert not any(line.startswith(("BUILDING", "inference", "machine")) for line in lines())
    found = lines(
        building="an engine of TensorRT, for 73 s",
        left_providers=("CUDAExecutionProvider cannot run it: no kernel image",),
        inference_p95_seconds=0.0118,
        conditions="power mode 15W, 62 °C",
    )
    for line in (
        "BUILDING     an engine of TensorRT, for 73 s",
        "LEFT         CUDAExecutionProvider cannot run it: no kernel image",
        "inference    95 % within 11.8 ms for a sample; power mode 15W, 62 °C",
    ):
        assert line in found
    assert "machine      61 °C" in lines(conditions="61 °C")


def test_texts_are_called_texts(home: AgentHome) -> None:
    for samples, line in (
        ("pictures", "images       10 on disk, 9 counted"),
        ("text", "texts        10 on disk, 9 counted"),
    ):
        status = status_of(home, samples=samples)
        assert line in status_lines(status, age=1.0, running=True)


def test_what_is_written_can_be_read_and_half_a_file_is_none(home: AgentHome) -> None:
    status = status_of(home)
    write_status(home.status_file, status)
    assert read_status(home.status_file) == status
    home.status_file.write_text('{"device": ')
    assert read_status(home.status_file) is None


def test_status_tells_of_training_only_in_a_fleet_that_trains(home: AgentHome) -> None:
    lines = list(status_lines(status_of(home), age=1.0, running=True))
    assert not any(line.startswith("training") for line in lines)
    trains = status_of(home, training="at round 5 (phase train); round 4 is answered")
    lines = list(status_lines(trains, age=1.0, running=True))
    assert "training     at round 5 (phase train); round 4 is answered" in lines


def test_status_tells_of_exemplars_the_cache_and_each_rounds_bytes(home: AgentHome) -> None:
    status = status_of(
        home,
        training="waits for a round; round 8 is answered",
        exemplars=50,
        exemplars_as="features",
        feature_cache_bytes=3 << 20,
        rounds=({"number": 8, "bytes_up": 424469, "bytes_down": 520734},),
    )
    lines = list(status_lines(status, age=1.0, running=True))
    assert "exemplars    50 kept as features; 3.0 MiB of cached features" in lines
    assert "round 8      424,469 bytes up, 520,734 bytes down" in lines


def test_status_tells_what_the_policy_refuses(home: AgentHome) -> None:
    lines = list(status_lines(status_of(home), age=1.0, running=True))
    assert not any(line.startswith("policy") for line in lines)
    refuses = status_of(home, policy="policy.publish_features = false: no")
    lines = list(status_lines(refuses, age=1.0, running=True))
    assert "policy       policy.publish_features = false: no" in lines


def test_status_says_when_no_agent_runs(home: AgentHome) -> None:
    asked = ["status", "--home", str(home.folder)]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == ExitCode.NOT_RUNNING
    assert "no agent has run here yet" in done.output
    write_status(home.status_file, status_of(home, process=2**22 + 1))
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == ExitCode.NOT_RUNNING
    assert "NOT RUNNING" in done.output


def test_status_of_a_running_agent(home: AgentHome) -> None:
    write_status(home.status_file, status_of(home))
    assert is_running(status_of(home))
    done = CliRunner().invoke(app, ["status", "--home", str(home.folder)])
    assert (done.exit_code, "running" in done.output) == (0, True)
    done = CliRunner().invoke(app, ["status", "--home", str(home.folder), "--json"])
    assert json.loads(done.output)["resident_mib"] == 88.25


def test_a_status_that_is_old_is_of_an_agent_that_hangs(home: AgentHome) -> None:
    old = status_of(home, written_ns=time.time_ns() - 60 * 10**9)
    write_status(home.status_file, old)
    done = CliRunner().invoke(app, ["status", "--home", str(home.folder)])
    assert done.exit_code == ExitCode.NOT_RUNNING
