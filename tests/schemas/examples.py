"""One good message of every kind, and the senders that wrap them."""

from fleetledger.schemas.assignments import Assignment
from fleetledger.schemas.cohorts import CohortJoin, CohortReveal, Hex32, Joining
from fleetledger.schemas.contributions import Contribution, HeldPart, Nothing, PartKey, Withdrawal
from fleetledger.schemas.enrolment import Enrolled, Enrolment, KeyRotation
from fleetledger.schemas.envelope import Sender
from fleetledger.schemas.health import DeviceHealth, HealthProblem, ThermalZone
from fleetledger.schemas.keys import KeyName, SignatureText, VerifyKey
from fleetledger.schemas.message import Message
from fleetledger.schemas.models import DesiredModel, ModelStatus, Preprocessing
from fleetledger.schemas.offers import BlockData, BlockRefusal, BlockRequest, FileUrl, Offer
from fleetledger.schemas.presence import (
    Birth,
    Capabilities,
    CoordinatorBirth,
    CoordinatorDeath,
    CoordinatorHeartbeat,
    Death,
    Heartbeat,
    SeenCheckpoint,
    Welcome,
)
from fleetledger.schemas.proxy import PrototypeGradients, Scored, ScoredModel, ScoringOrder
from fleetledger.schemas.receipts import Accepted, Later, Receipt
from fleetledger.schemas.reports import (
    ClassResult,
    Evaluation,
    Problem,
    Transition,
    Uncertainty,
    WaitingClasses,
)
from fleetledger.schemas.rollouts import EntropyCounts, ModelComparison, ModelCost, Pairs
from fleetledger.schemas.rounds import Observation, RoundAnswer, RoundOrder
from fleetledger.schemas.values import BootId, ClassName, DeviceId, Digest, FleetId

DIGEST = Digest.of(b"anything")
BOOT = BootId("0123456789abcdef")
VERIFY_KEY = VerifyKey.of(KeyName("harbour/device/crane-7"), bytes(range(32)))
KEY = PartKey(stage=2, part=7)
CAT = ClassName("cat")
OFFER = Offer(digest=DIGEST, size=200_000, list_digest=Digest.of(b"list"))
PREPROCESSING = Preprocessing(
    mode="L", size=(8, 8), mean=(0.0,), deviation=(1.0,), input_name="image"
)

EXAMPLES: tuple[Message, ...] = (
    Birth(
        installation=BOOT,
        capabilities=Capabilities(
            agent_version="0.1.0",
            python="3.10.12",
            machine="aarch64",
            features=frozenset({"numpy", "onnxruntime"}),
            provider="CPUExecutionProvider",
            memory_mib=7_600,
        ),
        seen_checkpoint=SeenCheckpoint(size=3, root=DIGEST),
    ),
    Death(),
    Heartbeat(
        welcomed=True, outbox_length=0, waiting_images=3, resident_bytes=1, bytes_up=2, bytes_down=3
    ),
    DeviceHealth(
        provider="TensorrtExecutionProvider",
        temperatures=(ThermalZone(zone="CPU-therm", celsius=52.5),),
        power_mode="15W",
        throttled=0,
        free_disk_bytes=21_400_000_000,
        inferences=41_302,
        inference_p95_seconds=0.0118,
        problems=(HealthProblem(about="disk", text="98 % full"),),
    ),
    Contribution(
        key=KEY,
        revision=1,
        payload_kind="statistics",
        method="stsa",
        lineage=DIGEST,
        payload=DIGEST,
        payload_bytes=200_000,
        offer=OFFER,
        samples={CAT: 130, ClassName("caf\u00e9"): 4},
    ),
    Contribution(
        key=KEY,
        revision=0,
        payload_kind="weights",
        method="rounds",
        lineage=DIGEST,
        payload=DIGEST,
        payload_bytes=200_000,
        offer=OFFER,
        samples={CAT: 130},
        round=RoundAnswer(number=7, samples=130, steps=6, loss=0.5, seconds=1.5),
    ),
    CohortJoin(
        joining=Joining(
            stage=2, part=7, lineage=DIGEST, mask_key=Hex32("ab" * 32), commitment=DIGEST
        )
    ),
    CohortReveal(number=3, seeds={DeviceId("crane-8"): Hex32("cd" * 32)}),
    Withdrawal(key=KEY, revision=2, reason="the agent was installed again"),
    Nothing(stage=2),
    Nothing(stage=2, round=7),
    Nothing(stage=2, round=7, observation=Observation(entropy=1.25, images=130, transition=True)),
    PrototypeGradients(
        key=KEY,
        method="lga",
        lineage=DIGEST,
        payload=DIGEST,
        payload_bytes=OFFER.size,
        offer=OFFER,
    ),
    ScoringOrder(
        action=30,
        stage=2,
        round=7,
        round_of_stage=3,
        rounds_of_stage=10,
        method="lga",
        settings={"mode": "paper"},
        lineage=DIGEST,
        weights=OFFER,
        class_names=(CAT,),
        class_stages=(2,),
        preprocessing=PREPROCESSING,
        seed=5,
    ),
    Scored(
        action=30,
        newest=ScoredModel(round=7, weights=DIGEST, score=0.75),
        scored=(ScoredModel(round=7, weights=DIGEST, score=0.75),),
        current=DIGEST,
        gradients=3,
        images=3,
        shifted=True,
        seconds=2.5,
    ),
    Transition(stage=2, number=0, why="class name", classes={ClassName("dog"): 12}),
    Transition(
        stage=2,
        number=1,
        why="entropy",
        classes={},
        uncertainty=Uncertainty(model_version=4, images=50, value=0.5, baseline=0.25),
    ),
    Evaluation(
        version=4,
        manifest=DIGEST,
        results={CAT: ClassResult(correct=9, total=10)},
        provider="CPUExecutionProvider",
        seconds=0.25,
        bytes_up=10,
        bytes_down=20,
        power_mode="15W",
        celsius=61.5,
        throttled=0,
        losses=(70_000, 65_000),
    ),
    WaitingClasses(classes={ClassName("dog"): 12}),
    Problem(about="image", text="dog/3.png does not decode; delete it or save it again"),
    ModelStatus(version=4, manifest=DIGEST, state="active"),
    CoordinatorBirth(ledger_size=12),
    CoordinatorDeath(),
    CoordinatorHeartbeat(ledger_size=12, time_ns=1_700_000_000_000_000_000, corrections=1),
    Enrolment(key=VERIFY_KEY, mac=DIGEST),
    KeyRotation(key=VERIFY_KEY, approval=SignatureText.of(bytes(64))),
    Enrolled(key=VERIFY_KEY),
    Welcome(boot=BOOT, held=(HeldPart(key=KEY, revision=1, payload=DIGEST),), next_part=8),
    Receipt(about="contribution", key=KEY, revision=1, answer=Accepted(ledger_index=5)),
    Receipt(about="nothing", key=KEY, answer=Later(after_seconds=1.5)),
    Assignment(
        action=9,
        stage=2,
        method="stsa",
        settings={"width": 1250, "form": "exact"},
        lineage=DIGEST,
        frozen=OFFER,
        preprocessing=PREPROCESSING,
        class_names=(CAT,),
        stage_class_names=(CAT,),
        max_samples_per_part=500,
    ),
    Assignment(
        action=9,
        stage=2,
        method="rounds",
        settings={"preset": "fedavg"},
        lineage=DIGEST,
        preprocessing=PREPROCESSING,
        class_names=(CAT,),
        stage_class_names=(CAT,),
        max_samples_per_part=500,
        round=RoundOrder(
            number=7,
            round_of_stage=2,
            rounds_of_stage=5,
            weights=OFFER,
            class_names=(CAT,),
            aliases={ClassName("Cat"): CAT},
            extras={"old-model": OFFER},
            seed=3,
            deadline_seconds=600.0,
        ),
    ),
    ModelComparison(
        number=0,
        rollout=7,
        group=2,
        mode="shadow",
        candidate=Digest.of(b"candidate"),
        candidate_version=5,
        active=DIGEST,
        active_version=4,
        classes={ClassName("cat"): Pairs(both=17, only_active=2, only_candidate=1, neither=0)},
        entropy_active=EntropyCounts(images=20, nats=65_536, bins=(18, 2)),
        entropy_candidate=EntropyCounts(images=20, nats=70_000, bins=(17, 3)),
        cost_active=ModelCost(latency=(0, 20), resident_bytes=90_000_000),
        cost_candidate=ModelCost(latency=(0, 19, 1), resident_bytes=91_000_000),
        provider="CPUExecutionProvider",
        seconds=0.8,
    ),
    DesiredModel(
        action=10,
        version=4,
        manifest=OFFER,
        files=(OFFER,),
        urls=(FileUrl(digest=DIGEST, url="https://files.example.org/blobs/00/00aa?expires=1"),),
    ),
    BlockRequest(digest=DIGEST, block_size=65_536, section="data", indices=(0, 2)),
    BlockData(digest=DIGEST, section="list", index=0),
    BlockRefusal(digest=DIGEST, reason="not served any more"),
)


def sender() -> Sender:
    return Sender(FleetId("harbour"), DeviceId("crane-7"), BOOT)
