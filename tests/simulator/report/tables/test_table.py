"""Columns made from numbers by seed and stage."""

import numpy as np
import pytest

from fleetledger.simulator.report.tables.table import (
    TableColumn,
    counts,
    from_columns,
    points,
    quantities,
    shares,
    stage_column,
)


def test_shares_are_in_percent_with_the_deviation_over_seeds():
    column = shares("accuracy", np.array([[0.5, np.nan], [0.6, np.nan]]))
    assert column == TableColumn("accuracy, %", ("55.00 ± 7.07", "–"))
    assert points("loss", np.array([[0.5]])) == TableColumn("loss, points", ("50.00",))


def test_quantities_of_a_column_share_the_unit_of_the_largest():
    column = quantities("up", np.array([[1024.0, 4.0 * 1024**2]]), "bytes")
    assert column == TableColumn("up, MiB", ("0.00", "4.00"))
    assert quantities("time", np.array([[3.0], [5.0]]), "seconds").cells == ("4.00",)


def test_counts_are_whole_where_all_seeds_agree():
    assert counts("devices", np.array([[5, 1000], [5, 1001]])).cells == ("5", "1,000.5")


def test_columns_become_rows():
    table = from_columns("t", (stage_column(2), TableColumn("x", ("a", "b"))), "note")
    assert table.head == ("stage", "x")
    assert table.rows == (("1", "a"), ("2", "b"))


def test_columns_of_unequal_length_are_a_mistake():
    with pytest.raises(ValueError, match="zip"):
        from_columns("t", (stage_column(2), TableColumn("x", ("a",))))
