"""What a method is told of an order: the assignment's words, and the files that it names."""

from fleetledger.device_agent.models.training import instruction_of
from fleetledger.methods.training.exchange import BASE
from fleetledger.schemas.values import DeviceId
from tests.device_agent.making import offer, round_order, training


def test_an_order_comes_with_its_files_and_the_stage_of_each_row() -> None:
    asked = round_order(1, "dark", "light", class_stages=(1, 2), extras={"old": offer("old")})
    assignment = training(asked, stage=2).model_copy(update={"base": offer("base")})
    texts = {offer(text).digest: text.encode() for text in ("weights 1", "old", "base")}
    instruction = instruction_of(assignment, texts.__getitem__, DeviceId("dev-1"))
    assert (instruction.stage, instruction.class_stages) == (2, (1, 2))
    assert instruction.weights == b"weights 1"
    assert instruction.extras == {"old": b"old", BASE: b"base"}
