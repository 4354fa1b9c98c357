"""What ends up in the wheel, and what it asks for."""

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable
from email.message import Message
from pathlib import Path

import pytest

from fleetledger.transport.brokers import find_mosquitto
from tests.rooms import ROOMS

ROOT = Path(__file__).parents[1]
NOT_ON_A_BARE_DEVICE = {"torch", "torchvision", "onnx", "onnxruntime", "onnxruntime-gpu", "amqtt"}


def copy_source(target: Path) -> None:
    """Copy what a wheel is built of, and what shall not come into it."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for room in (*ROOMS, "src", "tests", "benchmarks"):
        shutil.copytree(ROOT / room, target / room, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target / name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy, so that no build folder is left in the source tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    copy_source(source)
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


def in_the_wheel(paths: Iterable[Path]) -> set[str]:
    return {f"fleetledger/{path.relative_to(ROOT).as_posix()}" for path in paths}


def test_neither_tests_nor_benchmarks_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"fleetledger"}


def test_every_module_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    modules = {path for room in ROOMS for path in in_the_wheel((ROOT / room).rglob("*.py"))}
    assert modules | {"fleetledger/__main__.py"} <= set(wheel.namelist())


def test_the_wheel_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "fleetledger/py.typed" in wheel.namelist()


def test_the_pages_of_the_methods_travel_with_them(wheel: zipfile.ZipFile) -> None:
    pages = in_the_wheel((ROOT / "methods").rglob("*.md"))
    assert pages
    assert pages <= set(wheel.namelist())


def test_the_templates_of_the_reports_travel_with_them(wheel: zipfile.ZipFile) -> None:
    folder = ROOT / "simulator" / "report" / "pages"
    templates = [path for path in folder.iterdir() if path.suffix in (".html", ".css")]
    assert templates
    assert in_the_wheel(templates) <= set(wheel.namelist())


def test_the_templates_of_packages_travel_with_the_command(wheel: zipfile.ZipFile) -> None:
    templates = in_the_wheel((ROOT / "simulator" / "new" / "templates").rglob("*.in"))
    assert templates
    assert templates <= set(wheel.namelist())


def test_the_license_is_in_the_wheel(wheel: zipfile.ZipFile, metadata: Message) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
    assert metadata["License-Expression"] == "Apache-2.0 AND CC-BY-4.0"


def test_the_digits_and_their_licence_are_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    folder = "simulator/datasets/optdigits"
    assert f"fleetledger/{folder}/optdigits.tes.gz" in wheel.namelist()
    assert any(name.endswith(f"licenses/{folder}/LICENSE") for name in wheel.namelist())


def test_the_demo_brings_neither_scikit_learn_nor_scipy(metadata: Message) -> None:
    assert not required(metadata, "simulator") & {"scikit-learn", "scipy"}
    assert "scipy" in required(metadata, "sbd")


def test_the_wheel_brings_the_command(wheel: zipfile.ZipFile) -> None:
    name = next(name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert b"fleetledger = fleetledger.command_line:main" in wheel.read(name)


THEIRS = ("schemas.py", *(f"{room}/__init__.py" for room in ROOMS if room != "schemas"))
"""What an application may have of its own, in the folder that it is run from."""
APPLICATION = """
import sys
import schemas, export, methods, transport
import fleetledger

with fleetledger.active_model(sys.argv[1]) as model:
    print(schemas.WHOSE, transport.WHOSE, model.classify(sys.argv[2]).version)
"""


@pytest.mark.broker
@pytest.mark.skipif(find_mosquitto() is None, reason="needs mosquitto on the PATH")
def test_an_application_with_packages_of_the_same_names_has_both(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--ignore-installed")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *options]
    subprocess.run([*pip, str(wheel.filename)], check=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "beneath.pth").write_text(sysconfig.get_path("purelib"))
    for name in THEIRS:
        path = tmp_path / "application" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("WHOSE = 'theirs'\n")

    own = {"FLEETLEDGER_CACHE": str(tmp_path / "cache"), "PYTHONPATH": ""}

    def said(*words: str) -> str:
        done = subprocess.run(
            [python, *words],
            cwd=tmp_path / "application",
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert said("-c", "import fleetledger; print(fleetledger.__file__)").startswith(str(packages))
    changes = (
        "devices.count=1",
        "stages.classes=4",
        "stages.count=2",
        "devices.partition.seeds=[]",
    )
    sets = [word for change in changes for word in ("--set", change)]
    said("-m", "fleetledger", "simulate", "demo", *sets, "--out", "run")
    (home,) = (tmp_path / "application" / "run").glob("seed-*/agents/device-1")
    picture = next((home / "data" / "0").glob("*.png"))
    assert said("-c", APPLICATION, str(home), str(picture)).split() == ["theirs", "theirs", "2"]


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
