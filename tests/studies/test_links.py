import pytest

from studies.links import ETHERNET, WIDE_AREA, Link


def test_a_round_costs_its_round_trip_and_its_bytes():
    assert Link("slow", 1000.0, 0.5).seconds(rounds=3, traffic=2000) == pytest.approx(3 * 0.5 + 2.0)


def test_an_epoch_of_split_learning_by_hand():
    # 398 batches and 416.5 MB: 398 x 20 ms + 416.5 MB / 12.5 MB/s over the wide-area link.
    assert WIDE_AREA.seconds(398, 416.5e6) == pytest.approx(7.96 + 33.32)
    assert ETHERNET.seconds(398, 416.5e6) == pytest.approx(0.0398 + 0.04165)


def test_nothing_sent_costs_nothing():
    assert WIDE_AREA.seconds(0, 0) == 0
