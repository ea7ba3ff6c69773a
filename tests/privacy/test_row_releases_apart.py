"""Releases about a row are counted and priced wherever the party answers from, and whatever interrupts it."""

import os
import signal
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from laconic import VimSgd, load_model, save_model, train
from laconic.core import unwrap
from laconic.deploy import Forked, InProcess, Processes
from laconic.errors import LaconicError
from laconic.inference import parts_of, reach_parts
from laconic.plan import Journalled
from laconic.privacy.accounting import price
from laconic.privacy.mechanisms.gaussian import compose, epsilon_of
from laconic.privacy.mechanisms.outputs import BatchClip, PrivateSteps, RowsOnce

_DELTA, _SIGMA = 1e-5, 4.0
_ONCE = RowsOnce(clip=1.0, sigma=_SIGMA)
_EACH_TIME = PrivateSteps(clip=1.0, sigma=_SIGMA, gradient_sigma=200.0)
_BATCH = BatchClip(clip=1.0, sigma=50.0)


@pytest.fixture(scope="module")
def saved(federation, tmp_path_factory):
    """Models saved by the privacy that they were trained with."""
    found = {}
    for privacy in (_ONCE, _EACH_TIME, _BATCH):
        found[privacy] = tmp_path_factory.mktemp("saved")
        save_model(_train(federation, privacy), found[privacy], ways=())
    return found


@pytest.fixture
def model_of(saved, tmp_path):
    """A copy of a saved model that nobody has used yet."""
    return lambda privacy: Path(copytree(saved[privacy], tmp_path / "model"))


def _train(federation, privacy, runtime=None):
    return train(VimSgd(epochs=1, width=8, privacy=privacy), federation, rows="valid", runtime=runtime)


_RUNTIMES = pytest.mark.parametrize(
    "runtime",
    [lambda _: InProcess(), lambda _: Processes(), lambda _: Forked(), lambda path: Journalled(folder=str(path))],
    ids=["in process", "processes", "forked", "journalled"],
)


def _people(federation, cut, count=6):
    """People whom the run has released rows of, or, in cut "test", has not."""
    table = federation.tables[federation.hub]
    return table.keys[table.cut(cut)].tolist()[:count]


def _predict(folder, federation, people, runtime=InProcess()):  # noqa: B008 (frozen)
    model = load_model(folder)
    with reach_parts(model.part, parts_of(folder), dict(federation.tables), runtime) as carrier:
        return model.ask(federation.tables[federation.hub], carrier, people).predictions


def _paid(folder, federation):
    """What the first peer's part says that its people have paid."""
    return price({"party": parts_of(folder)[federation.peers[0]].ledger}, _DELTA).epsilon


@_RUNTIMES
def test_a_row_is_told_alike_in_every_use_of_a_saved_model(model_of, federation, tmp_path, runtime):
    folder = model_of(_ONCE)
    people = _people(federation, "test")
    first = _predict(folder, federation, people, runtime(tmp_path / "first"))
    again = _predict(folder, federation, people, runtime(tmp_path / "again"))
    assert np.array_equal(first, again)


@_RUNTIMES
def test_fresh_noise_is_paid_for_in_every_use_of_a_saved_model(model_of, federation, tmp_path, runtime):
    folder = model_of(_EACH_TIME)
    for use in "123":
        _predict(folder, federation, _people(federation, "test"), runtime(tmp_path / use))
    expected = epsilon_of(compose([1 / _SIGMA] * 3), _DELTA)
    assert _paid(folder, federation) == pytest.approx(expected, rel=0.05)


class _Broken(LaconicError):
    """Something that ends a use half way, and is nobody's answer."""


@_RUNTIMES
@pytest.mark.parametrize("privacy", [_EACH_TIME, _BATCH], ids=["PrivateSteps", "BatchClip"])
def test_a_use_that_is_broken_off_is_paid_for(model_of, federation, tmp_path, runtime, privacy):
    folder = model_of(privacy)
    before = _paid(folder, federation)
    model = load_model(folder)
    with (
        pytest.raises(_Broken),
        reach_parts(model.part, parts_of(folder), dict(federation.tables), runtime(tmp_path / "run")) as at,
    ):
        model.ask(federation.tables[federation.hub], at, _people(federation, "train"))
        raise _Broken
    assert _paid(folder, federation) > before


@_RUNTIMES
@pytest.mark.parametrize("privacy", [_EACH_TIME, _BATCH], ids=["PrivateSteps", "BatchClip"])
def test_a_use_that_is_killed_is_paid_for(model_of, federation, tmp_path, runtime, privacy):
    folder = model_of(privacy)
    before = _paid(folder, federation)
    child = os.fork()
    if child == 0:
        model = load_model(folder)
        tables = dict(federation.tables)
        with reach_parts(model.part, parts_of(folder), tables, runtime(tmp_path / "run")) as carrier:
            model.ask(federation.tables[federation.hub], carrier, _people(federation, "train"))
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert _paid(folder, federation) > before


@pytest.mark.parametrize(
    "runtime",
    [lambda _: Processes(), lambda _: Forked(), lambda path: Journalled(folder=str(path))],
    ids=["processes", "forked", "journalled"],
)
def test_a_model_of_parties_that_were_apart_knows_what_they_told(federation, tmp_path, runtime):
    apart = _train(federation, _ONCE, runtime(tmp_path / "run"))
    party = apart.others[0]
    before = unwrap(apart.method.give_outputs(party, "train"))[0]
    save_model(apart, tmp_path / "model", ways=())
    assert _paid(tmp_path / "model", federation) == pytest.approx(epsilon_of(2 / _SIGMA, _DELTA), rel=0.02)
    party = parts_of(tmp_path / "model")[party.name].party(party.data)
    assert (unwrap(apart.method.give_outputs(party, "train"))[0] == before).all()
