"""Networks on a backbone's features: every device is offered the backbone, asked or not."""

from __future__ import annotations

from fleetledger.coordinator.core.state import read_entry
from fleetledger.coordinator.program.file_server import FileServer
from fleetledger.coordinator.topics.lineages.entries import FrozenBackbone
from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.offers import Offer
from fleetledger.transport.block_source import BlockSource
from tests.coordinator.core.harness import offer, sent
from tests.coordinator.core.round_bench import ABLE, NETWORK, RoundBench

BACKBONE = offer("backbone")
ON_FEATURES = NETWORK.model_copy(
    update={"backbone": FrozenBackbone(name="b", frozen=BACKBONE, feature_width=64)}
)


def assignments(bench: RoundBench) -> dict[str, Assignment]:
    """What each device is asked to do when it is back."""
    found = {}
    for device in bench.devices:
        (body,) = sent(bench.born(device, capabilities=ABLE), Assignment)
        assert isinstance(body, Assignment)
        found[device] = body
    return found


def test_devices_in_no_cohort_are_offered_the_backbone_too_and_so_keep_it() -> None:
    bench = RoundBench(cohort=1)
    bench.lead(ON_FEATURES)
    told = assignments(bench)
    asked = [device for device, body in told.items() if body.round is not None]
    assert len(asked) == 1
    for device, body in told.items():
        assert (body.backbone, body.frozen) == (BACKBONE, None)
        weights = (ON_FEATURES.weights,) if device in asked else ()
        assert body.offers == (BACKBONE, *weights)


def test_tensors_that_nobody_trains_are_offered_to_every_device_too() -> None:
    bench = RoundBench(cohort=1)
    bench.lead(NETWORK.model_copy(update={"base": offer("base")}))
    for body in assignments(bench).values():
        assert body.base == offer("base")
        assert body.offers[0] == offer("base")
        assert body.round is None or "base" not in body.round.extras


def test_the_backbone_stays_the_same_from_round_to_round_and_after_a_restart() -> None:
    bench = RoundBench(per_stage=3)
    bench.lead(ON_FEATURES)
    for device in bench.devices:
        bench.decline(device)
    bench.wait(0)
    bench.wait(10)
    bench.restart()
    assert {body.backbone for body in assignments(bench).values()} == {BACKBONE}


def test_the_ledger_names_the_backbone_as_a_blob_that_must_be_there() -> None:
    assert set(ON_FEATURES.blobs) == {*NETWORK.blobs, BACKBONE.digest}
    read = read_entry(ON_FEATURES.kind, ON_FEATURES.model_dump(mode="json"))
    assert read == ON_FEATURES


def test_equal_first_weights_on_another_backbone_or_base_begin_another_lineage() -> None:
    other = FrozenBackbone(name="b", frozen=offer("another"), feature_width=64)
    lineages = [
        NETWORK,
        ON_FEATURES,
        NETWORK.model_copy(update={"backbone": other}),
        NETWORK.model_copy(update={"base": offer("base")}),
    ]
    assert len({network.digest for network in lineages}) == 4
    assert NETWORK.digest == NETWORK.weights.digest


def test_a_network_of_before_there_were_backbones_is_still_read() -> None:
    body = NETWORK.model_dump(mode="json")
    del body["backbone"]
    assert read_entry(NETWORK.kind, body) == NETWORK


class _Server:
    def __init__(self) -> None:
        self.served: list[Offer] = []

    def serve(self, data: BlockSource) -> Offer:
        self.served.append(data.offer)
        return data.offer


class _Store:
    def local_path(self, _digest: str) -> None:
        return None


class _Blobs:
    store = _Store()

    def get(self, _digest: str) -> bytes:
        return b"backbone"


def test_the_file_of_the_backbone_is_registered_once_for_all_devices() -> None:
    bench, server = RoundBench(cohort=1), _Server()
    bench.lead(ON_FEATURES)
    blobs = _Blobs()
    files = FileServer(server, lambda: blobs)  # type: ignore[arg-type, return-value]
    for body in assignments(bench).values():
        files.offer_files_of(body.model_copy(update={"round": None}))
    assert [item.digest for item in server.served] == [BACKBONE.digest]
