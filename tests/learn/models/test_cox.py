"""Cox's model of rows in one place: Efron's likelihood by hand, and by an optimiser that knows nothing of it."""

import numpy as np
import pytest
from scipy.optimize import minimize

from laconic.learn import LinearModel
from laconic.learn.models.cox import Hazard, event_times, fit_local, risk_sums, step_of
from laconic.tables import LabelScale, Task, events_of
from laconic.testing import drawn_times

DAYS = Task(kind="survival", label="days", event="died", scale=LabelScale(40.0, 10.0))


def test_the_likelihood_of_two_ties_is_efrons():
    # Two of four rows of risk 1 have the event together: 1/4, then 1/(4 - 1/2 of 2). Columns: 2 - (4/4 + 3/3) = 0.
    x, y = np.array([[2.0], [0.0], [1.0], [1.0]]), np.array([1.0, 1.0, -2.0, -2.0])
    times, counts, columns = event_times(x, y)
    found = step_of(risk_sums(x, y, np.zeros(1), times, Hazard(np.zeros(1), np.zeros(1))), counts, columns, np.zeros(1))
    assert found.likelihood == pytest.approx(-np.log(12))
    assert found.slope == pytest.approx([0.0])
    assert found.hazard.all_rows == pytest.approx([1 / 4 + 1 / 3])


def naive(beta, x, y, penalty):
    """The negative penalised likelihood, written out event by event."""
    risk, total = x @ beta, -penalty / 2 * beta @ beta
    for time in np.unique(y[events_of(y)]):
        tied, there = (y == time) & events_of(y), np.abs(y) >= time
        total += risk[tied].sum()
        for turn in range(tied.sum()):
            total -= np.log(np.exp(risk[there]).sum() - turn / tied.sum() * np.exp(risk[tied]).sum())
    return -total


def test_newtons_method_finds_the_most_likely_model():
    drawn = drawn_times(rows=120, columns=3)
    y = np.sign(drawn.y) * np.ceil(np.abs(drawn.y) / 20)
    found = minimize(naive, np.zeros(3), (drawn.raw, y, 5.0), method="BFGS", options={"gtol": 1e-8})
    assert fit_local(drawn.raw, y, 5.0).beta == pytest.approx(found.x, abs=1e-6)


def test_the_linear_head_is_coxs_model():
    drawn = drawn_times()
    model = LinearModel(penalty=2.0).fit(DAYS, drawn.raw, drawn.y, np.random.default_rng(0))
    assert model["coefficients"][0] == pytest.approx(fit_local(drawn.raw, drawn.y, 2.0).beta)
