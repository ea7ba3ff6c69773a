"""Settings of the one-shot VFL study, each beside what else was tried, by scores on rows set aside for choosing.

Splits are other ones than the tables use, with a tenth of all rows set aside. Images have test rows of their own; of
credit_default some rows set aside are among those that the tables test on, as splits differ by seed. Joint training is
chosen for split learning, and then taken for FedBCD and FedCVT too, but for their rates on credit_default; nets, local
learning and the head are chosen for OneShot. OneShot on CIFAR-10 takes what was chosen on Fashion-MNIST. On MNIST the
rest was chosen with one net and a threshold for guesses, which were looked at again where 512 rows are shared.
`--quick` takes one seed, few steps and credit_default alone.

Usage: python -m studies.oneshot_vfl_choice [--quick] [--out DIR]
"""

from collections.abc import Iterator

import msgspec

from laconic import Federation, Method, SplitNN, deal, simulate
from laconic.data import Groups, Rows
from laconic.learn import AnyLocal, Fixed, FixMatch, Joint, Mlp, PatchNet, Sgd, SummedHeads
from studies import oneshot_vfl_runs as runs
from studies.harness import Job, Record, arguments, markdown, mean_spread, only_on, read_records, run_jobs, write_whole

SHARED = {"credit_default": 1000, "mnist": 256, "fashion_mnist": 256, "cifar10": 256}
SHARED_MORE, SEEDS_MORE, SEEDS_NETS = 512, (10, 11), (10, 11, 12, 13)
"""Shared rows of MNIST, and seeds, of another look at thresholds, and of one at how many nets a party has."""
SEEDS = {"credit_default": (10, 11, 12), "mnist": (10,), "fashion_mnist": (10,), "cifar10": (10,)}
JOINT = {
    "lr 1e-3, decay 1e-2, linear head": (1e-3, 1e-2, ()),
    "lr 1e-3, decay 1e-4, linear head": (1e-3, 1e-4, ()),
    "lr 3e-3, decay 1e-2, linear head": (3e-3, 1e-2, ()),
    "lr 3e-4, decay 1e-2, linear head": (3e-4, 1e-2, ()),
    "lr 1e-2, decay 1e-2, linear head": (1e-2, 1e-2, ()),
    "lr 3e-2, decay 1e-2, linear head": (3e-2, 1e-2, ()),
    "lr 1e-3, decay 1e-2, 32 hidden": (1e-3, 1e-2, (32,)),
}


def main() -> None:
    """Score every candidate and write the table."""
    chosen = arguments(__doc__ or "", "studies/results/oneshot_vfl_choice")
    results = chosen.out / "results.jsonl"
    run_jobs(only_on(_jobs(quick=chosen.quick), chosen.only), results)
    write_whole(chosen.out / "table.md", _table(read_records(results)))


def _jobs(*, quick: bool) -> Iterator[Job]:
    for name in ("credit_default",) if quick else SHARED:
        rates = _rates(name, quick=quick) if name == "credit_default" else ()
        for label, method in [*_candidates(name, quick=quick).items(), *rates]:
            for seed in SEEDS[name][: 1 if quick else None]:
                yield _job(name, SHARED[name], label, method, seed)
    if not quick:
        for seed in SEEDS_MORE:
            for label, soft in (("no threshold", True), ("with a threshold", False)):
                yield _job("mnist", SHARED_MORE, label, runs.one_net(soft=soft), seed)
                yield _job("mnist", SHARED_MORE, label, runs.as_few_shot(runs.one_net(soft=soft)), seed)
        for seed in SEEDS_NETS:
            yield _job("mnist", SHARED_MORE, "no threshold", runs.one_net(soft=True), seed)
            yield _job("mnist", SHARED_MORE, "no threshold, two nets, 16 numbers", runs.one_shot("mnist"), seed)


def _job(name: str, shared: int, label: str, method: Method, seed: int) -> Job:
    def measure() -> Record:
        result = simulate(method, _federation(name, shared, seed), seed=seed, rows="valid")
        return {"metric": result.score.metric, "score": result.score.value}

    key = {"data": name, "shared": shared, "method": type(method).__name__, "settings": label, "seed": seed}
    return Job(key, measure)


def _federation(name: str, shared: int, seed: int) -> Federation:
    data = runs.dataset(name)
    cut = Rows(parties=2) if data.is_image else Groups()
    return deal(data, cut, hub=None, overlap=shared, seed=seed, test=0.2, valid=0.1)


def _candidates(name: str, *, quick: bool) -> dict[str, Method]:
    net, one, change = runs.joint_extractor(name), runs.one_shot(name, quick=quick), msgspec.structs.replace
    found: dict[str, Method] = {}
    for label, (lr, decay, hidden) in JOINT.items():
        joint = Sgd(epochs=2 if quick else 200, batch=runs.BATCH, lr=lr, weight_decay=decay, patience=runs.PATIENCE)
        head = Joint(own=None, head=Mlp(hidden=hidden))
        found[label] = SplitNN(net=net, width=runs.WIDTH, head=head, trainer=joint)
    if name != "credit_default":
        joint = Sgd(epochs=2 if quick else 200, batch=runs.BATCH, weight_decay=1e-2, patience=runs.PATIENCE)
        for lr in (1e-3, 3e-3, 1e-2):
            larger = change(runs.with_default_net(name, joint), trainer=change(joint, lr=lr))
            found[f"the default net, lr {lr:g}"] = larger
    if name == "cifar10":
        return found
    if name == "mnist":
        found |= _thresholds()
        one = runs.one_net(soft=False)
    elif name == "fashion_mnist":
        found[f"{runs.FEW} numbers"] = change(one, width=runs.FEW)
    local = one.local or runs.local_learning(name, 2, quick=quick)
    found |= {label: change(one, local=other) for label, other in _learners(name, local).items()}
    if name != "credit_default":
        found["patches"] = change(one, net=PatchNet(final="relu"))
        found["the net of split learning"] = change(one, net=net)
    found["class heads added up"] = change(one, head=SummedHeads())
    trained = change(one, head=Mlp(hidden=()))
    if name != "credit_default":
        found["head decay 1e-3"] = change(trained, trainer=change(one.trainer, weight_decay=1e-3))
    found["head trained at 3e-3"] = change(trained, trainer=change(one.trainer, lr=3e-3))
    found["head trained at 1e-2"] = change(trained, trainer=change(one.trainer, lr=1e-2))
    return found


def _rates(name: str, *, quick: bool) -> Iterator[tuple[str, Method]]:
    """The other ways of training together, at several rates."""
    for lr in (1e-3, 3e-3):
        for method in runs.like_split_learning(name, quick=quick, lr=lr).values():
            yield f"lr {lr:g}", method


def _thresholds() -> dict[str, Method]:
    """Whether all guesses count on MNIST, as probabilities, and how much; or those above a threshold."""
    one, local = runs.one_net(soft=True), runs.local_learning("mnist", 2, quick=False)
    weights = {"no threshold, weight 1": 1.0, "no threshold": local.weight, "no threshold, weight 10": 10.0}
    change = msgspec.structs.replace
    soft = {label: change(one, local=change(local, weight=weight)) for label, weight in weights.items()}
    return {**soft, "with a threshold": runs.one_net(soft=False)}


def _learners(name: str, local: AnyLocal) -> dict[str, AnyLocal]:
    change = msgspec.structs.replace
    first = "with a threshold" if name == "mnist" else "as it is"
    learners = {first: local, "labelled rows alone": change(local, ratio=0)}
    if name == "credit_default":
        return learners | {
            "threshold 0.95": change(local, threshold=Fixed(0.95)),
            "no class priors": change(local, align=False),
            "lr 1e-3": change(local, lr=1e-3),
            "half the steps": change(local, steps=local.steps // 2),
        }
    if name == "mnist":
        return learners | {
            "1200 steps": change(local, steps=1200),
            "lr 3e-3": change(local, lr=3e-3),
            "1200 steps, stronger views": FixMatch(steps=1200, average=local.average),
        }
    return learners | {"averaged over fewer steps": change(local, average=0.99)}


def _table(records: list[Record]) -> str:
    rows = []
    for key in dict.fromkeys(_what(one) for one in records):
        same = [one for one in records if _what(one) == key]
        rows.append((*key, same[0]["metric"], mean_spread([one["score"] for one in same]), len(same)))
    about = "# How settings of the one-shot VFL study were chosen\n\nScores on rows set aside for choosing.\n\n"
    return about + markdown(("data", "shared rows", "method", "settings", "metric", "score", "seeds"), rows)


def _what(one: Record) -> tuple[str, int, str, str]:
    key = one["key"]
    return key["data"], key["shared"], key["method"], key["settings"]


if __name__ == "__main__":
    main()
