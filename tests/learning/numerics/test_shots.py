"""Images that look alike are one shot, and the centre is that of the camera."""

import json

import numpy as np

from fleetledger.learning.numerics.shots import (
    BITS,
    FIRST,
    KEPT,
    LAST,
    NEAR,
    Shots,
    add_images,
    centred_by,
    projected,
)

WIDTH = 300


def things(count: int, seed: int) -> np.ndarray:
    """Features of things that have nothing in common but what all pictures of the camera have."""
    common = 5 + np.random.default_rng(0).normal(size=WIDTH)
    return common + np.random.default_rng(seed).normal(size=(count, WIDTH))


def frames(thing: np.ndarray, count: int, seed: int, apart: float = 0.3) -> np.ndarray:
    return thing + apart * np.random.default_rng(seed).normal(size=(count, WIDTH))


def centred() -> Shots:
    return centred_by(Shots("backbone"), projected(things(200, 1)))


def test_bits_apart_are_the_angle_between_centred_features() -> None:
    """sign(r a) != sign(r b) with probability angle / pi, for a random r."""
    a, b = np.random.default_rng(1).normal(size=(2, WIDTH))
    for share in (0.2, 0.6, 1.0):
        other = a + share * b
        signs = projected(np.stack([a, other])) > 0
        angle = np.arccos(a @ other / np.linalg.norm(a) / np.linalg.norm(other))
        assert abs((signs[0] != signs[1]).mean() - angle / np.pi) < 3 * 0.5 / BITS**0.5


def test_frames_of_one_thing_are_one_shot_and_another_thing_begins_one() -> None:
    first, second = things(2, 5)
    stream = np.concatenate([frames(first, 10, 1), frames(second, 10, 2), frames(first, 10, 3)])
    shots, begins = add_images(centred(), projected(stream))
    assert [number for number, begun in enumerate(begins) if begun] == [0, 10]
    assert len(shots.leaders) == 2
    one_by_one, found = centred(), []
    for image in stream:
        one_by_one, begun = add_images(one_by_one, projected(image[None]))
        found += begun
    assert found == begins
    assert one_by_one.leaders == shots.leaders


def test_a_slow_leader_search_finds_the_same_shots() -> None:
    draw = np.random.default_rng(6)
    many = things(60, 7)
    stream = np.concatenate([frames(many[draw.integers(60)], 1, n) for n in range(300)])
    shots, begins = add_images(Shots("b", images=LAST, centre=centred().centre), projected(stream))
    bits = (projected(stream) > np.array(shots.centre, np.float32)).astype(int)
    leaders, expected = [], []
    for row in bits:
        apart = [int((row != leader).sum()) for leader in leaders]
        near = int(np.argmin(apart)) if apart and min(apart) <= NEAR else None
        expected.append(near is None)
        leaders = [row if near is None else leaders.pop(near), *leaders][:KEPT]
    assert begins == expected
    assert 60 < sum(begins) < 300, "with more things than are remembered, some begin again"


def test_without_a_centre_of_the_camera_all_its_images_are_alike() -> None:
    few = things(30, 8)
    elsewhere = Shots("b", images=LAST, centre=(0.0,) * BITS)
    assert sum(add_images(elsewhere, projected(few))[1]) < 5
    assert sum(add_images(centred(), projected(few))[1]) == 30


def test_the_first_images_give_the_centre_where_none_are_held_out() -> None:
    shots = Shots("b")
    shots, begins = add_images(shots, projected(things(FIRST - 1, 2)))
    assert not any(begins)
    assert not shots.centre
    shots, begins = add_images(shots, projected(things(30, 3)))
    assert all(begins), "this batch completes the centre and is looked at with it"
    mean = np.concatenate([projected(things(FIRST - 1, 2)), projected(things(30, 3))]).mean(axis=0)
    assert np.allclose(shots.centre, mean, atol=1e-3)


def test_the_centre_follows_the_cameras_own_images_and_then_stays() -> None:
    held_out = things(200, 1) + 3
    shots = centred_by(Shots("b"), projected(held_out))
    assert np.allclose(shots.centre, projected(held_out).mean(axis=0), atol=1e-3)
    assert centred_by(shots, projected(things(9, 2))) == shots, "once for a backbone"
    seen = [shots.centre]
    for number in range(LAST + 100):
        shots, _ = add_images(shots, projected(things(1, 100 + number)))
        seen += [shots.centre] if shots.centre != seen[-1] else []
    assert len(seen) == 4, "held out, and at twice, four and eight times as many"
    apart = [np.abs(np.array(one) - projected(things(2000, 3)).mean(axis=0)).mean() for one in seen]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 0.2 * apart[0]
    assert shots.images == LAST


def test_features_that_are_no_numbers_are_alone_and_leave_nothing() -> None:
    broken = things(3, 4)
    broken[1, 7] = np.nan
    shots, begins = add_images(centred(), projected(broken))
    assert begins == [True, True, True]
    assert len(shots.leaders) == 2
    assert np.isfinite(shots.mean).all()
    assert np.isfinite(centred_by(Shots("b"), projected(broken)).centre).all()


def test_what_is_remembered_is_bounded_and_survives_json() -> None:
    shots, _ = add_images(centred(), projected(things(500, 9)))
    assert len(shots.leaders) == KEPT
    text = json.dumps(shots.to_plain())
    assert len(text) < 7000
    assert Shots.from_plain(json.loads(text)) == shots
    assert Shots.from_plain(Shots().to_plain()) == Shots()
