"""What ends up in the wheel, and what it asks for."""

import email
import re
import shutil
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/py.typed"))
NOT_ON_A_BARE_DEVICE = {"torch", "torchvision", "onnx", "onnxruntime", "onnxruntime-gpu", "amqtt"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy, so that no build folder is left in the source tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for room in (*ROOMS, "tests", "benchmarks"):
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "fleetledger.py"):
        shutil.copy(ROOT / name, source / name)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run(
        [*build, "--wheel-dir", str(out), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next(out.glob("fleetledger-*.whl")))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def required(metadata: Message, extra: str | None = None) -> set[str]:
    """Return the names that the base install, or `extra` alone, asks for."""
    lines = [str(line) for line in metadata.get_all("Requires-Dist", [])]
    marker = re.compile(r"extra == ['\"]([^'\"]+)['\"]")
    chosen = [line for line in lines if (marker.search(line) or [None, None])[1] == extra]
    return {re.split(r"[^A-Za-z0-9_.-]", line)[0].lower() for line in chosen}


def test_neither_tests_nor_benchmarks_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {*ROOMS, "fleetledger.py"}


def test_every_module_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    modules = {
        path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py")
    }
    assert modules <= set(wheel.namelist())


def test_every_room_in_the_wheel_is_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{room}/py.typed" for room in ROOMS} <= set(wheel.namelist())


def test_the_pages_of_the_methods_travel_with_them(wheel: zipfile.ZipFile) -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "methods").rglob("*.md")}
    assert pages <= set(wheel.namelist())


def test_the_templates_of_the_reports_travel_with_them(wheel: zipfile.ZipFile) -> None:
    folder = ROOT / "simulator" / "report" / "pages"
    templates = [path for path in folder.iterdir() if path.suffix in (".html", ".css")]
    assert templates
    assert {path.relative_to(ROOT).as_posix() for path in templates} <= set(wheel.namelist())


def test_the_license_is_in_the_wheel(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-4.0"


def test_the_digits_and_their_licence_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    folder = "simulator/datasets/optdigits"
    assert f"{folder}/optdigits.tes.gz" in wheel.namelist()
    assert any(name.endswith(f"licenses/{folder}/LICENSE") for name in wheel.namelist())


def test_the_demo_brings_neither_scikit_learn_nor_scipy(metadata: Message) -> None:
    assert not required(metadata, "simulator") & {"scikit-learn", "scipy"}
    assert "scipy" in required(metadata, "sbd")


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"fleetledger = fleetledger:main" in wheel.read(name)


def test_the_base_install_has_neither_torch_nor_an_onnx_runtime(metadata: Message) -> None:
    base = required(metadata)
    assert {"numpy", "paho-mqtt", "pydantic"} <= base
    assert not base & NOT_ON_A_BARE_DEVICE


@pytest.mark.parametrize(
    ("extra", "name"), [("cpu", "onnxruntime"), ("gpu", "onnxruntime-gpu"), ("train", "torch")]
)
def test_each_runtime_is_an_extra_of_its_own(metadata: Message, extra: str, name: str) -> None:
    assert name in required(metadata, extra)


@pytest.mark.parametrize("extra", ["simulator", "cpu", "coordinator", "broker", "dev"])
def test_the_demo_and_the_tests_need_no_torch(metadata: Message, extra: str) -> None:
    assert not required(metadata, extra) & {"torch", "torchvision"}
