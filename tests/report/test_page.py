import json
import re

import msgspec
import pytest

from laconic import Result
from laconic.deploy import Leakage, RebuiltColumn, Tuning
from laconic.report.page import render_page
from laconic.tables import Bin, Quality, Score, Task
from tests.report.results import GAUSSIAN, alone, look, paid, pooled, release, result


def data_of(page):
    found = re.search(r'<script type="application/json" id="charts-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def text_of(page):
    body = re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_a_page_says_which_method_to_use_and_what_it_costs():
    page = render_page([alone(0.9), result(score=0.98), result("SplitNN", 0.981, up=143_000, rounds=80), pooled(1.0)])
    text = text_of(page)
    assert "FedOnce: use this AUC 0.9800 1.4 kB in 1 round, then 32 B per prediction" in text
    assert "gives away, unprotected: a few numbers a row" in text
    assert "bank alone AUC 0.9000 sends nothing to learn" in text


def test_a_page_fetches_nothing():
    page = render_page([result()])
    assert "default-src 'none'" in page
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    assert not re.search(r"@import|url\((?!data:)", page.partition("<script")[0])


def test_what_parties_are_called_cannot_run_as_code():
    bad = "</script><img src=x onerror=alert(1)>"
    run = result(parties=(bad, "shop"), hub=bad, releases=(release(bad, words=bad),), data={"name": bad})
    page = render_page([run, result("SplitNN", parties=(bad, "shop"), hub=bad, data={"name": bad})])
    assert "<img src=x" not in page
    assert data_of(page)[0]["points"]


def test_charts_get_points_curves_and_the_frontier():
    run = result("SplitNN", 0.97, up=9000, rounds=9, curve=(look(0, 0, 0.5), look(4000, 4, 0.8)))
    (chart,) = data_of(render_page([alone(0.9), result(score=0.98), run]))
    assert [point["label"] for point in chart["points"]] == ["FedOnce", "SplitNN"]
    assert chart["curves"] == [{"label": "SplitNN", "bytes": 4000, "rounds": 4, "score": 0.8}]
    assert [one["label"] for one in chart["frontier"]] == ["FedOnce"]
    assert chart["alone"]["label"] == "bank alone"


def test_party_importance_is_shown_where_known():
    known = result(importance={"shapley": {"bank": 0.1, "shop": 0.3}})
    page = render_page([known])
    assert data_of(page)[0]["importance"][1]["text"] == "0.3000"
    assert "How much each party matters" in page
    assert "How much each party matters" not in render_page([result()])


def test_an_epsilon_stands_beside_its_unit_its_assumptions_and_what_it_leaves_open():
    run = result(privacy=paid(secure=False), releases=(release(noise=GAUSSIAN), release(words="its ids")))
    text = text_of(render_page([run]))
    for words in ("2 at delta 1e-05, by Pld", "one row", "their losses add", "not covered shop: its ids", "seeded"):
        assert words in text


def test_no_bound_is_said_where_a_proof_fails():
    run = result(privacy=paid(epsilon=None, unproven=("rows trade targets",)), releases=(release(noise=GAUSSIAN),))
    text = text_of(render_page([run]))
    assert "no bound: a proof does not hold" in text
    assert "not proven rows trade targets" in text


def test_the_wire_says_who_sent_what_to_whom_in_the_steps_words():
    text = text_of(render_page([result()]))
    assert "fit shop bank send a few numbers a row 1 1.4 kB" in text
    assert "fit bank shop send the question itself: nothing made from rows 1 30 B" in text


def test_settings_seeds_versions_and_the_command_are_there():
    run = result()
    key = json.dumps(run.method, sort_keys=True)
    text = text_of(render_page([run], {key: "laconic run FedOnce --data people"}))
    assert "laconic run FedOnce --data people" in text
    assert "trainer.lr 0.001" in text
    assert "laconic 0.1.0" in text


def test_a_page_says_what_tuned_arms_were_allowed_and_chose():
    said = {"given": {"type": "FedOnce"}, "trials_allowed": 4, "seconds_allowed": 30.0, "trials": 3, "of": 12}
    said |= {"seconds": 1.5, "bytes": 700, "chosen": {"encoder.dim": 8}, "valid": Score("auc", 0.9), "capped": ""}
    text = text_of(render_page([alone(0.9), msgspec.structs.replace(result(), tuning=Tuning(**said))]))
    assert "allowed with each seed: 4 trials and 30 processor seconds." in text
    assert "seed 0: 3 of 12 settings, 1.50 s, 700 B sent; chose encoder.dim=8" in text


def test_several_federations_share_a_page():
    page = render_page([result(), result(data={"name": "others"})])
    assert len(data_of(page)) == 2
    assert 'href="#part1"' in page


def test_nothing_to_report_is_an_error():
    with pytest.raises(ValueError, match="no results"):
        render_page([])


def test_curves_bins_and_rebuilt_columns_are_drawn_with_their_numbers():
    bins = (
        Bin(predicted=0.2, true=0.1, low=0.0, high=1.0, rows=50),
        Bin(predicted=0.8, true=0.9, low=0, high=1, rows=50),
    )
    quality = Quality(roc=((0.0, 0.0), (0.1, 0.8), (1.0, 1.0)), bins=bins)
    column = RebuiltColumn(name="<b>age</b>", r2=0.91, bins=bins)
    leak = Leakage(party="shop", step="send", rows=400, known=10, mean=0.63, best=0.91, columns=(column,))
    looks = (look(100, 1, 0.6), look(900, 4, 0.9))
    page = render_page([alone(quality=quality), result(quality=quality, leakage=(leak,), curve=looks)])
    for key in ("roc", "bins", "learning", "rebuilt"):
        assert page.count(f'data-chart="{key}"') == 1, key
    text = text_of(page)
    assert "FedOnce (area 0.8500)" in text and "0.8000 0.9000 50" in text
    assert "&lt;b&gt;age&lt;/b&gt; 0.91" in text and "<b>age</b>" not in page
    assert "color-mix(in srgb, var(--c6) 63%, var(--good))" in page and "columns rebuilt (R2)" in text
    assert page.count("<figure>") == page.count("<summary>The numbers") + 1  # Two charts share one table.


def test_a_result_of_before_has_no_curves_and_still_has_a_page():
    record = json.loads(result().to_json())
    del record["quality"]
    assert 'data-chart="roc"' not in render_page([msgspec.convert(record, Result)])


def test_numbers_are_shown_predicted_against_true():
    bins = (Bin(predicted=20.0, true=21.0, low=15.0, high=30.0, rows=10),)
    task = Task(kind="regression", label="price")
    page = render_page([result(task=task, score=3.0, quality=Quality(bins=bins))])
    assert "Predicted against true" in page and "15.0000 to 30.0000" in text_of(page)
