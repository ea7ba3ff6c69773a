"""The number of threads in the environment changes no bit of what is fitted, sent or predicted.

Run as a program, this file prints one digest for each way to fit or predict; the test compares what it prints with 1, 2
and 4 threads in the environment.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from laconic import (
    Centralised,
    Equal,
    FedAvg,
    FederatedClassifier,
    FedOnce,
    Linear,
    SplitNN,
    add_party,
    deal,
    deal_rows,
    importance,
    load,
    load_model,
    save_model,
    simulate,
    train,
)
from laconic.audit import audit
from laconic.core import Party, encode
from laconic.data import Iid
from laconic.deploy import Forked, reach
from laconic.inference import Refit, Zeros, parts_of, reach_parts
from laconic.learn import Boosted, Joint, Mlp, Pca, Sgd
from laconic.methods import MixedRows
from laconic.methods.vertical.rap import cluster, nearest
from laconic.privacy import DpPca, DpSgd
from laconic.testing import open_peers, small_federation
from laconic.threads import limit_threads, threads_now

QUICK = Sgd(epochs=3, lr=3e-3)
ROOT = Path(__file__).parent.parent
COUNTS = (1, 2, 4)
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def test_no_bit_depends_on_the_number_of_threads_in_the_environment():
    one, *others = (_printed_with(count) for count in COUNTS)
    for count, other in zip(COUNTS[1:], others, strict=True):
        assert other.keys() == one.keys()
        differing = [name for name in one if other[name] != one[name]]
        assert not differing, f"{count} threads give other bits than 1 in: {', '.join(differing)}"


def test_a_block_takes_back_what_it_set_and_one_within_it_keeps_its_limit():
    with limit_threads(3):
        before = torch.get_num_threads()
        with limit_threads(2), limit_threads():
            assert (threads_now(), torch.get_num_threads()) == (2, 2)
        assert (threads_now(), torch.get_num_threads()) == (3, before)
    assert threads_now() is None


def test_a_library_that_is_loaded_within_a_block_is_limited_too():
    code = (
        "import sys\n"
        "from laconic.threads import limit_threads\n"
        "from threadpoolctl import threadpool_info\n"
        "with limit_threads():\n"
        "    assert 'sklearn' not in sys.modules\n"
        "    import sklearn.cluster\n"
        "    with limit_threads():\n"
        "        print({one['num_threads'] for one in threadpool_info()})\n"
    )
    assert _run("-c", code, count=4).strip() == "{1}"


def test_blas_stays_limited_until_the_last_thread_has_left_its_block():
    code = (
        "import numpy\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from threading import Event\n"
        "from laconic.threads import limit_threads\n"
        "from threadpoolctl import threadpool_info\n"
        "entered, left = Event(), Event()\n"
        "def first():\n"
        "    with limit_threads():\n"
        "        entered.wait()\n"
        "def second():\n"
        "    with limit_threads():\n"
        "        entered.set()\n"
        "        left.wait()\n"
        "        return now()\n"
        "def now():\n"
        "    return [one['num_threads'] for one in threadpool_info() if one['user_api'] == 'blas']\n"
        "before = now()\n"
        "with ThreadPoolExecutor(2) as pool:\n"
        "    one, other = pool.submit(first), pool.submit(second)\n"
        "    one.result()\n"
        "    left.set()\n"
        "    print(set(other.result()), now() == before)\n"
    )
    assert _run("-c", code, count=2).strip() == "{1} True"


def _printed_with(count):
    return json.loads(_run("-m", "tests.test_thread_counts", count=count))


def _run(*arguments, count):
    environment = os.environ | dict.fromkeys(VARIABLES, str(count))
    found = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(found.stderr)
    return found.stdout


def _digest(value):
    return blake2b(encode(value), digest_size=8).hexdigest()


def _runs():
    """Methods of every kind, by `simulate`: predictions, bytes, and all that left."""
    vertical, rows = deal(load("digits"), Equal(parties=3)), deal_rows(load("digits"), Iid(parties=2))
    private = FedOnce(
        encoder=DpPca(dim=4, sigma=1.0, seeded=True),
        trainer=DpSgd(sigma=1.0, epochs=2, batch=100, lr=1.0, seeded=True),
        head=Joint(head=Mlp(hidden=())),
    )
    methods = {
        "FedOnce": FedOnce(trainer=QUICK),
        "private FedOnce": private,
        "SplitNN": SplitNN(trainer=QUICK),
        "Linear": Linear(),
        "Centralised": Centralised(trainer=QUICK),
        "FedAvg": FedAvg(trainer=QUICK, exchanges=2),
    }
    if find_spec("xgboost"):
        methods["FedOnce with trees"] = FedOnce(encoder=Pca(dim=4), head=Boosted(trees=5))
    for name, method in methods.items():
        result = simulate(method, rows if method.kind == "horizontal" else vertical, seed=3)
        yield name, [result.predictions, result.fit.bytes, result.final.bytes, [one.digest for one in result.releases]]
    forked = simulate(methods["FedOnce"], vertical, seed=3, runtime=Forked(workers=2))
    yield "FedOnce, forked", [forked.predictions]


def _uses():
    """All that can be done with a model after training, and what never makes one."""
    federation = small_federation("multiclass")
    trained = train(FedOnce(trainer=QUICK), federation)
    yield "Trained.predict", trained.predict()
    yield "Trained.score", trained.score()
    hub = Party(trained.hub.name, trained.hub.data, 0, dict(trained.hub.memory))
    with open_peers(trained.method, hub, trained.others) as peers:
        yield "Method.predict", trained.method.predict(hub, peers, "train")
        for _ in trained.method.fit(hub, peers):
            pass
        yield "Method.fit", hub.memory["model"]
    found = importance(trained)
    yield "importance", [found.heads, found.noise, found.shapley]
    with TemporaryDirectory() as folder:
        yield from _saved(trained, federation, Path(folder))
    table = load("digits")
    x = np.nan_to_num(table.raw)
    yield "estimator", FederatedClassifier(FedOnce(trainer=QUICK)).fit(x, table.y).predict_proba(x)
    yield "audit", [one.success for one in audit(FedOnce(trainer=QUICK), federation)]
    with reach(MixedRows(), small_federation("multiclass")) as (hub, peers):
        yield "cluster", cluster(MixedRows(), hub, peers, "train", 10)
        yield "nearest", nearest(MixedRows(), peers, "test", "train", 3)[1]


def _saved(trained, federation, folder):
    """What a saved model predicts, with everybody and without, and after it grew."""
    save_model(trained, folder)
    model = load_model(folder)
    rows = {name: table.as_new("test") for name, table in federation.tables.items()}
    own = rows[federation.hub]
    with ExitStack() as until:
        carrier = until.enter_context(reach_parts(model.part, parts_of(folder), rows))
        yield "Model.ask", model.ask(own, carrier, own.keys.tolist(), absent=Zeros()).predictions
    known = model.store.ids_of("valid")
    yield "Model.predict_stored", model.predict_stored(known, absent=Refit()).predictions
    yield "Model.head_for", model.head_for(Refit(), ())
    other = next(table for name, table in federation.tables.items() if name != federation.hub)
    yield "add_party", add_party(model, "newcomer", other)[0].heads


if __name__ == "__main__":
    # MKL and BLAS start no more threads than there are processors; on a small machine they have to be told twice.
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    threadpool_limits(int(os.environ["OMP_NUM_THREADS"]))
    sys.stdout.write(json.dumps({name: _digest(value) for part in (_runs, _uses) for name, value in part()}))
