"""In a fleet whose networks give every pixel a class, no class is called as the background is."""

from __future__ import annotations

import pytest

from fleetledger.coordinator.core.rules import Rules, StageRules
from fleetledger.coordinator.core.work import ExportHead
from fleetledger.coordinator.topics.classes.commands import RenameClass
from fleetledger.coordinator.topics.devices.commands import AdmitDevice
from fleetledger.coordinator.topics.lineages.commands import ImportNetwork
from fleetledger.coordinator.topics.lineages.entries import NetworkImported
from fleetledger.coordinator.topics.models.entries import DeviceEvaluated
from fleetledger.coordinator.topics.stages.commands import CloseStage, OpenStage
from fleetledger.coordinator.topics.stages.entries import StageOpened
from fleetledger.learning.numerics.calibration import LOGIT_SCALES
from fleetledger.schemas.reports import ClassResult, Evaluation, Problem, Transition, WaitingClasses
from tests.coordinator.core.harness import Bench, exported, names, sent
from tests.coordinator.core.round_bench import NETWORK, RoundBench

OF_PIXELS = NETWORK.model_copy(update={"segments": True})


def opening(*classes: str) -> OpenStage:
    return OpenStage(class_names=names(*classes))


def leading(network: NetworkImported = OF_PIXELS) -> Bench:
    bench = Bench(Rules(stages=StageRules(open="reports", reports_quorum=1, settle_seconds=0)))
    bench.command(AdmitDevice(device=names("dev-1")[0]))
    bench.born("dev-1")
    bench.command(ImportNetwork(network=network))
    return bench


def test_a_stage_for_it_is_refused_in_words() -> None:
    bench = leading()
    answer = bench.command(opening("cat", "background"))
    assert not answer.done
    assert "'background' is what the fleet's network calls pixels of no class" in answer.text
    assert bench.command(opening("cat", "backgrounds")).done


def test_other_fleets_may_learn_it() -> None:
    bench = leading(NETWORK)
    assert bench.command(opening("cat", "background")).done
    renamed = RenameClass(old=names("cat")[0], new=names("background")[0])
    assert "exists" in bench.command(renamed).text


def test_a_class_is_not_renamed_to_it() -> None:
    bench = leading()
    bench.command(opening("cat"))
    renamed = RenameClass(old=names("cat")[0], new=names("background")[0])
    answer = bench.command(renamed)
    assert not answer.done
    assert "give the class another name" in answer.text


def test_a_network_of_pixels_does_not_lead_where_it_is_a_class_already() -> None:
    bench = leading(NETWORK)
    bench.command(opening("cat", "background"))
    later = ImportNetwork(network=OF_PIXELS)
    refused = bench.command(later)
    assert not refused.done
    assert "class rename background NAME" in refused.text
    scenery = RenameClass(old=names("background")[0], new=names("scenery")[0])
    assert bench.command(scenery).done
    assert bench.command(later).done


def test_first_weights_with_a_row_of_that_name_do_not_lead() -> None:
    known = OF_PIXELS.model_copy(update={"class_names": names("cat", "background")})
    refused = leading(known)
    assert refused.core.state.lineages.current is None
    assert "first weights" in refused.command(ImportNetwork(network=known)).text


def test_a_device_that_reports_it_is_told_and_the_other_names_wait() -> None:
    bench = leading()
    classes = dict.fromkeys(names("background", "cat"), 3)
    (problem,) = sent(bench.message("dev-1", WaitingClasses(classes=classes)), Problem)
    assert isinstance(problem, Problem)
    assert "value 0 of masks" in problem.text
    assert bench.core.live.device(names("dev-1")[0]).waiting_classes == {"cat": 3}
    (cat,) = names("cat")
    assert not sent(bench.message("dev-1", WaitingClasses(classes={cat: 3})), Problem)


@pytest.mark.parametrize(
    ("told", "opened"), [(("background",), []), (("background", "cat"), [names("cat")])]
)
def test_reports_of_it_open_no_stage(told: tuple[str, ...], opened: list[object]) -> None:
    bench = leading()
    bench.command(opening("dog"))
    bench.command(CloseStage())
    classes = dict.fromkeys(names(*told), 3)
    bench.message("dev-1", Transition(stage=1, number=0, why="class name", classes=classes))
    bench.wait(1)
    bench.wait(1)
    found = [body for body, _, _ in bench.entries if isinstance(body, StageOpened)]
    assert [body.class_names for body in found[1:]] == opened


def evaluated(network: NetworkImported) -> RoundBench:
    """Let devices run a model of the network, and one of them say how well it does."""
    bench = RoundBench(devices=1, per_stage=1)
    bench.lead(network)
    bench.average(bench.whole_round(1))
    (export,) = [r for _ in range(3) for r in bench.wait(0) if isinstance(r, ExportHead)]
    assert export.lineage.segments == network.segments  # type: ignore[union-attr]
    bench.handle(exported(export.solved.version))
    evaluation = Evaluation(
        version=1,
        manifest=exported(1).manifest.digest,
        results={
            names("background")[0]: ClassResult(correct=90, total=100),
            names("cat")[0]: ClassResult(correct=1, total=4),
        },
        provider="CPUExecutionProvider",
        seconds=0.1,
        bytes_up=10,
        bytes_down=20,
        losses=tuple(range(len(LOGIT_SCALES))),
    )
    bench.message("dev-1", evaluation)
    return bench


def test_how_well_a_model_does_is_recorded_as_shares_of_pixels() -> None:
    for network, answers in ((OF_PIXELS, "pixels"), (NETWORK, "sample")):
        (body,) = evaluated(network).told(DeviceEvaluated)
        assert isinstance(body, DeviceEvaluated)
        assert body.answers == answers


def test_no_temperature_is_fitted_on_pixels() -> None:
    assert evaluated(NETWORK).core.state.models.calibration
    assert not evaluated(OF_PIXELS).core.state.models.calibration
