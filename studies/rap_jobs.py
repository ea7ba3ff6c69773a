"""The runs of the RAP study: which methods, on which data, and what is kept of each."""

from time import process_time

import numpy as np

from laconic import Centralised, Federation, LocalDp, Method, Rap, Solo, SplitNN, simulate
from laconic.learn import Boosted, Gaussian, Joint, LinearModel, Mlp, NetModel, Sgd, TreeModel
from laconic.privacy import LocalGaussian
from laconic.tables import metrics
from studies.harness import Job, Record
from studies.rap_parties import alone, federation, pooled

TRAINERS = {
    "covtype": Sgd(epochs=12, batch=1024, lr=1e-2, decay="cosine"),
    "superconduct": Sgd(epochs=30, batch=256, lr=1e-2, decay="cosine"),
    "california_housing": Sgd(epochs=30, batch=256, lr=1e-2, decay="cosine"),
}
"""Chosen by `studies.rap_choice`: what suits Centralised best on validation rows, in epochs that two cores allow."""

NETS = {"mlp": Mlp(hidden=(128,)), "linear": Mlp(hidden=())}


def methods(data: str, model: str, epochs: int | None = None) -> dict[str, Method]:
    """All methods compared, by name, with the same model, batches and epochs."""
    trainer, net = TRAINERS[data], NETS[model]
    trainer = trainer if epochs is None else Sgd(epochs=epochs, batch=trainer.batch, lr=trainer.lr, decay=trainer.decay)
    learner = NetModel(net=net, trainer=trainer)
    # The better of the two known cuts: a small layer with ReLU at each party, the hidden layer at the label owner.
    # Split learning keeps its learning rate, as its parties know one batch at a time; so it is given a lower one.
    steady = Sgd(epochs=trainer.epochs, batch=trainer.batch, lr=3e-3)
    split = SplitNN(net=Mlp(hidden=(), final="relu"), width=32, head=Joint(head=NETS["mlp"]), trainer=steady)
    found: dict[str, Method] = {
        "Centralised": Centralised(net=net, trainer=trainer),
        "Single": Solo(net=net, trainer=trainer),
        "SplitNN": split,
        "Rap": Rap(learner=learner),
        "Rap, Gaussian": Rap(learner=learner, matrix=Gaussian()),
        "Rap, two models": Rap(learner=learner, numbers="two models"),
        "Rap, label owner trains": Rap(learner=learner, trains="label holder"),
        "Rap, boosted trees": Rap(learner=TreeModel(trees=Boosted(trees=100))),
        "Rap, exact linear": Rap(learner=LinearModel()),
    }
    for epsilon in (8.0, 64.0, 512.0):
        found[f"Local DP, epsilon {epsilon:.0f}"] = LocalDp(
            learner=learner, noise=LocalGaussian(epsilon=epsilon, seeded=True)
        )
        found[f"Rap, epsilon {epsilon:.0f}"] = Rap(learner=learner, noise=LocalGaussian(epsilon=epsilon, seeded=True))
    return found


def score_job(
    data: str,
    method: str,
    seed: int,
    *,
    parties: int = 4,
    singles: int = 0,
    model: str = "mlp",
    rows: int | None = None,
    epochs: int | None = None,
) -> Job:
    """Fit one method and keep its score, traffic and processor time."""
    key = {"what": "score", "data": data, "method": method, "parties": parties, "singles": singles}
    key |= {"model": model, "seed": seed, "rows": rows, "epochs": epochs or TRAINERS[data].epochs}

    def measure() -> Record:
        given = federation(data, parties, seed, rows, singles)
        chosen = methods(data, model, epochs)[method]
        if method != "Single":
            return _run(chosen, given, seed)
        every = [_run(chosen, alone(given, party), seed) for party in given.peers]
        # As in the paper: the best on the test rows, which flatters it.
        return (min if given.task.kind == "regression" else max)(every, key=lambda record: float(record["score"]))

    return Job(key, measure)


def pooled_trees_job(data: str, seed: int) -> Job:
    """Boosted trees on the columns as they are: what trees lose when columns are mixed."""
    key = {"what": "score", "data": data, "method": "Centralised, boosted trees", "parties": 4, "singles": 0}
    key |= {"model": "mlp", "seed": seed, "rows": None, "epochs": TRAINERS[data].epochs}

    def measure() -> Record:
        given, learner = federation(data, 4, seed), TreeModel(trees=Boosted(trees=100))
        started = process_time()
        rng = np.random.default_rng(seed)
        model = learner.fit(given.task, pooled(given, "train"), given.labels("train"), rng)
        found = learner.predict(given.task, model, pooled(given, "test"))
        name = "rmse" if given.task.kind == "regression" else "accuracy"
        score = metrics(given.task, given.labels("test"), found)[name]
        spent = round(process_time() - started, 3)
        return {
            "score": score,
            "metric": name,
            "processor_seconds": spent,
            "bytes": 0,
            "rounds": 0,
            "bytes_by_party": {},
        }

    return Job(key, measure)


def encryption_job(data: str, seed: int, rows: int | None = None) -> Job:
    """Measure what encrypting a sample costs, and count for all rows."""

    def measure() -> Record:
        from studies.encryption import encryption_cost

        x = pooled(federation(data, 4, seed, rows), "train")
        cost = encryption_cost(x[:4000])
        return {"numbers": int(x.size)} | cost

    return Job({"what": "encryption", "data": data, "rows": rows}, measure)


def _run(method: Method, given: Federation, seed: int) -> Record:
    started = process_time()
    result = simulate(method, given, seed=seed)
    spent = process_time() - started
    sent = [part for part in result.wire if part.phase == "fit" and part.step == "send"]
    name = "rmse" if result.task.kind == "regression" else "accuracy"
    return {
        "score": result.metrics[name],
        "metric": name,
        "processor_seconds": round(spent, 3),
        "bytes": result.fit.bytes,
        "rounds": result.fit.rounds,
        "bytes_by_party": {part.party: part.bytes_up for part in sent},
    }
