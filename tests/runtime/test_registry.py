"""Values by name, ours and from outside."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetledger.runtime import registry as registry_module
from fleetledger.runtime.registry import MODULES_VARIABLE, Registry, RegistryError, origins

GROUP = "fleetledger.tests_of_the_registry"
CACHES = (registry_module._points, registry_module._origin, registry_module._installed)
LAB = """
import fleetledger as fl

@fl.order("backwards")
def backwards(classes, random):
    return range(classes - 1, -1, -1)

if __name__ == "__main__":
    import subprocess, sys
    from fleetledger.runtime.registry import modules_for_children
    import os
    told = {**os.environ, **modules_for_children()}
    sys.exit(subprocess.run([sys.executable, "-c", CHILD], env=told).returncode)
"""
CHILD = """
from fleetledger.simulator.plan.orders import ORDERS
print(ORDERS["backwards"].draw(3, 1), ORDERS.origin("backwards"))
"""


def installed(folder: Path, name: str, point: str, code: str) -> None:
    """Lay a distribution with one entry point where Python finds it."""
    module = name.replace("-", "_")
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{point}\n")
    (info / "top_level.txt").write_text(f"{module}\n")
    (info / "RECORD").write_text(f"{module}.py,,\n")
    (folder / f"{module}.py").write_text(code)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    for found in CACHES:
        found.cache_clear()
    return tmp_path


@pytest.fixture
def table() -> Registry[object]:
    return Registry[object]("colour", GROUP).own({"red": 1, "green": 2})


def test_ours_come_first_and_have_no_origin(table: Registry[object]) -> None:
    table.add("blue", 3)
    assert list(table) == ["red", "green", "blue"]
    assert (table["green"], table["blue"], len(table)) == (2, 3, 3)
    assert table.origin("red") is None


def test_a_name_that_nobody_registered_is_a_key_error(table: Registry[object]) -> None:
    assert "mauve" not in table
    with pytest.raises(KeyError):
        table["mauve"]


def test_our_names_are_not_taken(table: Registry[object]) -> None:
    with pytest.raises(RegistryError, match="colour: 'red' is one of fleetledger's; give another"):
        table.add("red", 4)


@pytest.mark.parametrize("name", ["", "Red", "a b", "1st", "a" * 65, "é"])
def test_what_is_no_name_is_refused(table: Registry[object], name: str) -> None:
    with pytest.raises(RegistryError, match="is no name; give up to 64 of a-z"):
        table.add(name, 4)


def test_the_same_name_again_replaces_it_as_in_a_notebook(table: Registry[object]) -> None:
    table.add("blue", 3)
    table.add("blue", 4)
    assert table["blue"] == 4


def test_a_distribution_registers_by_its_entry_points(site: Path, table: Registry[object]) -> None:
    installed(site, "my-lab", "blue = my_lab:BLUE", "BLUE = 5\n")
    assert "blue" in table
    assert "my_lab" not in sys.modules
    assert table["blue"] == 5
    origin = table.origin("blue")
    assert str(origin) == "my-lab 1.2"
    assert origin is not None
    assert len(origin.digest) == 64


def test_where_a_value_comes_from_is_known_before_it_is_imported(
    site: Path, table: Registry[object]
) -> None:
    installed(site, "late-lab", "blue = late_lab:BLUE", "BLUE = 5\n")
    origin = table.origin("blue")
    assert str(origin) == "late-lab 1.2"
    assert origin in origins(GROUP, "fleetledger.tests_of_nothing")
    assert "late_lab" not in sys.modules
    assert table["blue"] == 5
    assert table.origin("blue") == origin


def test_an_entry_point_that_cannot_be_imported_says_whose_it_is(
    site: Path, table: Registry[object]
) -> None:
    installed(site, "her-lab", "teal = her_lab:TEAL", "raise OSError('no disk')\n")
    with pytest.raises(RegistryError, match=r"'teal' is 'her_lab:TEAL'.*OSError: no disk; mend or"):
        table["teal"]


def test_an_entry_point_does_not_take_one_of_our_names(site: Path, table: Registry[object]) -> None:
    installed(site, "bad-lab", "red = bad_lab:RED", "RED = 6\n")
    assert table["red"] == 1


def test_the_digest_moves_with_the_code_alone(site: Path, table: Registry[object]) -> None:
    installed(site, "our-lab", "blue = our_lab:BLUE", "BLUE = 5\n")
    before = table.origin("blue")
    registry_module._installed.cache_clear()
    assert table.origin("blue") == before
    (site / "our_lab.py").write_text("BLUE = 6\n")
    registry_module._installed.cache_clear()
    after = table.origin("blue")
    assert before is not None
    assert after is not None
    assert before.digest != after.digest


def test_a_child_knows_what_a_program_decorated(tmp_path: Path) -> None:
    program = tmp_path / "lab.py"
    program.write_text(f"CHILD = {CHILD!r}\n{LAB}")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "[2 1 0] lab.py\n"


def test_a_child_knows_what_a_program_took_from_another_module(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "def backwards(classes, random):\n    return range(classes - 1, -1, -1)\n"
    )
    program = tmp_path / "lab.py"
    taken = LAB.replace('@fl.order("backwards")', "").replace("def backwards", "def unused")
    program.write_text(
        f"import theirs\nCHILD = {CHILD!r}\n{taken}".replace(
            "if __name__", 'fl.order("backwards")(theirs.backwards)\n\nif __name__'
        )
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout == "[2 1 0] lab.py\n"


def test_a_program_that_runs_as_a_module_of_a_package_is_imported_as_one(tmp_path: Path) -> None:
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "my_lab" / "__init__.py").touch()
    (tmp_path / "my_lab" / "names.py").write_text("NAME = 'backwards'\n")
    program = tmp_path / "my_lab" / "study.py"
    program.write_text(f"from .names import NAME\nCHILD = {CHILD!r}\n{LAB}")
    done = subprocess.run(
        [sys.executable, "-m", "my_lab.study"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("[2 1 0] study.py")


def test_a_module_that_the_variable_names_is_imported_when_a_name_is_unknown(
    tmp_path: Path,
) -> None:
    program = tmp_path / "lab.py"
    program.write_text(LAB)
    told = {**os.environ, MODULES_VARIABLE: str(program)}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=told, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[2 1 0] lab.py\n"


def test_a_module_that_the_variable_names_and_cannot_be_imported_is_said(tmp_path: Path) -> None:
    told = {**os.environ, MODULES_VARIABLE: str(tmp_path / "none.py")}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], env=told, capture_output=True, text=True, check=False
    )
    assert f"{MODULES_VARIABLE}: {tmp_path / 'none.py'} cannot be imported" in done.stderr
