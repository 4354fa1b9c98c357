"""Rules of counting, through the real rules and the real store."""

from fleetledger.device_agent.core import counting, inputs
from fleetledger.schemas.contributions import Contribution, Nothing, Withdrawal
from fleetledger.schemas.reports import Problem, WaitingClasses
from tests.device_agent import making
from tests.device_agent.core.driving import Driven


def test_new_images_become_a_part_that_is_sent(ready: Driven) -> None:
    ready.put(a="cat/1", b="dog/2", c="dog/3")
    ready.scan()
    assert ready.contents_of_job() == {"cat/a": "cat", "dog/b": "dog", "dog/c": "dog"}
    ready.compute("payload")
    (body,) = ready.messages()
    assert isinstance(body, Contribution)
    assert body.key == making.part_key(1, 0)
    assert (body.revision, body.samples) == (0, {"cat": 1, "dog": 2})
    assert body.payload == making.digest("payload")


def test_parts_hold_no_more_images_than_assigned(agent: Driven) -> None:
    agent.put(**{f"i{n}": f"cat/{n}" for n in range(7)})
    agent.connect()
    agent.assign("cat", per_part=3)
    sizes = []
    while agent.job() is not None:
        sizes.append(len(agent.contents_of_job()))
        agent.compute(f"payload {len(sizes)}")
    assert sizes == [3, 3, 1]
    assert [body.key.part for body in agent.messages()] == [0, 1, 2]


def test_part_numbers_start_where_the_coordinator_says(agent: Driven) -> None:
    agent.put(a="cat/1")
    agent.connect(next_part=41)
    agent.assign("cat")
    assert agent.job().key == making.part_key(1, 41)


def test_moved_and_copied_files_change_nothing(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute()
    ready.put(elsewhere="cat/1", copy="cat/1")
    ready.scan()
    assert ready.job() is None


def test_deleted_files_stay_counted_and_are_not_counted_again_when_they_return(
    ready: Driven,
) -> None:
    ready.put(a="cat/1", b="cat/2")
    ready.scan()
    ready.compute()
    ready.put(b="cat/2")
    ready.scan()
    assert ready.job() is None
    ready.put(a="cat/1", b="cat/2")
    ready.scan()
    assert ready.job() is None


def test_a_relabelled_image_makes_its_part_be_computed_anew(ready: Driven) -> None:
    ready.put(a="cat/1", b="cat/2")
    ready.scan()
    ready.compute("first")
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.messages()
    ready.put(a="dog/1", b="cat/2")
    ready.scan()
    assert ready.contents_of_job() == {"cat/b": "cat", "dog/a": "dog"}
    ready.compute("second")
    (body,) = ready.messages()
    assert isinstance(body, Contribution)
    assert (body.key, body.revision) == (making.part_key(), 1)
    assert body.samples == {"cat": 1, "dog": 1}
    ready.scan()
    assert ready.job() is None


def test_a_part_relabelled_before_its_receipt_is_replaced_in_the_outbox(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("first")
    ready.put(a="dog/1")
    ready.scan()
    ready.compute("second")
    assert len(ready.state.records.outbox) == 1
    ready.receipt(making.accepted("contribution", making.part_key(), revision=0))
    assert len(ready.state.records.outbox) == 1, "a receipt for the replaced revision came late"
    ready.receipt(making.accepted("contribution", making.part_key(), revision=1))
    assert not ready.state.records.outbox


def test_images_deleted_before_a_relabelling_may_be_counted_again(ready: Driven) -> None:
    ready.put(a="cat/1", b="cat/2")
    ready.scan()
    ready.compute("first")
    ready.put(a="dog/1")
    ready.scan()
    ready.compute("second")
    ready.put(a="dog/1", b="cat/2")
    ready.scan()
    assert ready.contents_of_job() == {"cat/b": "cat"}
    assert ready.job().key == making.part_key(1, 1)


def test_a_part_whose_images_all_went_to_unknown_classes_is_withdrawn(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute()
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.messages()
    ready.put(a="owl/1")
    ready.scan()
    (body,) = ready.messages()
    assert isinstance(body, Withdrawal)
    assert (body.key, body.revision) == (making.part_key(), 1)
    ready.receipt(making.accepted("withdrawal", making.part_key(), revision=1))
    ready.assign("cat", "dog", "owl", action=2)
    assert ready.contents_of_job() == {"owl/a": "owl"}
    assert ready.job().key == making.part_key(1, 1)


def test_an_image_under_two_classes_counts_as_the_first_and_is_reported(ready: Driven) -> None:
    ready.put(a="cat/1", b="dog/1")
    ready.scan()
    assert ready.contents_of_job() == {"cat/a": "cat"}
    (told,) = ready.sent(Problem)
    assert "cat/a" in told.text
    assert "dog/b" in told.text
    ready.compute()
    ready.scan()
    assert ready.job() is None
    assert ready.sent(Problem) == []


def test_an_image_under_two_classes_stays_where_it_is_counted(ready: Driven) -> None:
    ready.put(b="dog/1")
    ready.scan()
    ready.compute()
    ready.put(a="cat/1", b="dog/1")
    ready.scan()
    assert ready.job() is None


def test_images_of_unknown_classes_wait_and_are_reported_once_per_change(ready: Driven) -> None:
    ready.put(a="owl/1", b="owl/2")
    ready.scan()
    assert ready.job() is None
    assert ready.sent(WaitingClasses) == [WaitingClasses(classes={"owl": 2})]
    ready.scan()
    assert ready.sent(WaitingClasses) == []
    ready.put(a="owl/1")
    ready.scan()
    assert ready.sent(WaitingClasses) == [WaitingClasses(classes={"owl": 1})]
    ready.assign("cat", "owl", action=2, stage=2)
    assert ready.contents_of_job() == {"owl/a": "owl"}
    assert ready.job().key == making.part_key(2, 0)
    assert ready.sent(WaitingClasses) == [WaitingClasses(classes={})]


def test_images_that_do_not_decode_are_reported_and_left_out_until_they_change(
    ready: Driven,
) -> None:
    ready.put(a="cat/good", b="cat/bad")
    ready.scan()
    ready.compute(unusable=("bad",))
    (told,) = ready.sent(Problem)
    assert "cat/b" in told.text
    ready.kill()
    ready.connect()
    ready.assign("cat", "dog", action=2)
    assert ready.job() is None
    ready.put(a="cat/good", b="cat/mended")
    ready.scan()
    assert ready.contents_of_job() == {"cat/b": "cat"}


def test_a_job_whose_files_vanished_is_decided_again_after_the_next_scan(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.give(inputs.PartEmpty(ready.job()))
    assert ready.job() is None
    ready.put()
    ready.scan()
    assert ready.job() is None
    ready.put(a="cat/1")
    ready.scan()
    assert ready.job() is not None


def test_a_failed_job_is_tried_again_later_and_reported_once(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.give(inputs.PartFailed(ready.job(), "no memory"))
    assert ready.job() is None
    ready.wait(3)
    ready.give(inputs.PartFailed(ready.job(), "no memory"))
    assert [told.text for told in ready.sent(Problem)] == ["no memory"]
    ready.wait(1)
    assert ready.job() is None
    ready.wait(3)
    assert ready.job() is not None


def test_nothing_is_said_once_for_a_stage_without_data(agent: Driven) -> None:
    agent.connect()
    agent.assign("cat", stage=1)
    assert agent.messages() == [Nothing(stage=1)]
    agent.receipt(making.accepted("nothing", making.part_key(1)))
    agent.scan()
    assert agent.messages() == []
    agent.assign("cat", "dog", action=2, stage=2)
    assert agent.messages() == [Nothing(stage=2)]


def test_nothing_is_not_said_for_a_stage_that_got_a_part(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.assign("cat", action=2, stage=2)
    ready.compute()
    ready.messages()
    ready.assign("cat", action=3, stage=2)
    assert ready.messages() == []


def test_while_files_are_being_written_counting_waits_but_not_for_ever(ready: Driven) -> None:
    ready.put(a="cat/1")
    for _ in range(9):
        ready.scan(unsettled=1)
        assert ready.job() is None
    ready.scan(unsettled=1)
    assert ready.job() is not None


def test_files_at_rest_are_counted_at_once(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan(unsettled=1)
    assert ready.job() is None
    before = ready.now
    ready.scan()
    assert ready.job() is not None
    assert ready.now - before <= ready.rules.settle_seconds


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(agent: Driven) -> None:
    agent.connect()
    given = making.assignment("cat")
    agent.give(inputs.Assigned(making.COORDINATOR, given))
    agent.give(inputs.FetchFinished(given.frozen.digest))
    agent.give(inputs.ScanFailed("data.folder: not there"))
    agent.give(inputs.ScanFailed("data.folder: not there"))
    assert agent.messages() == []
    assert agent.state.records.nothing == set()


def test_another_frozen_model_counts_every_image_anew_and_leaves_the_old_parts_alone(
    ready: Driven,
) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.compute("old features")
    ready.receipt(making.accepted("contribution", making.part_key()))
    ready.assign("cat", action=2, stage=1, frozen="another")
    assert ready.job().key == making.part_key(1, 1)
    ready.compute("new features")
    ready.put(a="dog/1")
    ready.assign("cat", "dog", action=3, stage=1, frozen="frozen")
    assert ready.job().key == making.part_key(1, 0), "relabelled under the frozen model of part 0"


def test_a_result_for_a_frozen_model_that_was_replaced_is_dropped(ready: Driven) -> None:
    ready.put(a="cat/1")
    ready.scan()
    ready.give(
        inputs.Assigned(making.COORDINATOR, making.assignment("cat", action=2, frozen="other"))
    )
    ready.compute()
    assert ready.state.records.parts == {}


def test_images_of_a_class_of_which_there_are_too_few_wait_for_more(agent: Driven) -> None:
    agent.put(a="cat/1", b="dog/2", c="dog/3")
    agent.connect()
    agent.assign("cat", "dog", least=2)
    assert agent.contents_of_job() == {"dog/b": "dog", "dog/c": "dog"}
    agent.compute("dogs")
    assert agent.job() is None
    agent.put(a="cat/1", b="dog/2", c="dog/3", d="cat/4", e="dog/5")
    agent.scan()
    assert agent.contents_of_job() == {"cat/a": "cat", "cat/d": "cat"}
    agent.compute("cats")
    assert agent.job() is None
    assert agent.messages()[-1].samples == {"cat": 2}


def test_no_part_ends_with_too_few_images_of_a_class(agent: Driven) -> None:
    images = {f"a{n}": f"cat/{n}" for n in range(3)} | {f"b{n}": f"dog/1{n}" for n in range(3)}
    agent.put(**images)
    agent.connect()
    agent.assign("cat", "dog", least=2, per_part=4)
    agent.compute("cats")
    agent.compute("dogs")
    assert agent.job() is None
    assert [body.samples for body in agent.messages()] == [{"cat": 3}, {"dog": 3}]


def test_a_relabelling_that_leaves_too_few_of_a_class_lets_the_rest_wait(agent: Driven) -> None:
    agent.put(a="cat/1", b="cat/2", c="dog/3", d="dog/4")
    agent.connect()
    agent.assign("cat", "dog", least=2)
    agent.compute("first")
    agent.put(a="cat/1", b="cat/2", c="dog/3", d="cat/4")
    agent.scan()
    assert agent.contents_of_job() == {"cat/a": "cat", "cat/b": "cat"}
    agent.compute("second")
    assert agent.job() is None, "what the first payload has more than the second is two images"
    agent.put(a="cat/1", b="dog/2", c="dog/3", d="bird/4")
    agent.scan()
    assert agent.messages()[-1] == Withdrawal(
        key=making.part_key(), revision=2, reason=counting.RELABELLED
    )
    assert agent.job() is None
    agent.put(a="cat/1", b="cat/2", c="dog/3", d="dog/4")
    agent.scan()
    assert set(agent.contents_of_job()) == {"cat/a", "cat/b", "dog/c", "dog/d"}
