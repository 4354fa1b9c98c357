"""Which file of a frozen part is fetched and installed, through the real rules and store."""

from pathlib import Path

from fleetledger.device_agent.core import inputs
from fleetledger.device_agent.core.records import ActiveModel
from fleetledger.device_agent.core.requests import FetchFile, InstallModel, Send
from fleetledger.device_agent.core.state import AgentRules
from fleetledger.schemas.models import DesiredModel, ModelStatus
from fleetledger.schemas.reports import Problem
from fleetledger.schemas.variants import VariantName, VariantOffer
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

ONE = ActiveModel(1, making.digest("manifest 1"))
OFFERS = tuple(
    VariantOffer(name=name, frozen=making.offer(name), replaces=making.digest("frozen"))
    for name in ("fp16", "int8")
)


def desired(action: int = 5, version: int = 1) -> DesiredModel:
    return making.desired(action, version, variants=OFFERS)


def an_agent(folder: Path, *variants: VariantName) -> Driven:
    """An agent that has learned nothing, so that no assignment names the frozen file."""
    driven = Driven(folder / "agent.db", variants=variants)
    driven.connect()
    return driven


def start_again(
    agent: Driven, *variants: VariantName, runs: VariantName | None, files: tuple[str, ...]
) -> None:
    """Start with other settings, with model 1 in the active slot."""
    agent.rules = AgentRules(variants=variants)
    agent.slots, agent.variant = (ONE, None), runs
    agent.here = frozenset(making.digest(text) for text in files)
    agent.kill()
    agent.connect()


def install(agent: Driven, variant: VariantName) -> None:
    want(agent)
    agent.fetch_all()
    assert agent.take(InstallModel)[0].variant == variant
    agent.give(inputs.ModelInstalled(5, ONE, variant=variant))


def want(agent: Driven, action: int = 5, version: int = 1) -> None:
    agent.give(inputs.DesiredArrived(making.COORDINATOR, desired(action, version)))


def digests(*texts: str) -> list[str]:
    return [making.digest(text) for text in texts]


def test_only_the_chosen_variant_is_fetched_and_installed(tmp_path: Path) -> None:
    agent = an_agent(tmp_path, "int8")
    want(agent)
    assert agent.fetch_all() == digests("manifest 1", "int8", "head 1")
    (request,) = agent.take(InstallModel)
    assert request.variant == "int8"
    agent.give(inputs.ModelInstalled(5, ONE, variant="int8"))
    (status,) = agent.sent(ModelStatus)
    assert (status.state, status.variant) == ("active", "int8")
    assert agent.state.models.variant == "int8"


def test_a_device_that_chose_none_runs_the_reference(tmp_path: Path) -> None:
    agent = an_agent(tmp_path)
    want(agent)
    assert agent.fetch_all() == digests("manifest 1", "frozen", "head 1")
    (request,) = agent.take(InstallModel)
    assert request.variant is None
    agent.give(inputs.ModelInstalled(5, ONE))
    (status,) = agent.sent(ModelStatus)
    assert "variant" not in status.model_dump(mode="json"), "older coordinators refuse the field"


def test_a_model_without_variants_is_installed_as_ever(tmp_path: Path) -> None:
    agent = an_agent(tmp_path, "int8")
    agent.give(inputs.DesiredArrived(making.COORDINATOR, making.desired(5, 1)))
    assert agent.fetch_all() == digests("manifest 1", "frozen", "head 1")
    assert agent.take(InstallModel)[0].variant is None


def test_a_variant_that_fails_is_left_for_the_reference_and_the_fleet_is_told(
    tmp_path: Path,
) -> None:
    agent = an_agent(tmp_path, "int8")
    want(agent)
    agent.fetch_all()
    agent.take(InstallModel)
    agent.give(inputs.VariantLeft("int8", making.digest("int8"), "scores stray by 3"))
    assert agent.fetch_all() == digests("frozen")
    (request,) = agent.take(InstallModel)
    assert (request.desired.version, request.variant) == (1, None)
    agent.give(inputs.ModelInstalled(5, ONE))
    bodies = [request.body for request in agent.take(Send)]
    (status,) = (body for body in bodies if isinstance(body, ModelStatus))
    assert (status.state, status.variant) == ("active", None)
    (problem,) = (body for body in bodies if isinstance(body, Problem))
    assert problem.text == "int8 is left for the reference: scores stray by 3"


def test_what_was_left_stays_left_over_restarts_until_the_reference_is_chosen(
    tmp_path: Path,
) -> None:
    agent = an_agent(tmp_path, "int8")
    want(agent)
    agent.fetch_all()
    agent.take(InstallModel)
    agent.give(inputs.VariantLeft("int8", making.digest("int8"), "it does not load"))
    agent.fetch_all()
    agent.take(InstallModel)
    agent.give(inputs.ModelInstalled(5, ONE))
    files = ("manifest 1", "frozen", "head 1")
    start_again(agent, "int8", runs=None, files=files)
    assert (agent.take(FetchFile), agent.take(InstallModel)) == ([], [])
    start_again(agent, runs=None, files=files)
    start_again(agent, "int8", runs=None, files=files)
    assert agent.fetch_all() == digests("int8")
    assert agent.take(InstallModel)[0].variant == "int8"


def test_a_variant_whose_file_never_comes_is_left_for_the_reference(tmp_path: Path) -> None:
    agent = an_agent(tmp_path, "int8")
    want(agent)
    for text in ("manifest 1", "head 1"):
        agent.give(inputs.FetchFinished(making.digest(text)))
    agent.take(FetchFile)
    for _ in range(agent.state.rules.fetch_tries):
        assert agent.state.files.fetching == OFFERS[1].frozen
        agent.give(inputs.FetchFailed(making.digest("int8"), "nobody has it"))
        agent.wait(120)
    assert agent.state.files.fetching == making.offer("frozen")
    agent.give(inputs.FetchFinished(making.digest("frozen")))
    assert agent.take(InstallModel)[0].variant is None
    assert not [body for body in agent.sent(ModelStatus) if body.state == "failed"]


def test_choosing_another_variant_installs_the_model_once_more_at_the_start(
    tmp_path: Path,
) -> None:
    agent = an_agent(tmp_path, "int8")
    install(agent, "int8")
    start_again(agent, "fp16", runs="int8", files=("manifest 1", "int8", "head 1"))
    assert agent.fetch_all() == digests("fp16")
    (request,) = agent.take(InstallModel)
    assert (request.desired.action, request.variant) == (5, "fp16")


def test_a_start_with_the_variant_that_was_chosen_installs_nothing(tmp_path: Path) -> None:
    agent = an_agent(tmp_path, "int8")
    install(agent, "int8")
    start_again(agent, "int8", runs="int8", files=("manifest 1", "int8", "head 1"))
    assert (agent.take(FetchFile), agent.take(InstallModel)) == ([], [])


def test_a_variant_that_fails_at_the_start_lets_the_reference_run_and_says_so(
    tmp_path: Path,
) -> None:
    agent = an_agent(tmp_path, "int8")
    install(agent, "int8")
    agent.requests.clear()
    agent.give(inputs.VariantLeft("int8", making.digest("int8"), "another runtime", runs=ONE))
    assert agent.state.models.active == ONE
    assert agent.state.models.variant is None
    (status,) = agent.sent(ModelStatus)
    assert (status.version, status.state, status.variant) == (1, "active", None)
