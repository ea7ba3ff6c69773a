"""What a width gives away is found by attack, and grows with it."""

import numpy as np
import pytest

from laconic import Equal, FedOnce, deal, load
from laconic.audit import LinearAttacker, compare_widths, rebuild_columns
from laconic.errors import PlanError
from laconic.learn import Boosted, Pca, Sgd
from laconic.testing import small_federation

QUICK = Boosted(trees=5)


def test_columns_are_rebuilt_from_a_turned_copy_and_not_from_noise():
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((600, 4))
    turned = columns @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    assert rebuild_columns(turned, columns, 200, rng).min() > 0.99
    assert rebuild_columns(rng.standard_normal((600, 4)), columns, 200, rng).max() < 0.1


def test_a_column_sent_by_rank_is_rebuilt_although_no_line_leads_to_it():
    rng = np.random.default_rng(0)
    ranks = rng.random((1000, 1))
    column = (ranks * 6).round() % 3  # many turns
    by_line = rebuild_columns(ranks, column, 300, rng, (LinearAttacker(),))
    assert by_line.max() < 0.1
    assert rebuild_columns(ranks, column, 300, rng).min() > 0.9


def test_a_column_that_does_not_vary_is_left_out():
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.standard_normal(100), np.ones(100)])
    assert rebuild_columns(columns, columns, 50, rng).shape == (1,)


def test_wider_costs_more_bytes_and_gives_more_away():
    method = FedOnce(encoder=Pca(), head=QUICK)
    alone, one, two, every, itself = compare_widths(method, small_federation("binary"), widths=(1, 2), known=40)
    assert (alone.row_bytes, alone.rebuilt) == (0, {})
    assert [one.row_bytes, two.row_bytes] == [4, 8]
    assert one.mean_rebuilt < two.mean_rebuilt < every.mean_rebuilt
    assert every.mean_rebuilt > 0.99
    assert itself.words == "as it is set"
    assert {found.score.metric for found in (alone, one, two, every, itself)} == {alone.score.metric}


def test_more_exchanges_and_too_few_validation_rows_are_refused():
    few = deal(load("breast_cancer"), Equal(parties=3), valid=0.02)
    with pytest.raises(PlanError, match=r"fewer than 20; raise data\.valid"):
        compare_widths(FedOnce(), few)
    with pytest.raises(PlanError, match="leave out more"):
        compare_widths(FedOnce(more=Sgd(epochs=1)), small_federation("binary"))
