"""Pfnm beside its authors' code, on equal nets: what each makes of the same ten nets, at every setting of their grid.

Usage: python -m benchmarks.pfnm --code FOLDER [--data mnist] [--parties 10] [--hidden 100 100] [--orders 10]

FOLDER is a copy of the authors' repository (github.com/IBM/probabilistic-federated-neural-matching), of which
`matching/pfnm.py` is run as it is. Without further passes neither side has any randomness. With passes, nets are
matched anew in a random order, and each side draws its own: so several orders are run, and the table has their mean and
spread.
"""

import argparse
import contextlib
import importlib.util
import io
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from laconic import Dirichlet, Federation, Pfnm, deal_rows, load
from laconic.core import Party, task_of
from laconic.data import HalfTest
from laconic.learn import Mlp, Network, Sgd, predict_model
from laconic.learn.models.clustering import Matching, match_nets
from laconic.threads import limit_threads
from laconic.values import Array, Weights

TRAINER = Sgd(epochs=10, batch=64)
GRID = tuple(product((1.0, 0.1, 0.5), (1.0, 10.0), (1.0, 1e-3, 50.0)))
"""Spread, prior and gamma, 18 in all, as `compute_pdm_matching_multilayer` tries them."""


def main() -> None:
    """Print a table of test accuracy in percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--code", type=Path, required=True, help="a copy of the authors' repository")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--parties", type=int, default=10)
    parser.add_argument("--hidden", type=int, nargs="+", default=[100, 100])
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--passes", type=int, default=5)
    chosen = parser.parse_args()
    theirs = _authors_code(chosen.code)
    cut = Dirichlet(parties=chosen.parties, balanced=True)
    federation = deal_rows(load(chosen.data), cut, reserve=HalfTest(), seed=0)
    with limit_threads(1):
        method = Pfnm(net=Mlp(hidden=tuple(chosen.hidden)), trainer=TRAINER)
        nets, counts = _nets(method, federation)
        score = _scorer(federation)
        rng = np.random.default_rng(0)
        layers = " and ".join(map(str, chosen.hidden))
        print(f"{len(nets)} nets of {layers} units on {chosen.data}, accuracy in percent on test rows\n")
        print("| spread | prior | gamma | passes | ours | units | the authors' code | units |")
        print("|---|---|---|---|---|---|---|---|")
        apart = []
        for spread, prior, gamma in GRID:
            matching = Matching(spread=spread, prior=prior, gamma=gamma, passes=0)
            pair = score(match_nets(nets, counts, matching, rng)), score(_by_authors(theirs, nets, counts, matching))
            apart.append(abs(pair[0][0] - pair[1][0]))
            print(f"| {spread:g} | {prior:g} | {gamma:g} | 0 | {_shown([pair[0]])} | {_shown([pair[1]])} |", flush=True)
        matching = Matching(passes=chosen.passes)
        ours, others = [], []
        for seed in range(chosen.orders):
            ours.append(score(match_nets(nets, counts, matching, np.random.default_rng(seed))))
            others.append(score(_by_authors(theirs, nets, counts, matching, seed)))
        print(f"| 1 | 1 | 1 | {chosen.passes} | {_shown(ours)} | {_shown(others)} |")
    between = abs(np.mean([one[0] for one in ours]) - np.mean([one[0] for one in others]))
    print(
        f"\nmost apart without passes: {max(apart):.2f} points; means of {chosen.orders} orders: {between:.2f} points"
    )


def _nets(method: Pfnm, federation: Federation) -> tuple[list[Weights], Array]:
    """The nets that parties would send, with their rows of each class."""
    parties = [Party(name, federation.tables[name], 0) for name in federation.peers]
    sent = [method.give_net(party) for party in parties]
    return [one["net"] for one in sent], np.array([one["counts"] for one in sent])


def _scorer(federation: Federation) -> Callable[[Weights], tuple[float, int]]:
    """What a matched net is right on, in percent of the test rows, and how many hidden units it has."""
    hub = Party(federation.hub, federation.tables[federation.hub], 0)
    (x, y), task = hub.data.part("test"), task_of(hub)

    def score(model: Weights) -> tuple[float, int]:
        widths = tuple(len(values) for name, values in model.items() if name.endswith(".bias"))[:-1]
        said = predict_model(Network(net=Mlp(hidden=widths)), task, model, x)
        return 100 * float((task.decide(said) == y).mean()), sum(widths)

    return score


def _authors_code(folder: Path) -> Any:
    """Their module, as it is."""
    path = folder / "matching" / "pfnm.py"
    if not path.is_file():
        sys.exit(f"{folder} holds no matching/pfnm.py; give --code the folder of the authors' repository")
    spec = importlib.util.spec_from_file_location("authors_pfnm", path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _by_authors(theirs: Any, nets: list[Weights], counts: Array, matching: Matching, seed: int = 0) -> Weights:
    """The same nets put together by their code: matrices as (inputs, outputs), randomness of numpy's own state."""
    names = list(nets[0])
    weights = [[net[name].T.astype(np.float64) for name in names] for net in nets]
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()), np.errstate(divide="ignore"):
        found = theirs.layer_group_descent(
            weights, list(counts), matching.spread, matching.prior, matching.gamma, matching.passes
        )
    return {name: np.asarray(values.T, dtype=np.float32) for name, values in zip(names, found, strict=True)}


def _shown(scores: list[tuple[float, int]]) -> str:
    right, units = np.array(scores).T
    spread = f" ± {right.std(ddof=1):.2f}" if len(scores) > 1 else ""
    return f"{right.mean():.2f}{spread} | {units.mean():.0f}"


if __name__ == "__main__":
    main()
