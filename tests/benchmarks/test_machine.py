"""Versions of what a benchmark ran on, whatever distribution a module came with."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from benchmarks.machine import describe_machine


def install(folder: Path, distribution: str, module: str, number: str) -> None:
    """Lay out a distribution as pip does."""
    (folder / module).mkdir()
    (folder / module / "__init__.py").touch()
    info = folder / f"{distribution.replace('-', '_')}-{number}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {number}\n"
    )
    (info / "top_level.txt").write_text(f"{module}\n")
    (info / "RECORD").write_text(f"{module}/__init__.py,,\n")


def test_only_the_gpu_runtime_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "onnxruntime-gpu", "onnxruntime", "1.23.2")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert describe_machine("onnxruntime")["onnxruntime"] == "1.23.2 (onnxruntime-gpu)"


def test_a_distribution_of_its_own_name_is_told_by_its_version() -> None:
    assert describe_machine("numpy")["numpy"] == version("numpy")


def test_what_is_not_installed_is_named() -> None:
    with pytest.raises(PackageNotFoundError, match="nowhere-to-be-found"):
        describe_machine("nowhere-to-be-found")
