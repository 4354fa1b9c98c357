"""The release of Jetson Linux, as the board's own files have it, decides what doctor advises."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetledger.device_agent.cli import doctor
from fleetledger.device_agent.cli.doctor import examine
from fleetledger.device_agent.models.execution.jetson import Jetson, advise, read_jetson
from fleetledger.runtime.pip_command import pip_install

ORIN = b"nvidia,p3768-0000+p3767-0000\0nvidia,p3767-0000\0nvidia,tegra234\0"
THOR = b"nvidia,p4071-0000\0nvidia,tegra264\0"


def board(root: Path, release: str, chip: bytes = ORIN) -> Jetson | None:
    (root / "etc").mkdir(parents=True)
    (root / "etc/nv_tegra_release").write_text(release)
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/compatible").write_bytes(chip)
    return read_jetson(root)


def release_of(major: int, revision: str) -> str:
    return f"# R{major} (release), REVISION: {revision}, GCID: 38968081, BOARD: generic, EABI: x\n"


def test_another_machine_is_no_jetson(tmp_path: Path) -> None:
    assert read_jetson(tmp_path) is None
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_bytes(b"raspberrypi,5-model-b\0")
    assert read_jetson(tmp_path) is None


@pytest.mark.parametrize(
    ("major", "revision", "chip", "jetpack", "words"),
    [
        (32, "7.1", b"nvidia,tegra210\0", "JetPack 5 or before", "upgrade the board to JetPack 6"),
        (35, "4.1", ORIN, "JetPack 5 or before", "bring Python 3.8 or less"),
        (36, "3.0", ORIN, "JetPack 6.0", "upgrade to Jetson Linux 36.4"),
        (36, "4.3", ORIN, "JetPack 6", "pip install onnxruntime-gpu --index-url https://pypi."),
        (36, "5.0", ORIN, "JetPack 6", "/jp6/cu126"),
        (38, "2.0", THOR, "JetPack 7.0 or 7.1", "kernels are for SM 90"),
        (38, "4.0", THOR, "JetPack 7.0 or 7.1", "on Thor was tried"),
        (
            39,
            "1.0",
            ORIN,
            "JetPack 7.2",
            "no official onnxruntime-gpu has kernels for Orin",
        ),
        (39, "2.0", THOR, "JetPack 7.2", "kernels are for SM 90"),
        (41, "1.0", THOR, "JetPack unknown", "Jetson Linux 41.1.0 is not known here"),
    ],
)
def test_each_release_has_its_own_advice(
    tmp_path: Path, major: int, revision: str, chip: bytes, jetpack: str, words: str
) -> None:
    jetson = board(tmp_path, release_of(major, revision), chip)
    assert jetson is not None
    assert jetson.release == f"{major}.{revision}"
    advice = advise(jetson)
    assert advice.jetpack == jetpack
    assert words in advice.runtime
    assert advice.is_served == (major == 36 and revision != "3.0")
    if major > 36:
        assert pip_install("cpu") in advice.runtime


def test_a_release_that_cannot_be_read_is_told_as_such(tmp_path: Path) -> None:
    jetson = board(tmp_path, "written by somebody\n")
    assert jetson == Jetson(sm=87)
    assert jetson.release == "unknown"
    assert "/etc/nv_tegra_release" in advise(jetson).runtime


def test_doctor_says_which_jetson_it_is_and_what_there_is_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(jetson: Jetson) -> doctor.Finding:
        monkeypatch.setattr(doctor, "read_jetson", lambda: jetson)
        (found,) = [item for item in examine(tmp_path) if item.about == "jetson"]
        return found

    good = told(Jetson(36, "4.3", 87))
    assert (good.verdict, good.way_out) == ("ok", "")
    assert good.text == "Jetson Linux 36.4.3 (JetPack 6), GPU of SM 87"
    newest = told(Jetson(39, "1.0", 87))
    assert newest.verdict == "note"
    assert "straga/jetson-jp7-onnxruntime" in newest.way_out
    old = told(Jetson(35, "4.1", 72))
    assert "upgrade" in old.way_out
