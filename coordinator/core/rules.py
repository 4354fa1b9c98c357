"""Settings of the rules: when a stage is done, when a model is solved, what is too much."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from typing_extensions import Self

from fleetledger.coordinator.topics.rollouts.plan import ADAPTED, AUTOMATIC, RolloutPlan
from fleetledger.learning.privacy.accounting import Spending, multiplier_for
from fleetledger.methods.training.robust import Robust, refuse_running
from fleetledger.runtime.count_words import count_of
from fleetledger.runtime.strict import Strict
from fleetledger.schemas.cohorts import LEAST_MEMBERS, MOST_MEMBERS
from fleetledger.schemas.privacy import Masks, Noise, Privacy
from fleetledger.schemas.values import FleetId
from fleetledger.schemas.wire import OWN, WireRange


class StageRules(Strict):
    """When stages open and close: docs/coordinator.md#stages."""

    quorum: float = Field(default=1.0, gt=0, le=1)
    """Share of admitted devices that must have answered."""
    quiet_seconds: float = Field(default=30.0, ge=0)
    """Seconds without a further answer, once the quorum is there, after which a stage closes."""
    deadline_seconds: float = Field(default=3600.0, gt=0)
    """Seconds after which a stage closes with whatever came."""
    away_seconds: float | None = Field(default=None, gt=0, le=1e9, examples=[3600])
    """Seconds after which a stage closes without a device that is away, or never came, or is
    silent: docs/trust.md#silence. Left out, an hour."""
    open: Literal["operator", "reports"] = "operator"
    """Who opens the next stage: "operator", or "reports", what devices report as new
    (docs/detection.md); the operator still can."""
    reports_quorum: (
        Annotated[int, Field(ge=1, le=1_000_000)] | Annotated[float, Field(gt=0, le=1)]
    ) = 0.5
    """Devices that must have reported: a whole number of them, or a share such as 0.5. 1 is one
    device, 1.0 all of them."""
    reports_within_seconds: float | None = Field(default=None, ge=0, le=1e9, examples=[3600])
    """Seconds before the newest report within which doubts of devices count. Left out, as long as
    each report says, the time in which its device looks at a tenth of `quiet_images`:
    docs/detection.md#what-the-coordinator-makes-of-it."""
    settle_seconds: float = Field(default=10.0, ge=0)
    """Seconds without a further report before a stage opens by itself."""
    gather_seconds: float = Field(default=60.0, ge=0, le=1e9)
    """Seconds for devices to come back after a start of the coordinator. Until then an open stage
    stays open for those that have not answered."""


class AsynchronousRules(Strict):
    """Rounds that wait for nobody: docs/rounds.md#asynchronous-rounds."""

    buffer: int = Field(default=10, ge=1, le=100_000)
    """Answers after which a round closes, whichever round's weights they began from. 1 takes in
    each answer as it comes."""
    combine: Literal["differences", "mixing"] = "differences"
    """How answers become weights. "differences" adds to the newest weights how far answers moved
    from those that they began from, as FedBuff does. "mixing" draws the newest weights towards the
    answers themselves, as FedAsync does."""
    server_rate: float = Field(default=1.0, gt=0, le=100)
    """Factor of the mean step; alpha of FedAsync, which is at most 1."""
    staleness: Literal["constant", "polynomial", "hinge"] = "polynomial"
    """Weight of an answer whose weights are t versions old. "constant": 1. "polynomial":
    (1 + t)^-a. "hinge": 1 up to t = b, then 1 / (a (t - b) + 1). It is rounded to steps of
    1/256."""
    staleness_a: float = Field(default=0.5, ge=0, le=100)
    """a of the polynomial and of the hinge."""
    staleness_b: int = Field(default=4, ge=0, le=100)
    """b of the hinge."""
    max_staleness: int = Field(default=20, ge=0, le=100)
    """Versions by which an answer's weights may be old. A device that is further behind gets the
    newest ones."""

    @model_validator(mode="after")
    def _mixes_a_share(self) -> Self:
        if self.combine == "mixing" and self.server_rate > 1:
            raise ValueError(
                f"server_rate: {self.server_rate:g} with combine = 'mixing' goes beyond the "
                "answers; give at most 1, or combine = 'differences'"
            )
        return self


class RoundRules(Strict):
    """Rounds of methods that train networks: docs/rounds.md#settings."""

    per_stage: int = Field(default=10, ge=1, le=100_000)
    """Rounds of every stage."""
    per_first_stage: int | None = Field(default=None, ge=1, le=100_000, examples=[50])
    """Rounds of the first stage, where it has more or fewer."""
    cohort: Annotated[int, Field(ge=1, le=1_000_000)] | Annotated[float, Field(gt=0, le=1)] = 1.0
    """Devices asked in a round: a whole number of them, or a share of those that are there. 1 is
    one device, 1.0 all of them. Of asynchronous rounds, devices that train at the same time."""
    quorum: float = Field(default=0.5, gt=0, le=1)
    """Share of the cohort that must have answered with weights, or the round comes to nothing.
    Asynchronous rounds need one answer."""
    deadline_seconds: float = Field(default=600.0, gt=0, le=1e9)
    """Time after which a round closes with what came."""
    pause_seconds: float = Field(default=30.0, ge=0, le=1e9)
    """Time between a round that came to nothing and the next one; twice as long after each further
    one in a row."""
    longest_pause_seconds: float = Field(default=900.0, ge=0, le=1e9)
    """What these pauses grow to; never less than `pause_seconds`."""
    void_rounds: int = Field(default=5, ge=1, le=1_000_000)
    """Rounds in a row that come to nothing because devices decline, or what they give cannot be
    used, after which the stage asks for nothing more until somebody mends it."""
    gather_seconds: float = Field(default=15.0, ge=0, le=1e9)
    """Time for devices to come back after a start of the coordinator; then a round opens without
    those that are away."""
    proxy_seconds: float = Field(default=600.0, gt=0, le=1e9)
    """Time for the proxy, where a method has one, to score what a round gave; then the next one
    opens with the old models of before."""
    retention: Literal["aggregates", "all"] = "aggregates"
    """What is kept of weights: what was averaged alone, or the answers too. Entries always stay."""
    keep_weights: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["all"] = 10
    """Of how many rounds, the newest ones, what was averaged is kept. Models and old models always
    are."""
    seed: int = Field(default=1, ge=0, lt=2**31)
    """Of the cohorts and of everything that devices draw."""
    asynchronous: AsynchronousRules | None = None
    robust: Robust | None = None

    @model_validator(mode="after")
    def _all_answers_are_there(self) -> Self:
        refuse_running(self.robust, self.asynchronous is not None)
        return self


_DOUBLINGS = 60
"""Models after which a pause does not grow, whatever the longest one is."""


class ModelRules(Strict):
    """When models are solved, and whether they go out by themselves."""

    automatic: bool = True
    """Whether each solved model goes to all devices."""
    solve_every_seconds: float = Field(default=30.0, ge=0)
    """Shortest seconds between two solves while contributions wait outside a stage's closing; twice
    as long after each model since a stage closed, a class was named or a part was retracted."""
    longest_pause_seconds: float = Field(default=86400.0, ge=0)
    """What these pauses grow to, and never less than `solve_every_seconds`: a fleet that trickles
    all year makes some 380 models."""

    def pause_seconds(self, models: int) -> float:
        """Return the pause after so many models without anything that makes the next one urgent."""
        growing = self.solve_every_seconds * 2.0 ** min(max(models - 1, 0), _DOUBLINGS)
        return max(self.solve_every_seconds, min(growing, self.longest_pause_seconds))


class RolloutRules(Strict):
    """How models go out in a large fleet: docs/rollouts.md."""

    automatic_from: int = Field(default=20, ge=0, le=1_000_000_000)
    """Admitted devices from which on each solved model goes out as a rollout, and not to all at
    once; 0 for never."""
    plan: RolloutPlan = AUTOMATIC
    """Plan of these rollouts."""

    def is_large(self, devices: int) -> bool:
        """Whether a fleet of so many devices gets models group by group."""
        return bool(self.automatic_from) and devices >= self.automatic_from


class AdapterRules(Strict):
    """An adapter on top of a solved model: docs/rounds.md#an-adapter-on-top-of-the-exact-head."""

    held_out: float = Field(default=0.2, gt=0, lt=1)
    """Share of the devices that no round asks, so that they measure what they did not make."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of method `rounds`, whose preset is "adapter" where none is named."""
    plan: RolloutPlan = ADAPTED
    """How the result goes out."""


class ReleaseRules(Strict):
    """How what goes out is released, in a fleet with a root."""

    expire_days: float | None = Field(default=None, gt=0, le=36500, examples=[90])
    """Days after which a release is not installed any more; left out, it always is."""
    first_number: int = Field(default=1, ge=1, lt=2**62)
    """Least number of the next release. Set it above what devices have taken after the ledger was
    restored from a backup."""


class IntakeRules(Strict):
    """What one device may send: docs/coordinator.md#quotas."""

    max_payload_mib: int = Field(default=256, ge=1, le=1024)
    """Largest payload of one contribution in MiB, as it is before a network compresses it."""
    max_pending_per_device: int = Field(default=4, ge=1, le=100)
    """Payloads of one device that may be under way to the store at a time; more hear "later"."""
    retry_seconds: float = Field(default=2.0, gt=0, le=3600)
    """Seconds until a device that was told "later" asks again."""
    replacement_seconds: float = Field(default=150.0, ge=0, le=1e6)
    """Seconds for which what another installation of a device gives waits, where the former one's
    parts are held: one that is alive has come back by then."""
    quarantine: Literal["off", "ask"] = "off"
    """Whether all that counts is inspected before a head is solved. "ask" sets aside what harms the
    others until the operator decides: docs/inspect.md#before-a-model-is-solved."""
    refusals_per_minute: int = Field(default=60, ge=1)
    """Refusals sent to one device; more are dropped, since its outbox asks again."""
    messages_per_minute: int = Field(default=3000, ge=1, le=10_000_000)
    """Messages of one device that are taken in; what is beyond waits for its turn."""
    mib_per_minute: int = Field(default=512, ge=1, le=1_000_000)
    """The same for bytes, with the payloads that are fetched from it."""
    json_mib_per_minute: int = Field(default=8, ge=1, le=1_000_000)
    """The same for the JSON that is read for it: what its messages and payloads cost, and not what
    they weigh. The check of a Gram matrix counts as 0.1 MiB at 1,250 features, 6.3 at 5,000."""


class DailyRules(Strict):
    """What a device may add in a day of UTC: docs/coordinator.md#what-one-device-adds-in-a-day."""

    births: int = Field(default=1000, ge=1)
    """New runs of the agent."""
    cohort_messages: int = Field(default=4000, ge=1)
    """Words to and in masked cohorts, but for what is given in them."""
    comparisons: int = Field(default=500, ge=1)
    """Comparisons of two models."""
    contributions: int = Field(default=2000, ge=1)
    """Parts of statistics, revisions among them; answers to rounds count as none."""
    evaluations: int = Field(default=500, ge=1)
    """Measurements of a model."""
    key_changes: int = Field(default=20, ge=1)
    """Enrolments and rotations of its key."""
    model_statuses: int = Field(default=1000, ge=1)
    """What became of models on it."""
    nothings: int = Field(default=500, ge=1)
    """Answers that it has nothing for a stage."""
    problems: int = Field(default=500, ge=1)
    """What stands in its way."""
    transitions: int = Field(default=500, ge=1)
    """What it noticed as new."""
    withdrawals: int = Field(default=2000, ge=1)
    """Parts that it took back."""
    body_mib: int = Field(default=16, ge=1, le=1_000_000)
    """MiB of all these entries' bodies."""
    payload_mib: int = Field(default=1024, ge=1, le=1_000_000)
    """MiB of payloads; the first one of a day is taken in whatever its size."""


class SilenceRules(Strict):
    """When the coordinator is heard, and when the operator is told that a device is not."""

    beat_seconds: float | None = Field(default=None, gt=0)
    """How often the coordinator says, signed, that it is there; None for never."""
    silent_seconds: float | None = Field(default=None, gt=0)
    """After which a device of which nothing was believed is silent; None for never."""


class BoundRules(Strict):
    """What one device may weigh: docs/coordinator.md#what-one-device-weighs."""

    max_samples_per_class: int = Field(default=100_000, ge=1, le=10**9)
    """Samples of one class that a device may give in a stage, or in one answer to a round."""
    max_share: float = Field(default=0.4, gt=0, le=1)
    """Most of the samples of a class in a stage, as a share; 1.0 is no bound."""
    max_round_share: float = Field(default=0.5, gt=0, le=1)
    """Most of the samples of a round's answers, as a share; 1.0 is no bound."""
    max_residual: float = Field(default=4.0, gt=0)
    """Most mean squared residual of a device's new parts under the model of the others; parts above
    it, or above the next two, are set aside: docs/coordinator.md#what-is-set-aside."""
    max_pull: float = Field(default=1.8, gt=0)
    """Most move of the others' scores in units of the parts' share of samples, but for chance."""
    max_move: float = Field(default=0.02, gt=0)
    """Most mean squared move of the others' scores, once `move_from_devices` others count."""
    move_from_devices: int = Field(default=10, ge=1, le=1_000_000)
    """Other devices that must count, with more samples than features, for `max_move` to hold."""
    share_from_devices: int = Field(default=3, ge=2, le=1_000_000)
    """Devices that must give the class, or answer, for both shares to hold."""


class NoiseRules(Strict):
    """Noise of differential privacy, from the next frozen model on: docs/noise.md."""

    protects: Literal["image", "device"] = "image"
    """Whether nobody can tell of one image that it was there, or of all that one device gives."""
    epsilon: float = Field(gt=0, le=1000)
    """Budget of a device: what all its contributions together may spend."""
    delta: float = Field(default=1e-5, gt=0, lt=1)
    """Chance with which epsilon may fail; less than one in the number of images, or of devices."""
    parts: int = Field(default=1, ge=1, le=10_000)
    """Contributions that the budget is for, one for each time that what is protected is given: of
    an image its part and every revision of it, of a device every part. More need more noise."""
    multiplier: float | None = Field(default=None, gt=0, le=1e6)
    """Deviation of the noise over the largest length by which what is protected changes a part;
    left out, what the budget asks for."""
    clip: int = Field(default=12, ge=1, le=127)
    """Root of the mean square to which features of an image are scaled down, of 127."""
    sharers: int = Field(default=1, ge=1, le=MOST_MEMBERS)
    """Behind masks: members of a cohort whose noise together is enough, so that each adds less. Of
    these none may help the coordinator; every opened sum has 4 members of cohorts from 8 on."""

    @property
    def told(self) -> Noise:
        """What devices are told of it."""
        multiplier = self.multiplier
        if multiplier is None:
            multiplier = multiplier_for(self.epsilon, self.delta, Spending(1.0, self.parts))
        return Noise(
            protects=self.protects,
            epsilon=self.epsilon,
            delta=self.delta,
            multiplier=multiplier,
            clip=self.clip,
            sharers=self.sharers,
        )


class PrivacyRules(Strict):
    """How devices keep their numbers to themselves, from the next stage on: docs/masks.md."""

    masks: bool = False
    """Whether devices are summed behind masks, so that the coordinator sees sums of cohorts alone.
    The method must give sums of integers: stsa in the form "exact", fed3r, or rounds."""
    cohort: int = Field(default=16, ge=LEAST_MEMBERS, le=MOST_MEMBERS)
    """Devices that are summed together; so many that are ready begin at once."""
    least: int = Field(default=8, ge=LEAST_MEMBERS, le=MOST_MEMBERS)
    """Fewest devices that are summed together."""
    wait_seconds: float = Field(default=600.0, ge=0, le=1e9)
    """Seconds after which `least` devices that are ready begin without others."""
    answer_seconds: float = Field(default=600.0, gt=0, le=1e9)
    """Seconds for each step of a cohort, after which it goes on without who has not answered."""
    keep_masked: bool = False
    """Whether what devices give behind masks is kept once the sum is known, so that `fleetledger
    ledger replay` can make the sum again; 8 bytes for each number of each device."""
    noise: NoiseRules | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.least > self.cohort:
            raise ValueError(f"least: {self.least}; give at most {self.cohort}, which cohort says")
        sharers = 1 if self.noise is None else self.noise.sharers
        most = Masks(least=self.least, most=self.cohort).least_honest if self.masks else 1
        if sharers > most:
            raise ValueError(
                f"noise.sharers: {sharers}; a sum has {count_of(most, 'member')} for sure, so give "
                "at most so many, or masks and larger cohorts"
            )
        return self

    @property
    def told(self) -> Privacy | None:
        """What devices are told of it; None where nothing hides their numbers."""
        masks = Masks(least=self.least, most=self.cohort) if self.masks else None
        return None if masks is None else Privacy(masks=masks)


class Rules(Strict):
    """All settings that the core decides by."""

    wire: WireRange = OWN.range
    """Versions of the wire that the coordinator speaks."""
    learning: bool = True
    """Whether the fleet learns; where it does not, models are only imported and pushed."""
    stages: StageRules = StageRules()
    rounds: RoundRules = RoundRules()
    models: ModelRules = ModelRules()
    rollouts: RolloutRules = RolloutRules()
    adapter: AdapterRules = AdapterRules()
    release: ReleaseRules = ReleaseRules()
    intake: IntakeRules = IntakeRules()
    silence: SilenceRules = SilenceRules()
    bounds: BoundRules = BoundRules()
    daily: DailyRules = DailyRules()
    privacy: PrivacyRules = PrivacyRules()
    fleet: FleetId | None = None
    """Name of the fleet, which members of a cohort sign; None where no signature is checked."""
