"""A finished run in Python: numbers as loops over records give them, tables, frames, figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fleetledger as fl
from fleetledger.simulator.errors import MetricsError, RunError
from tests.simulator.fake_run import Shape, fake_seed, write_fake_run

SHAPE = Shape(stages=3, devices=4, seeds=(1, 2, 3), rounds=2)


def write(folder: Path, shape: Shape = SHAPE) -> fl.Run:
    write_fake_run(folder, shape).write(folder)
    return fl.Run.open(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> fl.Run:
    return write(tmp_path_factory.mktemp("run"))


def slow_matrix(seed: int) -> list[list[float]]:
    """Ask every test sample after every stage, task by task."""
    answers = fake_seed(SHAPE, seed).answers
    rows = []
    for stage in range(1, 4):
        row = []
        for task in range(1, stage + 1):
            right = [
                answers.predictions[stage - 1, number] == label
                for number, label in enumerate(answers.labels)
                if answers.stage_of_class[label] == task
            ]
            row.append(sum(right) / len(right))
        rows.append(row)
    return rows


def test_a_matrix_has_the_accuracy_of_each_task_after_each_stage(run):
    assert (run.seeds, run.stages) == ((1, 2, 3), 3)
    for seed in run.seeds:
        found = run.matrix(seed)
        for stage, row in enumerate(slow_matrix(seed)):
            assert found[stage, : stage + 1].tolist() == pytest.approx(row)
            assert np.isnan(found[stage, stage + 1 :]).all()
    mean = np.mean([run.matrix(seed) for seed in run.seeds], axis=0)
    assert run.matrix() == pytest.approx(mean, nan_ok=True)


def test_numbers_over_seeds_are_those_of_a_loop(run):
    rows = {seed: slow_matrix(seed) for seed in run.seeds}
    bwt = [((a[2][0] - a[0][0]) + (a[2][1] - a[1][1])) / 2 for a in rows.values()]
    lost = [
        (max(a[t][0] for t in range(3)) - a[2][0] + max(a[1][1], a[2][1]) - a[2][1]) / 2
        for a in rows.values()
    ]
    assert run.backward_transfer.mean == pytest.approx(sum(bwt) / 3)
    assert float(run.forgetting) == pytest.approx(sum(lost) / 3)
    assert run.values("bwt") == pytest.approx(dict(zip(rows, bwt, strict=True)))
    assert run.forgetting.half_width is not None
    assert run.forward_transfer is None
    assert str(run.accuracy) == f"{run.accuracy.mean:.4f} ± {run.accuracy.deviation:.4f}"


def test_fairness_is_over_devices_of_each_seed(run):
    every = [[device.accuracy for device in run.results.seeds[seed].devices] for seed in run.seeds]
    assert run.fairness["worst"].mean == pytest.approx(np.mean([min(each) for each in every]))
    assert run.fairness["deviation"].mean == pytest.approx(np.mean([np.std(e) for e in every]))
    jain = [sum(e) ** 2 / (len(e) * sum(x * x for x in e)) for e in every]
    assert run.fairness["jain"].mean == pytest.approx(np.mean(jain))


def test_a_curve_has_a_row_per_seed(run):
    found = run.curve("accuracy")
    assert found.shape == (3, 3)
    assert found[:, -1].mean() == pytest.approx(run.accuracy.mean)
    assert np.isnan(run.curve("old_accuracy")[:, 0]).all()
    with pytest.raises(MetricsError, match="'speed' is no number of a stage; give one of accuracy"):
        run.curve("speed")


def test_intransigence_is_joint_minus_own_on_each_new_task(run, tmp_path):
    changes = {
        "method": {"name": "joint", "settings": {"network": "mlp"}},
        "engine": {"kind": "inprocess"},
    }
    joint = write(tmp_path / "joint", replace(SHAPE, decay=0.0, changes=changes, seeds=(1, 2)))
    slow = []
    for seed in (1, 2):
        own, of_all = run.matrix(seed), joint.matrix(seed)
        slow.append(sum(of_all[k, k] - own[k, k] for k in range(3)) / 3)
    found = run.intransigence(joint)
    assert found.count == 2
    assert found.mean == pytest.approx(sum(slow) / 2)
    for wrong, said in ((None, "no run to measure against"), (run, "to measure against")):
        with pytest.raises(MetricsError, match=said):
            run.intransigence(wrong)
    shorter = write(tmp_path / "other", replace(SHAPE, stages=2, changes=changes))
    with pytest.raises(MetricsError, match="shares no seed with the same stages"):
        run.intransigence(shorter)


def test_what_a_run_has_not_is_named_with_what_it_has(run, tmp_path):
    with pytest.raises(MetricsError, match="seed: 9 is not in this run; give one of 1, 2, 3"):
        run.matrix(9)
    with pytest.raises(MetricsError, match="'speed' is not known of this run; give one of average"):
        run.summary("speed")
    with pytest.raises(RunError, match="give the folder of a finished run"):
        fl.Run.open(tmp_path)
    with pytest.raises(RunError, match="figure: 'speed'; this run has accuracy"):
        run.figure("speed")


def test_tables_are_markdown_and_latex(run):
    mean, deviation = 100 * run.accuracy.mean, 100 * run.accuracy.deviation
    head, rule, row = run.to_markdown(["average", "last"]).splitlines()
    assert head == "| run | average incremental accuracy | accuracy after the last stage |"
    assert rule == "| --- | ---: | ---: |"
    assert row.replace("\u00a0", " ").endswith(f"| {mean:.2f} ± {deviation:.2f} % |")
    lines = run.to_latex(["last"]).splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[1:4] == [
        r"\toprule",
        r"run & accuracy after the last stage \\",
        r"\midrule",
    ]
    assert lines[4].endswith(rf"& {mean:.2f} $\pm$ {deviation:.2f}~\% \\")
    assert "BWT" in run.to_markdown()
    assert run._repr_markdown_() == run.to_markdown()
    assert f"3 seeds, last {run.accuracy}" in repr(run)


def test_signs_of_latex_are_written_out():
    from fleetledger.simulator.report.tables.table import Table, as_latex, as_markdown

    table = Table("", ("a_b", "50 % & more"), ((r"x\y|z", "{#1} ~ $^2"),))
    assert r"a\_b & 50 \% \& more \\" in as_latex(table)
    assert r"x\textbackslash{}y|z & \{\#1\} \textasciitilde{} \$\textasciicircum{}2" in as_latex(
        table
    )
    assert r"x\y&#124;z" in as_markdown(table)


@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_a_figure_is_written_in_each_format_and_the_same_twice(run, tmp_path, kind, start):
    from fleetledger.simulator.report.pictures.style import render

    run.figure("accuracy").savefig(tmp_path / f"mine.{kind}")
    assert (tmp_path / f"mine.{kind}").read_bytes().startswith(start)
    first, again = (render(run.figure("forgetting"), kind) for _ in range(2))
    assert first == again


def test_all_figures_are_written_beside_the_report(run, tmp_path):
    written = run.write_figures("svg", folder=tmp_path)
    assert [path.stem for path in written] == list(run.figures)
    assert all(b"<svg" in path.read_bytes() for path in written)
    with pytest.raises(RunError, match="figures: 'gif'; give some of png, svg, pdf"):
        run.write_figures("gif", folder=tmp_path)


def test_frames_have_the_rows_of_the_files(run, tmp_path):
    pytest.importorskip("pandas")
    from fleetledger.simulator.report.csv_files import write_results_csv

    frame = run.to_frame()
    write_results_csv(tmp_path / "results.csv", run.results)
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert list(frame.columns) == lines[0].split(",")
    assert len(frame) == len(lines) - 1
    last = frame[(frame.metric == "accuracy") & (frame.stage == 3)]
    assert last.value.mean() == pytest.approx(run.accuracy.mean)
    assert frame.stage.isna().sum() == sum(len(s.headline) for s in run.results.seeds.values())
    assert run.to_frame("metrics").set_index("seed").final_accuracy.to_dict() == run.values("last")
    assert len(run.to_frame("devices")) == 3 * 4
    rounds = run.to_frame("rounds")
    assert rounds[["seed", "stage", "round"]].iloc[-1].tolist() == [3, 3, 2]
    with pytest.raises(RunError, match="to_frame: 'all'; give one of results, metrics"):
        run.to_frame("all")


def test_without_pandas_the_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(RunError, match=r"pandas is not installed; pip install .*frames"):
        run.to_frame()


def test_compare_pairs_runs_by_seed(run, tmp_path):
    better = write(tmp_path / "better", replace(SHAPE, skill=0.97, seeds=(2, 3, 4)))
    compared = fl.compare(run, better.folder)
    found = compared.paired()["final_accuracy"]
    ours, theirs = run.values("last"), better.values("last")
    slow = [theirs[seed] - ours[seed] for seed in (2, 3)]
    assert (found.mean, found.count) == (pytest.approx(sum(slow) / 2), 2)
    assert compared.paired("better") == compared.paired()
    with pytest.raises(RunError, match="paired: 'worse'; give one of better"):
        compared.paired("worse")
    assert compared.to_markdown(["last"]).splitlines()[-1].startswith("| better |")
    assert "tabular" in compared.to_latex()
    with pytest.raises(MetricsError, match="'speed'; give one of"):
        compared.to_markdown(["speed"])
    compared.figure("intervals").savefig(tmp_path / "intervals.svg")
    with pytest.raises(RunError, match="'speed'; give one of accuracy, intervals"):
        compared.figure("speed")
    with pytest.raises(RunError, match="at least 2"):
        fl.compare(run)


def test_a_comparison_is_a_frame(run, tmp_path):
    pytest.importorskip("pandas")
    other = write(tmp_path / "other", replace(SHAPE, skill=0.8))
    frame = fl.compare(run, other).to_frame().set_index(["run", "metric"])
    row = frame.loc[("other", "final_accuracy")]
    assert row.difference == pytest.approx(other.accuracy.mean - run.accuracy.mean)
    assert row.shared_seeds == 3
