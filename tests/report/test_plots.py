import builtins
from itertools import pairwise

import pytest

from laconic.errors import MissingExtra
from laconic.report.plots import (
    plot_bytes,
    plot_importance,
    plot_learning,
    plot_predictions,
    plot_rebuilt,
    plot_roc,
    plot_rounds,
    plot_wire,
)
from laconic.tables import Bin, Quality
from tests.report.results import alone, look, pooled, result

RUNS = [alone(), result(), result("SplitNN", 0.97, up=9000, rounds=9, curve=(look(4000, 4, 0.8),)), pooled()]


def test_score_against_bytes_has_every_method_and_the_frontier(tmp_path):
    figure = plot_bytes(RUNS)
    (axis,) = figure.axes
    assert axis.get_xscale() == "log"
    assert {text.get_text() for text in axis.get_legend().get_texts()} == {
        "FedOnce",
        "SplitNN",
        "Centralised",
        "frontier",
    }
    figure.savefig(tmp_path / "bytes.png")


def test_score_against_rounds_draws_looks():
    (axis,) = plot_rounds(RUNS).axes
    assert any(list(line.get_xdata()) == [4] for line in axis.get_lines())


def test_methods_of_one_round_are_not_clipped_and_ticks_do_not_touch():
    figure = plot_rounds([alone(), result(), pooled()])
    (axis,) = figure.axes
    low, high = axis.get_xlim()
    assert low < 0.7 and high > 1.4
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axis.get_xticklabels() if label.get_text()]
    assert boxes and all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_each_federation_has_a_panel():
    assert len(plot_bytes([result(), result(data={"name": "others"})]).axes) == 2


def test_importance_is_drawn_where_known():
    figure = plot_importance([result(importance={"heads": {"shop": 1.0}, "shapley": {"shop": 0.3}})])
    assert [axis.get_title() for axis in figure.axes] == ["length of its head", "Shapley value on training rows"]
    with pytest.raises(ValueError, match="no result says"):
        plot_importance([result()])


def test_the_wire_is_drawn_by_party_and_step():
    (axis,) = plot_wire(result()).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["shop, fit: send"]


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"laconic-fl\[plots\]"):
        plot_wire(result())


def test_curves_of_predictions_are_drawn_where_there_are_some():
    quality = Quality(
        roc=((0.0, 0.0), (0.1, 0.8), (1.0, 1.0)),
        bins=(Bin(predicted=0.2, true=0.1, low=0.0, high=1.0, rows=50),),
    )
    runs = [result(quality=quality, curve=(look(100, 1, 0.6), look(900, 4, 0.9)))]
    for plot, across in ((plot_roc, "negative"), (plot_predictions, "predicted"), (plot_learning, "rounds")):
        (axis,) = plot(runs).axes
        assert across in axis.get_xlabel()
        with pytest.raises(ValueError, match="no r"):
            plot([result()])
    with pytest.raises(ValueError, match="leakage was not measured"):
        plot_rebuilt(runs)
