"""What must be true of sums behind masks: they are those of what members have, once each.

The devices' stores are on the disks here, where a coordinator sees none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fleetledger.coordinator.ledger.blobs import Blobs, BlobStore
from fleetledger.coordinator.ledger.reader import LedgerReader
from fleetledger.coordinator.paths import blob_folder, ledger_path
from fleetledger.coordinator.topics.cohorts.entries import CohortPruned, CohortSummed
from fleetledger.coordinator.topics.cohorts.state import CohortProgress
from fleetledger.device_agent.core.state import AgentRecords
from fleetledger.device_agent.home.store.blobs import BlobFolder
from fleetledger.methods.registry import statistics_coordinator
from fleetledger.methods.statistics.sides import ExactAggregate
from fleetledger.schemas.cohorts import CohortMember
from fleetledger.schemas.contributions import PartKey
from fleetledger.schemas.values import DeviceId, Digest
from tests.chaos.outcome import FleetOutcome, Places


def pruned_of_cohorts(ledger: LedgerReader) -> frozenset[Digest]:
    """Return the masked payloads that were deleted on purpose."""
    found = (CohortPruned.model_validate(entry.body) for entry in ledger.find(CohortPruned))
    return frozenset(digest for body in found for digest in body.digests)


def sums_of_members(places: Places, outcome: FleetOutcome) -> Iterator[str]:
    """Say of which cohort the sum is not that of its members' parts, or has one of them twice."""
    state = outcome.state
    summed = [one for one in state.cohorts.by_number.values() if one.step == "summed"]
    given = Counter(
        (member.device, _key(member))
        for one in summed
        for member in one.body.members
        if one.has(member.device) and one.body.round is None
    )
    for (device, key), times in given.items():
        if times > 1:
            yield f"{device}: part {key.part} of stage {key.stage} is in {times} cohorts' sums"
    for device, records in outcome.devices.items():
        yield from _forgotten(device, records, summed)
    lineage = state.lineages.backbone
    if lineage is None or not summed:
        return
    side = statistics_coordinator(lineage.method)
    assignment = side.read_assignment(lineage.settings)
    with LedgerReader.open_read_only(ledger_path(places.coordinator)) as ledger:
        blobs = Blobs(ledger, BlobStore(blob_folder(places.coordinator)))
        for entry in ledger.find(CohortSummed):
            body = CohortSummed.model_validate(entry.body)
            one = state.cohorts.by_number[body.number]
            expected: ExactAggregate = side.aggregate_type.empty(assignment)
            for member in one.body.members:
                if one.has(member.device):
                    payload = _payload(places, outcome, member)
                    part = side.read(assignment, payload)
                    expected = expected + side.aggregate_type.of(assignment, part, body.stage)
            told = side.read(assignment, blobs.get(body.payload))
            found = side.aggregate_type.of(assignment, told, body.stage)
            if found.digest != expected.digest:
                yield f"cohort {body.number}: {found.digest}, its members have {expected.digest}"


def _key(member: CohortMember) -> PartKey:
    return PartKey(stage=member.joining.stage, part=member.joining.part)


def _forgotten(
    device: DeviceId, records: AgentRecords, summed: list[CohortProgress]
) -> Iterator[str]:
    """Say which parts a device takes for given and no sum has, or the other way about."""
    told = {key: part.cohort for key, part in records.hidden.items()}
    counts = {
        _key(member): one.body.number
        for one in summed
        for member in one.body.members
        if member.device == device and one.has(device) and one.body.round is None
    }
    for key in told.keys() | counts.keys():
        if told.get(key) != counts.get(key):
            yield (
                f"{device}: part {key.part} of stage {key.stage} is in cohort {counts.get(key)} by "
                f"the ledger, in {told.get(key)} by the device"
            )


def _payload(places: Places, outcome: FleetOutcome, member: CohortMember) -> bytes:
    """Return what a device has of what it gave."""
    part = outcome.devices[member.device].hidden.get(_key(member))
    assert part is not None, f"{member.device} knows nothing of {_key(member)}"
    assert part.payload is not None
    path = BlobFolder(places.states[member.device] / "blobs").path(part.payload)
    return path.read_bytes()
