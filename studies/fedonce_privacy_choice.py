"""How the label holder trains in our arms of the FedOnce-L1 study: chosen by scores on validation rows.

Four trainers and two heads, the default guests, epsilon 2, on splits that the study's tables do not use. The choice is
one for all data sets: of means within a tenth of a point of the highest, the one with fewest steps. `--quick` takes a
small data set that needs no files.

Usage: python -m studies.fedonce_privacy_choice [--quick] [--out DIR]
"""

from statistics import fmean

from laconic import FedOnce, simulate
from laconic.learn import Joint, Mlp
from laconic.privacy import Budget, DpSgd, Pld, PublicProjection
from studies.fedonce_privacy_arms import DELTA, federation_of
from studies.harness import Job, Record, arguments, markdown, only_on, read_records, run_jobs, write_whole

SEED = 100
NAMES = ("phishing", "credit_default", "covtype", "mnist")
TRAINERS = {
    f"{one.epochs} epochs, batch {one.batch}, lr {one.lr:g}": one
    for one in (
        DpSgd(epochs=20, batch=2048, lr=4.0, seeded=True),
        DpSgd(epochs=20, batch=512, lr=1.0, seeded=True),
        DpSgd(epochs=10, batch=1024, lr=2.0, seeded=True),
        DpSgd(epochs=40, batch=2048, lr=2.0, seeded=True),
    )
}
HEADS = {"32 hidden": Joint(head=Mlp(hidden=(32,))), "linear": Joint(head=Mlp(hidden=()))}


def main() -> None:
    """Score every pair on validation rows and write the table."""
    chosen = arguments(__doc__ or "", "studies/results/fedonce_privacy_choice")
    names = ("breast_cancer",) if chosen.quick else NAMES
    jobs = [_job(name, trainer, head) for name in names for trainer in TRAINERS for head in HEADS]
    results = chosen.out / "results.jsonl"
    run_jobs(only_on(jobs, chosen.only), results)
    write_whole(chosen.out / "table.md", _table(read_records(results)))


def _job(name: str, trainer: str, head: str) -> Job:
    def measure() -> Record:
        federation = federation_of(name, 0, SEED)
        method = FedOnce(encoder=PublicProjection(), trainer=TRAINERS[trainer], head=HEADS[head])
        rows = len(federation.tables[federation.hub].cut("train"))
        budget = Budget(epsilon=2.0, delta=DELTA, accountant=Pld(interval=1e-3))
        sized = method.within(budget, rows, federation.hub, federation.peers)
        return {"accuracy": simulate(sized, federation, seed=SEED, rows="valid").metrics["accuracy"]}

    return Job({"data": name, "trainer": trainer, "head": head, "seed": SEED}, measure)


def _table(records: list[Record]) -> str:
    names = list(dict.fromkeys(record["key"]["data"] for record in records))
    found = {(one["key"]["trainer"], one["key"]["head"], one["key"]["data"]): one["accuracy"] for one in records}
    rows = []
    for trainer in TRAINERS:
        for head in HEADS:
            scores = [found[trainer, head, name] for name in names if (trainer, head, name) in found]
            if len(scores) == len(names):
                rows.append((trainer, head, *(f"{100 * score:.2f}" for score in scores), f"{100 * fmean(scores):.2f}"))
    about = "# How the label holder trains under a budget\n\nAccuracy in % on validation rows, epsilon 2.\n\n"
    return about + markdown(("trainer", "head", *names, "mean"), rows)


if __name__ == "__main__":
    main()
