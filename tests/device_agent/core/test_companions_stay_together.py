"""The difference of payloads tells no fewer images than the minimum."""

import random
from collections import Counter

import pytest

from fleetledger.device_agent.core.companions import told_in, with_companions
from fleetledger.device_agent.core.records import ImageToCount
from fleetledger.schemas.contributions import Contribution, Withdrawal
from fleetledger.schemas.values import ClassName
from tests.device_agent import making
from tests.device_agent.core.driving import Driven

LEAST = 3


def image(number: int, name: str, told: str = "") -> ImageToCount:
    digest = making.digest(str(number))
    return ImageToCount(f"{name}/{number}", digest, ClassName(name), told)


def body(part: int) -> Contribution:
    return Contribution(
        key=making.part_key(1, part),
        revision=0,
        payload_kind="statistics",
        method="stsa",
        lineage=making.digest("frozen"),
        payload=making.digest("payload"),
        payload_bytes=1,
        samples={ClassName("cat"): 1},
    )


@pytest.mark.parametrize("seed", range(100))
def test_images_with_equal_weights_in_every_sum_are_never_fewer_than_the_minimum(seed):
    """Law: of the sums of any payloads, images with the same weights are at least `LEAST`.

    Weights of an image in all sums are its column; combinations of sums give equal columns equal
    weight, so a combination that tells of an image tells of as many others.
    """
    chance = random.Random(seed)
    told: dict = {}
    columns: dict = {number: [] for number in range(40)}
    for part in range(12):
        wanted = chance.sample(range(40), chance.randrange(1, 40))
        asked = [
            image(
                number,
                "cat" if chance.random() < 0.9 else "dog",
                told.get(making.digest(str(number)), ""),
            )
            for number in wanted
        ]
        given = {one.digest: one for one in with_companions(asked, told, LEAST)}
        for number, column in columns.items():
            one = given.get(making.digest(str(number)))
            column.append(one.class_name if one else None)
        for digest, one in given.items():
            told[digest] = told_in(body(part), one.told, one.class_name, 0)
    alike = Counter(tuple(column) for column in columns.values() if any(column))
    assert min(alike.values(), default=LEAST) >= LEAST
    assert alike, "nothing was ever given"


def test_without_a_minimum_everything_goes():
    images = [image(1, "cat"), image(2, "dog", "before")]
    assert with_companions(images, {images[1].digest: "before"}, 1) == tuple(images)


def test_of_two_classes_of_companions_the_larger_may_stay():
    told = {making.digest(str(number)): "before" for number in range(8)}
    moved = [image(0, "dog", "before"), *(image(n, "cat", "before") for n in range(1, 8))]
    kept = with_companions(moved, told, LEAST)
    assert [one.path for one in kept] == [f"cat/{n}" for n in range(1, 6)]


def test_one_relabelled_image_leaves_its_part_with_another_one(agent: Driven) -> None:
    agent.put(**{f"i{n}": f"cat/{n}" for n in range(5)}, d="dog/8", e="dog/9")
    agent.connect()
    agent.assign("cat", "dog", least=2)
    agent.compute("first")
    agent.receipt(making.accepted("contribution", making.part_key()))
    agent.messages()
    agent.put(i0="dog/0", **{f"i{n}": f"cat/{n}" for n in range(1, 5)}, d="dog/8", e="dog/9")
    agent.scan()
    assert Counter(agent.contents_of_job().values()) == {"cat": 3, "dog": 2}
    agent.compute("second")
    (given,) = agent.messages()
    assert (given.key, given.revision) == (making.part_key(), 1)
    agent.receipt(making.accepted("contribution", making.part_key(), revision=1))
    agent.scan()
    assert agent.job() is None, "the two that are out wait"


def test_two_relabelled_images_are_counted_under_their_class(agent: Driven) -> None:
    agent.put(**{f"i{n}": f"cat/{n}" for n in range(5)})
    agent.connect()
    agent.assign("cat", "dog", least=2)
    agent.compute("first")
    agent.put(i0="dog/0", i1="dog/1", **{f"i{n}": f"cat/{n}" for n in range(2, 5)})
    agent.scan()
    assert Counter(agent.contents_of_job().values()) == {"cat": 3, "dog": 2}


def test_a_part_of_which_nothing_may_stay_is_withdrawn_and_its_images_wait(agent: Driven) -> None:
    agent.put(a="cat/1", b="cat/2")
    agent.connect()
    agent.assign("cat", "dog", least=2)
    agent.compute("first")
    agent.receipt(making.accepted("contribution", making.part_key()))
    agent.messages()
    agent.put(a="dog/1", b="cat/2")
    agent.scan()
    given = [one for one in agent.messages() if isinstance(one, Withdrawal)]
    assert [one.key for one in given] == [making.part_key()]
    agent.receipt(making.accepted("withdrawal", making.part_key(), revision=1))
    agent.put(a="dog/1", b="cat/2", c="cat/3", d="cat/4")
    agent.scan()
    assert set(agent.contents_of_job()) == {"cat/c", "cat/d"}


def test_what_was_told_is_known_after_a_restart(agent: Driven) -> None:
    agent.put(**{f"i{n}": f"cat/{n}" for n in range(3)})
    agent.connect()
    agent.assign("cat", "dog", least=2)
    agent.compute("first")
    before = agent.state.records.told
    agent.kill()
    assert agent.state.records.told == before
    assert len(set(before[making.digest("frozen")].values())) == 1


def test_images_summed_in_several_groups_have_companions_in_their_own(agent: Driven) -> None:
    images = [image(n, "cat") for n in range(4)]
    names = [told_in(body(0), one.told, one.class_name, n % 2) for n, one in enumerate(images)]
    assert names[0] == names[2] != names[1] == names[3]
