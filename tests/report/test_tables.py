from io import StringIO

import msgspec
import pytest
from rich.console import Console

from laconic import FedOnce, Result
from laconic.core import Noise, Traffic
from laconic.deploy import Absence, Release, Tuning, code_digest
from laconic.report.comparisons import comparisons_of
from laconic.report.tables import show_arms, show_comparison, show_result, show_rows
from laconic.report.words import figure, in_bytes, in_seconds, rows_of, rows_used
from laconic.tables import Score, Task


def release(party, noise=None, words="a few numbers a row"):
    covered = "open release: not protected" if noise is None else noise.caveat
    said = {"words": words, "form": "", "covered": covered, "noise": noise}
    return Release(party=party, to="hub", phase="fit", step="send", times=1, bytes=700, **said)


def result(**changes):
    values = {
        "method": {"type": "FedOnce"},
        "data": {"name": "people", "rows": {"train": 400, "test": 100}, "own": {"bank": 0, "shop": 7}},
        "parties": ("bank", "shop", "insurer"),
        "hub": "bank",
        "seed": 0,
        "task": Task(kind="binary", classes=("no", "yes"), label="churned"),
        "score": Score("auc", 0.98765),
        "metrics": {"accuracy": 0.9, "auc": 0.98765},
        "align": Traffic(),
        "fit": Traffic(bytes_up=1400, bytes_down=30, rounds=1, uploads=1, seconds=1.5),
        "look": Traffic(),
        "final": Traffic(bytes_up=10, rounds=1),
        "curve": (),
        "releases": (release("shop"), release("insurer")),
        "wire": (),
        "absences": (),
        "predictions": "",
        "stopped": "finished",
        "versions": {},
    }
    return Result(**values | changes)


def printed(what):
    console = Console(width=110, file=StringIO())
    console.print(what)
    return console.file.getvalue()


def test_a_result_shows_its_score_its_cost_and_its_rows():
    text = printed(show_result(result()))
    assert "FedOnce on people: AUC 0.9877" in text
    assert "1.4 kB" in text
    assert "train 400, test 100; rows of one party only: shop 7" in text


def test_an_open_release_is_said_plainly_once_for_parties_that_made_the_same():
    text = printed(show_result(result()))
    assert "shop, insurer" in text
    assert text.count("open release: nothing protects it") == 1


def test_a_noised_release_says_what_its_noise_leaves_open():
    noise = Noise(mechanism="gaussian", scale=0.5, sensitivity=None, unit="row", caveat="no bound on any row")
    text = printed(show_result(result(releases=(release("shop", noise),))))
    assert "gaussian noise of scale 0.5; no bound on any row" in text
    assert "open release" not in text


def test_a_run_without_releases_says_so():
    assert "Nothing made from rows or labels left any party" in printed(show_result(result(releases=())))


def test_absent_parties_and_an_early_end_are_told():
    gone = tuple(Absence(phase="fit", round=number, step="send", party="shop") for number in (1, 2))
    text = printed(show_result(result(absences=gone, stopped="byte budget")))
    assert "Absent: shop did not answer 2 of the questions" in text
    assert "Fitting ended early: byte budget" in text


def test_square_brackets_in_names_are_shown_as_they_are():
    assert "people [old]" in printed(show_result(result(data={"name": "people [old]"})))


def test_a_comparison_has_a_line_a_run():
    text = printed(show_comparison({"one [exchange]": result(), "alone": result(metrics={"accuracy": 0.5})}))
    assert "one [exchange]" in text
    assert "0.5000" in text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3_210_000, "3.2 MB")])
def test_bytes_are_shown_in_a_fitting_unit(count, text):
    assert in_bytes(count) == text


def test_figures_are_short():
    assert (figure(0.123456), figure(12345.6)) == ("0.1235", "12,345.6")
    assert (in_seconds(0.123), in_seconds(1234.5)) == ("0.12 s", "1,234 s")


def test_rows_are_told_by_their_matching_where_there_was_one():
    alignment = {"shared": 3, "rows": {"bank": 5, "shop": 4}, "cuts": {"train": 2, "test": 1}}
    found = rows_used(result(data={"alignment": alignment, "fingerprint": "0123456789"}))
    assert found == "3 shared by all parties (train 2, test 1), fingerprint 01234567"


def test_lost_rows_are_counted_with_the_reason():
    alignment = {"shared": 3, "rows": {"bank": 5, "shop": 4}, "some": {"bank": 1, "shop": 0}, "cuts": {}}
    data = {"alignment": alignment, "uses": ["train"], "left_out": {"bank": {"same id as an earlier row": 2}}}
    source, shared, used, lost = rows_of(result(data=data), "bank")
    assert (source, shared, used) == (7, 3, 3)
    assert lost == {
        "same id as an earlier row": 2,
        "only some parties have, and FedOnce uses rows that all share": 1,
        "nobody else has, and FedOnce uses rows that all share": 1,
    }
    assert "same id as an earlier row" in printed(show_result(result(data=data)))


def test_rows_that_not_all_share_are_used_by_methods_that_say_so():
    data = {"alignment": {"shared": 3, "rows": {"bank": 5}, "cuts": {}}, "uses": ["train", "own"]}
    assert rows_of(result(data=data), "bank") == (5, 3, 5, {})


def test_own_rows_of_the_label_holder_are_said_to_be_used_without_their_labels():
    alignment = {"shared": 3, "rows": {"bank": 5, "shop": 4}, "cuts": {}, "labels": {"party": "bank", "columns": 2}}
    data = {"alignment": alignment, "uses": ["train", "own"]}
    (*_, why) = show_rows(result(method={"type": "OneShot"}, data=data)).columns
    bank, shop = map(str, why.cells)
    assert bank == "2 used without their labels: OneShot takes labels of rows that all share"
    assert shop == "-"


def test_own_rows_of_a_label_holder_without_columns_are_lost():
    alignment = {"shared": 3, "rows": {"bank": 5, "shop": 4}, "cuts": {}, "labels": {"party": "bank", "columns": 0}}
    found = result(data={"alignment": alignment, "uses": ["train", "own"]})
    lost = {"not every party has, and bank has no columns of its own to learn from there": 2}
    assert rows_of(found, "bank") == (5, 3, 3, lost)
    assert rows_of(found, "shop") == (4, 3, 4, {})


def test_parties_with_a_model_each_are_shown_one_by_one():
    each = {"bank": {"auc": 0.71}, "shop": {"auc": 0.89}}
    said = printed(show_result(result(by_party=each, metrics={"auc": 0.8}, score=Score("auc", 0.8))))
    assert "Each party alone" in said
    assert "0.7100" in said
    assert "0.8900" in said


def tuned(kind, trials=4, **changes):
    said = {"given": {"type": kind}, "trials_allowed": trials, "seconds_allowed": 30.0, "trials": 3, "of": 12}
    said |= {"seconds": 1.5, "bytes": 700, "chosen": {"trainer.lr": 0.01}, "valid": Score("auc", 0.9), "capped": ""}
    return result(method={"type": kind, "trainer": {"lr": 0.01}}, tuning=Tuning(**said | changes))


def test_tuned_arms_show_one_allowance_and_what_each_used_and_chose():
    words = printed(show_arms([tuned("Solo"), tuned("FedOnce", capped="its seconds ended", chosen={})]))
    assert "Allowed to each arm with each seed: 4 trials and 30 processor seconds." in words
    assert "3 of 12 settings, 1.50 s, 700 B sent; chose trainer.lr=0.01" in words
    assert "kept its settings; capped: its seconds ended" in words
    assert "UNEQUAL" not in words


def test_arms_with_different_allowances_are_not_shown_as_equals():
    for other in (tuned("FedOnce", trials=5), result(method={"type": "FedOnce"})):
        assert "UNEQUAL: the arms were not allowed the same tuning" in printed(show_arms([tuned("Solo"), other]))


def test_seeds_that_chose_different_settings_are_one_arm():
    runs = [tuned("Solo"), msgspec.structs.replace(tuned("Solo", chosen={}), seed=1, method={"type": "Solo"})]
    assert "Solo, seed 0" in printed(show_arms(runs))
    assert [len(arm.results) for part in comparisons_of(runs) for arm in part.arms] == [2]


def test_a_run_by_older_code_is_marked():
    for code, stars in ((code_digest(FedOnce), False), ("0" * 16, True)):
        assert ("* by older code" in printed(show_arms([result(versions={"code": code})]))) is stars
