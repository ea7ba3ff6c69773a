import csv

import pytest

from laconic.cli.demo_runs import run_demo, write_files


@pytest.mark.slow
def test_one_exchange_beats_the_bank_alone_and_comes_near_to_pooling():
    alone, once, split, pooled = (result.metrics["auc"] for result in run_demo().values())
    assert once > alone + 0.03
    assert split > alone + 0.03
    assert abs(pooled - once) < 0.02


def test_the_files_share_some_people_in_different_orders(tmp_path):
    write_files(tmp_path)
    with (tmp_path / "bank.csv").open() as bank, (tmp_path / "shop.csv").open() as shop:
        first, second = ([row["customer"] for row in csv.DictReader(file)] for file in (bank, shop))
    shared = set(first) & set(second)
    assert 300 < len(shared) < len(first)
    assert [one for one in first if one in shared] != [one for one in second if one in shared]
