"""How the trees and nets of the FedKT study are set: chosen on validation rows, never on the rows of its tables.

A tenth of the parties' rows is kept by the server with its labels (`deal_rows(..., reserve=RandomHoldout(valid=0.1))`),
and every candidate is scored on it; test rows are not looked at. FedKT's own model is chosen by FedKT's score. What
averaging methods do locally is chosen by each method's own score, so that none of them is held back. To keep it short,
teachers are chosen with ten parties instead of fifty, and nets on a part of the rows.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from msgspec.structs import replace as replace_settings

from laconic import FedAvg, FedDf, FedKt, FedTrees, Method, Pfnm, Scaffold, simulate
from laconic.learn import AnyClassifier, Boosted, Forest, Mlp, Network, Sgd
from laconic.privacy import L1, L2, LaplaceVotes
from studies.fedkt_runs import Remembering
from studies.fedkt_settings import CNN, SETTINGS, TREE, Setting
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

VALID = 0.1
PERCEPTRON = Mlp(hidden=(100, 100))


def main() -> None:
    """Score every candidate on validation rows and write the table."""
    chosen = arguments(__doc__ or "", "studies/results/fedkt_choice")
    jobs = list(_quick() if chosen.quick else _all())
    results = chosen.out / "results.jsonl"
    try:
        run_jobs(only_on(jobs, chosen.only), results)
    finally:
        write_whole(chosen.out / "table.md", _table(read_records(results)))


def _quick() -> Iterator[Job]:
    small = replace(SETTINGS["Adult"], parties=10)
    yield from _on("Adult", _trees(20), range(1), small)


def _all() -> Iterator[Job]:
    yield from _on("Adult", _trees(100), range(1), SETTINGS["Adult"])
    yield from _on("Adult", _teachers(), range(2), replace(SETTINGS["Adult"], parties=10))
    yield from _on("cod-rna", _boosted(), range(2), replace(SETTINGS["cod-rna"], parties=10))
    for name in ("Adult", "cod-rna"):
        yield from _on(name, _federated_trees(), range(2), SETTINGS[name])
        yield from _on(name, _counts(SETTINGS[name]), range(5), SETTINGS[name])
    for name, gamma in (("Adult", 0.04), ("cod-rna", 0.05)):
        yield from _on(name, _shards(SETTINGS[name], gamma), range(1), SETTINGS[name])
    yield from _on("MNIST", _nets(), range(1), replace(SETTINGS["MNIST"], every=3))
    yield from _on("Fashion-MNIST", _convolutional(), range(1), replace(SETTINGS["Fashion-MNIST"], every=12))


def _trees(trees: int) -> dict[str, Method]:
    """How many columns a forest's splits may choose from, without noise and with."""
    shares = {"the square root of": None, "30 % of": 0.3, "60 % of": 0.6}
    methods: dict[str, Method] = {}
    for words, share in shares.items():
        plain = FedKt(model=Forest(trees=trees, columns=share), teacher=TREE)
        methods[f"splits see {words} the columns"] = plain
        level = L1(noise=LaplaceVotes(gamma=0.04), secure=False, smooth=False)
        methods[f"splits see {words} the columns, L1"] = replace_settings(plain, level=level, queries=0.02)
    return methods


def _teachers() -> dict[str, Method]:
    """Whether teachers are single trees or forests."""
    forest = Forest(columns=0.6)
    return {"teachers are trees": FedKt(model=forest, teacher=TREE), "teachers are forests": FedKt(model=forest)}


def _boosted() -> dict[str, Method]:
    return {
        "50 trees at 0.3": FedKt(model=Boosted(), teacher=TREE),
        "100 trees at 0.1": FedKt(model=Boosted(trees=100, lr=0.1), teacher=TREE),
        "50 trees at 0.3, and teachers are the same": FedKt(model=Boosted()),
    }


def _federated_trees() -> dict[str, Method]:
    """What each party of FedTrees grows."""
    sizes = ((20, 3, 0.3), (50, 4, 0.2), (100, 4, 0.2), (100, 4, 0.4), (200, 4, 0.4), (100, 6, 0.1), (100, 6, 0.3))
    return {
        f"FedTrees, {trees} of depth {depth} at {lr:g}": FedTrees(trees=Boosted(trees=trees, depth=depth, lr=lr))
        for trees, depth, lr in sizes
    }


def _counts(setting: Setting) -> dict[str, Method]:
    """How votes are counted."""
    return {"the most votes win": setting.fedkt(), "votes by rows, cut at shares": setting.fedkt_cut()}


def _nets() -> dict[str, Method]:
    """How nets are trained, by FedKT, and what each averaging method likes best."""

    def fedkt(trainer: Sgd) -> FedKt:
        return FedKt(model=Network(net=PERCEPTRON, trainer=trainer))

    methods: dict[str, Method] = {
        f"{epochs} epochs at {lr:g}": fedkt(Sgd(epochs=epochs, batch=64, lr=lr))
        for epochs, lr in ((10, 1e-3), (20, 1e-3), (10, 3e-3), (20, 3e-3), (40, 3e-3), (80, 3e-3), (40, 6e-3))
    }
    methods["10 epochs from 0.003 to 0"] = fedkt(Sgd(epochs=10, batch=64, lr=3e-3, decay="cosine"))
    for epochs in (3, 10):
        local = Sgd(epochs=epochs, batch=64)
        methods[f"FedAvg, {epochs} epochs"] = FedAvg(net=PERCEPTRON, trainer=local)
        methods[f"FedDf, {epochs} epochs"] = FedDf(net=PERCEPTRON, trainer=local)
        methods[f"Pfnm, {epochs} epochs"] = Pfnm(net=PERCEPTRON, trainer=local)
    for lr in (0.05, 0.2):
        plain = Sgd(epochs=10, batch=64, lr=lr, optimizer="sgd", weight_decay=0.0)
        methods[f"Scaffold, 10 epochs at {lr:g}"] = Scaffold(net=PERCEPTRON, trainer=plain)
    return methods


def _convolutional() -> dict[str, Method]:
    def trained(epochs: int, lr: float) -> AnyClassifier:
        return Network(net=CNN.net, trainer=Sgd(epochs=epochs, batch=64, lr=lr))

    return {f"{epochs} epochs at {lr:g}": FedKt(model=trained(epochs, lr)) for epochs, lr in ((5, 2e-3), (10, 2e-3))}


def _shards(setting: Setting, gamma: float) -> dict[str, Method]:
    """At L2 noise is put on the votes of one partition's teachers: many small shards against few large ones."""
    level = L2(noise=LaplaceVotes(gamma=gamma), secure=False, smooth=False)
    return {
        f"L2, {partitions} x {teachers} teachers": FedKt(
            model=setting.model, teacher=TREE, partitions=partitions, teachers=teachers, level=level, queries=0.02
        )
        for partitions, teachers in ((2, 5), (1, 25), (1, 50))
    }


def _on(name: str, methods: dict[str, Method], seeds: range, setting: Setting) -> Iterator[Job]:
    for seed in seeds:
        for words, method in methods.items():
            work = _work(setting, method, seed)
            yield Job({"data": name, "method": type(method).__name__, "choice": words, "seed": seed}, work)


def _work(setting: Setting, method: Method, seed: int) -> Callable[[], Record]:
    def measure() -> Record:
        federation = setting.deal(seed, valid=VALID)
        result = simulate(method, federation, seed=seed, runtime=Remembering((setting, seed, "valid")), rows="valid")
        return {"accuracy": result.metrics["accuracy"]}

    return measure


def _table(records: list[Record]) -> str:
    keys = dict.fromkeys((one["key"]["data"], one["key"]["method"], one["key"]["choice"]) for one in records)
    rows = []
    for name, method, choice in keys:
        key = {"data": name, "method": method, "choice": choice}
        found = [100 * one["accuracy"] for one in records if key.items() <= one["key"].items()]
        rows.append((name, method, choice, f"{mean_spread(found, 1)} ({len(found)})"))
    head = ("data", "method", "candidate", "accuracy")
    return "# Accuracy on validation rows, in percent (seeds)\n\n" + markdown(head, rows)


if __name__ == "__main__":
    main()
