"""`fl.simulate`: the run of the command, from Python, with callbacks, resumed and stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fleetledger as fl
from fleetledger.simulator.callbacks import REPORTERS
from fleetledger.simulator.errors import RunError, ScenarioError
from fleetledger.simulator.run.facts import RunFacts
from tests.outside import added
from tests.simulator.run.test_runs import SCENARIO, quiet

CONTENT = {
    "title": "four digits",
    "data": {"set": "digits", "per_class": 30, "test_per_class": 10},
    "stages": {"lists": [["3", "1"], ["4"]]},
    "devices": {"count": 2},
    "method": {"settings": {"map_width": 60}},
}


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("FLEETLEDGER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def heads(run: fl.Run) -> list[str]:
    return [stage.head for seed in run.results.seeds.values() for stage in seed.stages]


def test_a_mapping_is_run_as_the_command_runs_its_file(tmp_path: Path):
    from fleetledger.simulator.run.runs import run_scenario

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run = fl.simulate(CONTENT, output="mine", seeds=[1, 2])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    of_command = run_scenario(SCENARIO, tmp_path / "theirs", quiet())
    assert run.folder == tmp_path / "mine"
    assert run.scenario == fl.Run(tmp_path, of_command).scenario
    assert heads(run) == heads(fl.Run(tmp_path, of_command))
    assert heads(fl.Run.open("mine")) == heads(run)
    assert (tmp_path / "mine" / "report.html").exists()
    with pytest.raises(RunError, match="mine is not empty"):
        fl.simulate(CONTENT, output="mine")


def test_events_are_told_in_order_with_the_numbers_of_the_results():
    class Noting(fl.callbacks.Reporter):
        """Keeps what it is told."""

        def __init__(self) -> None:
            self.kinds: list[str] = []

        def stage(self, event):
            self.kinds.append(event.kind)

        def done(self, event):
            self.kinds.append(event.kind)

        def close(self):
            self.kinds.append("closed")

    told, noting = [], Noting()
    run = fl.simulate(CONTENT, callbacks=[told.append, noting])
    assert noting.kinds == ["stage", "stage", "done", "closed"]
    assert [(event.kind, event.seed, event.stage, event.round) for event in told] == [
        ("stage", 1, 1, None),
        ("stage", 1, 2, None),
        ("done", None, 2, None),
    ]
    stages = run.results.first.stages
    assert [event.accuracy for event in told[:2]] == [stage.accuracy for stage in stages]
    assert told[1].values["new_accuracy"] == stages[1].new_accuracy
    assert told[2].run.folder == run.folder
    assert told[2].values["final_accuracy"] == run.accuracy.mean
    assert told[0].scenario["title"] == "four digits"
    with pytest.raises(TypeError):
        told[0].values["accuracy"] = 1.0


def test_a_name_changes_and_objects_make_a_scenario(tmp_path: Path):
    class Method:
        def as_section(self):
            return {"name": "fedncm", "settings": {}}

    run = fl.simulate({**CONTENT, "method": Method(), "title": "mine"}, engine="inprocess")
    assert run.scenario["method"]["name"] == "fedncm"
    assert run.folder.parent == tmp_path / "runs"
    untitled = {name: value for name, value in CONTENT.items() if name != "title"}
    again = fl.simulate(untitled, changes={"devices": {"count": 3}}, seeds=range(1))
    assert (again.title, again.seeds) == ("stsa on digits", (0,))
    assert again.folder != run.folder
    small = {"base": "digits", **{name: CONTENT[name] for name in ("data", "devices", "method")}}
    assert fl.simulate(small, tiny=True).scenario["stages"]
    with pytest.raises(ScenarioError, match=r"scenario: devices\.count"):
        fl.simulate({**CONTENT, "devices": {"count": 0}})
    with pytest.raises(ScenarioError, match="none of this name ships"):
        fl.simulate("digit")


def test_a_callback_that_raises_ends_the_run_which_is_resumed(tmp_path: Path):
    def stop(event):
        if event.stage == 1:
            raise KeyboardInterrupt

    whole = fl.simulate(CONTENT, output="whole")
    with pytest.raises(KeyboardInterrupt, match="simulate --resume"):
        fl.simulate(CONTENT, output="cut", resume=True, callbacks=[stop])
    assert RunFacts.read(tmp_path / "cut" / "run.json").state == "stopped"
    told = []
    resumed = fl.simulate(CONTENT, output="cut", resume=True, callbacks=[told.append])
    assert [(event.kind, event.stage) for event in told] == [("stage", 2), ("done", 2)]
    assert heads(resumed) == heads(whole)
    with pytest.raises(RunError, match="holds a run of another scenario"):
        fl.simulate(CONTENT, output="cut", resume=True, seeds=[7])
    with pytest.raises(ScenarioError, match="give output=FOLDER"):
        fl.simulate(CONTENT, resume=True)


def test_a_reporter_is_taken_by_its_name():
    told = []
    with added(REPORTERS, "mine", lambda folder: lambda event: told.append((folder, event.kind))):
        run = fl.simulate(CONTENT, callbacks=["mine"])
    assert told == [(run.folder, kind) for kind in ("stage", "stage", "done")]
    with pytest.raises(RunError, match="reporter: 'yours' is unknown; give one of mlflow"):
        fl.simulate(CONTENT, callbacks=["yours"])
    with pytest.raises(RunError, match="callbacks: 3 is no function"):
        fl.simulate(CONTENT, callbacks=[3])


def test_pictures_are_written_in_further_formats(monkeypatch):
    from fleetledger.simulator.report.pictures import gallery

    monkeypatch.setattr(gallery, "render", lambda _figure, kind: kind.encode())
    run = fl.simulate(CONTENT, figures=["svg"])
    assert {path.stem for path in run.folder.glob("*.svg")} == set(run.figures)
    with pytest.raises(RunError, match="figures: 'gif'"):
        fl.simulate(CONTENT, figures=["gif"])


_SCRIPT = """
import os, signal, fleetledger as fl
def stop(event):
    os.kill(os.getpid(), signal.SIGINT)
try:
    fl.simulate({content!r}, output="run", callbacks=[stop])
except KeyboardInterrupt as error:
    print("stopped:", error)
"""


def test_ctrl_c_in_a_script_is_a_keyboard_interrupt(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT.replace("{content!r}", repr(CONTENT)))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.startswith("stopped: run: stopped by hand; to go on with it:")
    assert RunFacts.read(tmp_path / "run" / "run.json").state == "stopped"


def typed(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    """Return exit code and output of the command, which runs in this process."""
    from fleetledger import command_line

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(command_line.app, "rich_markup_mode", command_line.app.rich_markup_mode)
    monkeypatch.setattr(sys, "argv", ["fleetledger", "simulate", *arguments])
    try:
        with pytest.raises(SystemExit) as ended:
            command_line.main()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def test_the_command_reports_and_draws_and_says_how_a_stopped_run_is_resumed(
    tmp_path: Path, monkeypatch, capsys
):
    from fleetledger.simulator.report.pictures import gallery
    from fleetledger.simulator.scenario.loading import scenario_to_toml

    monkeypatch.setattr(gallery, "render", lambda _figure, kind: kind.encode())
    (tmp_path / "mine.toml").write_text(scenario_to_toml(SCENARIO))
    told = []

    def stop_once(event):
        told.append(event.kind)
        if len(told) == 1:
            raise KeyboardInterrupt

    with added(REPORTERS, "mine", lambda _folder: stop_once):
        options = ("--report-to", "mine", "--figures", "svg, pdf")
        code, said = typed(monkeypatch, capsys, "mine.toml", "--out", "run", *options)
        assert (code, told) == (1, ["stage"])
        assert "run: stopped by hand; to go on with it: fleetledger simulate --resume" in said
        assert "Traceback" not in said
        code, said = typed(monkeypatch, capsys, "--resume", "run", *options)
    assert (code, told) == (0, ["stage"] * 4 + ["done"])
    figures = set(fl.Run.open("run").figures)
    for kind in ("svg", "pdf"):
        assert {path.stem for path in (tmp_path / "run").glob(f"*.{kind}")} == figures


def test_a_program_that_a_child_imports_begins_no_run(monkeypatch):
    from fleetledger.simulator.run import simulate

    monkeypatch.setattr(simulate, "is_being_imported", lambda: True)
    with pytest.raises(RunError, match="below `if __name__ == '__main__':`"):
        fl.simulate(CONTENT)
