"""Variants of the frozen model: who can have them, and what follows when they are made."""

from __future__ import annotations

from fleetledger.coordinator.core.requests import Request
from fleetledger.coordinator.core.work import ExportHead
from fleetledger.coordinator.topics.lineages.commands import ImportBackbone, MakeVariants
from fleetledger.coordinator.topics.lineages.entries import MadeVariant, VariantsMade
from fleetledger.coordinator.topics.models.entries import (
    DeviceEvaluated,
    DeviceModelStatus,
    ModelExported,
)
from fleetledger.schemas.models import ModelStatus
from fleetledger.schemas.presence import Birth
from fleetledger.schemas.reports import ClassResult, Evaluation
from fleetledger.schemas.values import BootId, ClassName, Digest
from fleetledger.schemas.variants import VariantName, VariantOffer
from tests.coordinator.core.harness import BACKBONE, CAPABLE, Bench, exported, offer, solved
from tests.coordinator.topics.models.test_models import wanted, with_model

MANIFEST = offer("manifest 2").digest


def made(*names: VariantName, lineage: Digest = BACKBONE.frozen.digest) -> VariantsMade:
    return VariantsMade(
        lineage=lineage,
        variants=tuple(MadeVariant(name=name, frozen=offer(name), strays=0.1) for name in names),
        features=Digest.of(b"features"),
        calibrated=200,
        held_out=400,
        tools={"onnxruntime": "test"},
    )


def able_fleet() -> Bench:
    bench = with_model()
    for device in ("dev-1", "dev-2"):
        bench.born(device)
    return bench


def with_variants(version: int = 2) -> ModelExported:
    offers = (VariantOffer(name="int8", frozen=offer("int8"), replaces=BACKBONE.frozen.digest),)
    reason = "fp16 is left out: it loses too much"
    return exported(version).model_copy(update={"variants": offers, "left_out": (reason,)})


def next_model(bench: Bench) -> list[Request]:
    """Make the variants, and the model that follows them."""
    assert bench.command(MakeVariants(made=made("fp16", "int8"))).done
    bench.handle(solved(wanted(bench.wait(61))))
    (export,) = (item for item in bench.wait(0) if isinstance(item, ExportHead))
    assert export.variants == made("fp16", "int8")
    return bench.handle(with_variants())


def status(variant: VariantName | None = "int8", state: str = "active") -> ModelStatus:
    return ModelStatus.model_validate(
        {"version": 2, "manifest": MANIFEST, "state": state, "variant": variant}
    )


def bodies(bench: Bench, kind: type) -> list:
    return [body for body, _, _ in bench.entries if isinstance(body, kind)]


def test_a_model_of_the_same_inputs_follows_once_and_has_them() -> None:
    bench = able_fleet()
    before = bench.core.state.models.newest
    assert before is not None
    next_model(bench)
    newest = bench.core.state.models.newest
    assert newest is not None
    given = bench.core.state.contributions
    assert given.unchanged_since(before.solved.ledger_size), "nothing came"
    assert newest.solved.version == before.solved.version + 1
    assert bench.wait(1000) == [], "not again, though one was left out"
    bench.restart()
    assert bench.wait(1000) == []


def test_variants_of_another_frozen_model_are_refused() -> None:
    answer = able_fleet().command(MakeVariants(made=made("int8", lineage=Digest.of(b"other"))))
    assert not answer.done
    assert "does not lead; make them of the one that does" in answer.text


def test_another_frozen_model_has_none_of_them() -> None:
    bench = able_fleet()
    next_model(bench)
    bench.command(ImportBackbone(backbone=BACKBONE.model_copy(update={"frozen": offer("new")})))
    assert bench.core.state.lineages.variants is None


def test_they_are_ended_by_a_model_without() -> None:
    bench = able_fleet()
    next_model(bench)
    answer = bench.command(MakeVariants(made=made()))
    assert "devices go over to the reference with it" in answer.text
    bench.handle(solved(wanted(bench.wait(61))))
    (export,) = (item for item in bench.wait(0) if isinstance(item, ExportHead))
    assert export.variants is None


def test_which_variant_runs_is_recorded_once_for_each_change() -> None:
    bench = able_fleet()
    next_model(bench)
    for variant in ("int8", "int8", None, "int8"):
        bench.message("dev-1", status(variant))  # type: ignore[arg-type] - one of the names
    said = [body.status.variant for body in bodies(bench, DeviceModelStatus)]
    assert said == ["int8", None, "int8"]
    birth = Birth(
        installation=BootId("0123456789abcdef"),
        capabilities=CAPABLE,
        active_version=2,
        active_manifest=MANIFEST,
    )
    bench.message("dev-1", birth)
    assert len(bodies(bench, DeviceModelStatus)) == 3, "a birth does not know of variants"
    bench.restart()
    assert bench.core.state.models.by_device["dev-1"].variant == "int8"  # type: ignore[index]


def test_an_evaluation_says_which_variant_was_measured() -> None:
    bench = able_fleet()
    next_model(bench)
    for variant in ("int8", "int8", None):
        evaluation = Evaluation.model_validate(
            {
                "version": 2,
                "manifest": MANIFEST,
                "results": {ClassName("cat"): ClassResult(correct=3, total=4)},
                "provider": "CPUExecutionProvider",
                "seconds": 0.1,
                "bytes_up": 1,
                "bytes_down": 2,
                "variant": variant,
            }
        )
        bench.message("dev-1", evaluation)
    assert [body.evaluation.variant for body in bodies(bench, DeviceEvaluated)] == ["int8", None]
