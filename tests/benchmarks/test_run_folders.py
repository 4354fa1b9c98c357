"""A case is run once; what it cost is added up over its starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.run_folders import processor_seconds, run_case


def test_a_finished_case_is_only_read_again(tmp_path: Path) -> None:
    pytest.importorskip("sklearn.datasets")
    folder = tmp_path / "run"
    first = run_case("digits-tiny", [], folder)
    seconds = processor_seconds(folder)
    again = run_case("digits-tiny", [], folder)
    assert again.first.headline == first.first.headline
    assert seconds is not None
    assert processor_seconds(folder) == seconds


def test_seconds_add_up_over_starts(tmp_path: Path) -> None:
    assert processor_seconds(tmp_path) is None
    (tmp_path / "processor.jsonl").write_text("1.5\n2.3\n", encoding="utf-8")
    assert processor_seconds(tmp_path) == 3.8
