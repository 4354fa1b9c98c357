"""The folders are the architecture, and here it is proven."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from fleetledger.methods.registry import descriptor
from tests.rooms import ROOMS, ROOT, product_files, product_trees

ON_THE_DEVICE = ("device_agent", "learning/numerics", "runtime", "schemas", "transport")
ABSENT_ON_A_DEVICE = ("torch", "torchvision", "onnx", "onnxruntime", "sklearn", "matplotlib")
METHOD_FILES = {
    "README.md",
    "__init__.py",
    "coordinator.py",
    "device.py",
    "messages.py",
    "settings.py",
}
MOST_LINES = 600
MEDIAN_LINES = 110
"""A file that one neighbour alone used is part of that neighbour, which lengthens the median."""
MOST_LINES_OF_A_FUNCTION = 60

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path, tree in product_trees().items():
        yield str(path.relative_to(ROOT)), tree


def public(body: list[ast.stmt]) -> Iterator[Documented]:
    """Return public definitions, and those of public classes, in the order of the file."""
    for node in body:
        if isinstance(node, Documented) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def is_overload(node: Documented) -> bool:
    return any(ast.unparse(mark).endswith("overload") for mark in node.decorator_list)


def is_sentence(node: Documented) -> bool:
    """How an entry says itself is what `EntryBody.say` tells."""
    return isinstance(node, ast.FunctionDef) and (
        (node.name, [item.arg for item in node.args.args]) == ("say", ["self", "at"])
    )


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[2:] if parts[0] == "src" else parts
    return ".".join(("fleetledger", *(part for part in parts if part != "__init__")))


def imports_of(name: str, tree: ast.Module, modules: set[str]) -> set[str]:
    """Return the modules of the product that one imports, in functions and for types, too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}:{node.lineno} is relative"
            base = str(node.module)
            full = {f"{base}.{alias.name}" for alias in node.names}
            found |= full & modules or {base}
    return found & modules


def import_names(folder: str) -> list[str]:
    return [module_name(path) for path in sorted((ROOT / folder).rglob("*.py"))]


def methods() -> list[Path]:
    return sorted(path.parent for path in (ROOT / "methods").glob("*/messages.py"))


def test_the_rooms_are_those_of_the_layout() -> None:
    present = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    assert present == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_imported_by_one_name(room: str) -> None:
    link = ROOT / "src" / "fleetledger" / room
    assert link.readlink() == Path("..", "..", room)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'{room}.msg = "fleetledger.{room}"' in text, "the lint rule forbids its bare name"


def test_imports_run_one_way() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    command = str(program) if program.exists() else shutil.which("lint-imports")
    assert command, "import-linter is not installed: pip install 'fleetledger[dev]'"
    done = subprocess.run(
        [command, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_files_import_one_another_in_a_circle() -> None:
    imports = {
        module_name(ROOT / name): tree for name, tree in trees() if not name.endswith("__main__.py")
    }
    left = {name: imports_of(name, tree, set(imports)) for name, tree in imports.items()}
    while ends := {name for name, needed in left.items() if not needed}:
        left = {name: needed - ends for name, needed in left.items() if name not in ends}
    # What is left lies on a circle or imports one: the latter, from the other end, go as well.
    while tops := set(left) - set().union(*left.values()):
        left = {name: needed for name, needed in left.items() if name not in tops}
    assert not left, "move a name to where both may import it"


def test_everything_on_the_device_imports_without_torch_and_the_export_tools() -> None:
    names = [name for folder in ON_THE_DEVICE for name in import_names(folder)]
    # Methods that train import torch, with the first order of a round.
    names += [
        f"fleetledger.methods.{method.name}.device"
        for method in methods()
        if not descriptor(method.name).trains
    ]
    # A main module runs when it is imported.
    names = [name for name in names if not name.endswith("__main__")]
    program = (
        "import importlib, sys\n"
        f"for name in {ABSENT_ON_A_DEVICE!r}: sys.modules[name] = None\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_method_has_the_same_files() -> None:
    assert methods()
    for folder in methods():
        missing = METHOD_FILES - {path.name for path in folder.iterdir()}
        assert not missing, f"{folder.name} lacks {sorted(missing)}"


def test_every_module_and_public_name_has_a_docstring() -> None:
    bare = []
    for name, tree in trees():
        if ast.get_docstring(tree) is None:
            bare.append(name)
        bare += [
            f"{name}:{node.lineno} {node.name}"
            for node in public(tree.body)
            if ast.get_docstring(node) is None and not is_overload(node) and not is_sentence(node)
        ]
    assert not bare, "\n".join(bare)


def test_files_stay_small() -> None:
    tests = sorted((ROOT / "tests").rglob("*.py"))
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in product_files() + tests}
    long = sorted(((count, path) for path, count in lines.items() if count > MOST_LINES))
    assert not long, "\n".join(f"{path.relative_to(ROOT)}: {count} lines" for count, path in long)


def test_the_median_file_is_short() -> None:
    lines = [path.read_text(encoding="utf-8").count("\n") for path in product_files()]
    assert median(lines) <= MEDIAN_LINES


def test_functions_stay_small() -> None:
    long = [
        f"{name}:{node.lineno} {node.name}: {length} lines"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > MOST_LINES_OF_A_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_nothing_unpickles() -> None:
    pattern = re.compile(r"^\s*(import|from) (pickle|cPickle|dill|cloudpickle|shelve|marshal)\b")
    guilty = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in product_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.match(line) or "allow_pickle=True" in line
    ]
    assert not guilty


def test_whether_a_lineage_learns_in_rounds_is_answered_in_one_place() -> None:
    """Its kind says it: nobody else tells it by which of the two kinds the state has."""
    state = "coordinator/topics/lineages/state.py"
    asking = [
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith("lineages.network")
    ]
    assert set(asking) <= {state}


def test_no_class_variable_lacks_its_type() -> None:
    """Python 3.10 refuses a bare `ClassVar` where type hints are resolved, as agents do theirs."""
    bare = [
        f"{name}:{node.lineno}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and re.fullmatch(r"['\"]?(typing\.)?ClassVar['\"]?", ast.unparse(node.annotation))
    ]
    assert bare == []
