"""Other packages under the names of ours: the doctor finds them, and the door explains them."""

import os
import subprocess
import sys
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from device_agent.collisions import PACKAGES, ROOT, collisions
from schemas.installing import pip_install


def install(folder: Path, package: str, *, declared: bool = True) -> PathDistribution:
    """Put a distribution into a folder as an installer would; return it."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text("")
    about = folder / f"other_{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: other-{package}\nVersion: 1.0\n")
    (about / "RECORD").write_text(f"{package}/__init__.py,,\n{about.name}/METADATA,,\n")
    if declared:
        (about / "top_level.txt").write_text(f"{package}\n")
    return PathDistribution(about)


def run(cwd: Path, path: list[Path], *arguments: str) -> subprocess.CompletedProcess[str]:
    search = os.pathsep.join(map(str, path))
    return subprocess.run(
        [sys.executable, "-m", "fleetledger", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_names_are_those_of_our_packages() -> None:
    assert sorted(PACKAGES) == sorted(path.parent.name for path in ROOT.glob("*/py.typed"))


def test_without_others_nothing_is_told() -> None:
    assert collisions([]) == ()


@pytest.mark.parametrize("declared", [True, False])
def test_one_that_ours_hides_is_told_and_does_no_harm(tmp_path: Path, declared: bool) -> None:
    other = install(tmp_path, "transport", declared=declared)
    (found,) = collisions([other])
    assert (found.package, found.hides_ours) == ("transport", False)
    assert "'other-transport'" in found.text
    assert found.way_out.startswith("pip uninstall other-transport; or give")


def test_one_in_the_same_folder_has_written_over_ours(tmp_path: Path) -> None:
    other = install(tmp_path, "transport")
    found = next(item for item in collisions([other], root=tmp_path) if "other" in item.text)
    assert found.hides_ours
    assert pip_install(options="--force-reinstall") in found.way_out


def test_the_doctor_tells_of_one_that_is_imported_in_place_of_ours(tmp_path: Path) -> None:
    install(tmp_path / "site", "simulator")
    told = run(tmp_path, [tmp_path / "site", ROOT], "agent", "doctor", "--home", "x").stdout
    assert "MISSING package simulator: the installed 'other-simulator' brings" in told
    assert "-> pip uninstall other-simulator; " in told


def test_the_doctor_tells_of_a_folder_that_was_never_installed(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "__init__.py").write_text("")
    told = run(tmp_path, [ROOT], "agent", "doctor", "--home", "x").stdout
    assert f"MISSING package export: {tmp_path / 'export'} is imported in place of ours" in told


def test_the_command_line_explains_an_import_that_fails_by_it(tmp_path: Path) -> None:
    install(tmp_path / "site", "schemas")
    (tmp_path / "site" / "schemas" / "keys.py").write_text("")
    done = run(tmp_path, [tmp_path / "site", ROOT], "agent", "doctor")
    assert done.returncode == 1
    assert done.stderr.startswith("fleetledger: the installed 'other-schemas' brings a package")
    assert "Traceback" not in done.stderr
