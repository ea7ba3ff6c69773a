"""The runs behind `studies/oneshot_vfl_tables.py`: which federations, which methods, and what is kept of each run."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import msgspec
import numpy as np

from laconic import (
    Centralised,
    Equal,
    FedBCD,
    FedCVT,
    Federation,
    FewShot,
    Method,
    OneShot,
    Result,
    SplitNN,
    deal,
    load,
    simulate,
)
from laconic.audit import commonest, gradients_sent, labels_read_off
from laconic.core import Party, Peers, WireLog
from laconic.data import LABEL_HOLDER, Dataset, Groups, Rows
from laconic.deploy import open_calls
from laconic.learn import (
    Adaptive,
    AnyLocal,
    Cnn,
    Ensemble,
    FixMatchTab,
    Joint,
    Mlp,
    Net,
    PatchNet,
    ResNet,
    Sgd,
    Soft,
    SummedHeads,
)
from laconic.methods import SendLabels
from laconic.privacy import RandomisedResponse
from laconic.tables import headline, metrics
from laconic.values import Array
from studies.harness import Record
from studies.oneshot_vfl_learning import KeptFixMatch

WIDTH, BATCH, PATIENCE = 32, 32, 20
FEW = 16
"""How many numbers one of two parties sends for a row of MNIST in one-shot learning."""
CIFAR_ROWS = (20_000, 5_000)
"""Training and test images of CIFAR-10 that are used."""
OWN_PATCHES = "SplitNN, patches of own rows"
"""Split learning that borrows one-shot learning's use of rows without labels; no paper has it."""
DEFAULT_NET = "SplitNN, the default net"
"""Split learning of images with the net that `SplitNN()` takes by itself, which is larger."""
FASTER = "SplitNN, lr 1e-2"
"""Split learning at a higher rate, where rows set aside left open which is better."""
OWN_RATES = {("FedBCD, Q = 5", "credit_default"): 1e-3}
"""Where another rate than split learning's was better: studies/oneshot_vfl_choice.py."""
AS_WITH_TWO = "as two parties with a threshold"
"""One-shot and few-shot learning of MNIST by four or seven parties with what two had before guesses were soft."""


@lru_cache(maxsize=2)
def dataset(name: str) -> Dataset:
    """A public data set; of CIFAR-10 the first images of each part."""
    found = load(name)
    if name != "cifar10" or found.test is None:
        return found
    train = np.setdiff1d(np.arange(found.rows), found.test)[: CIFAR_ROWS[0]]
    kept = np.concatenate([train, found.test[: CIFAR_ROWS[1]]])
    return replace(found, raw=found.raw[kept], y=found.y[kept], ids=None, test=np.arange(len(train), len(kept)))


def federation(name: str, overlap: int | None, parties: int, seed: int) -> Federation:
    """Parties that share `overlap` rows, or all; a fifth as many more are for validation. The hub has labels alone."""
    data = dataset(name)
    training = data.rows - len(data.test) if data.test is not None else round(0.8 * data.rows)
    valid = 0.1 if overlap is None else overlap / 5 / training
    tables = Groups() if parties == 2 else Equal(parties=parties)
    cut = Rows(parties=parties) if data.is_image else tables
    return deal(data, cut, hub=None, overlap=overlap, seed=seed, test=0.2, valid=valid)


def methods(name: str, parties: int = 2, *, quick: bool = False) -> dict[str, Method]:
    """Every method that crosses the wire, by its name in the tables."""
    net, head, joint = joint_extractor(name), joint_head(name), joint_training(name, quick=quick)
    tuned = Sgd(epochs=2 if quick else 30, batch=BATCH, lr=1e-4, weight_decay=1e-3, patience=5)
    one = one_shot(name, parties, quick=quick)
    few = few_shot(name, parties, quick=quick)
    split = SplitNN(net=net, width=WIDTH, head=head, trainer=joint)
    more: dict[str, Method] = {}
    if extractor(name) != net:
        more[OWN_PATCHES] = msgspec.structs.replace(split, net=extractor(name))
    if name == "mnist" and parties > 2:
        two = one_net(soft=False)
        more |= {f"OneShot, {AS_WITH_TWO}": two, f"FewShot, {AS_WITH_TWO}": as_few_shot(two)}
    if name in ("credit_default", "mnist") and parties == 2:
        more[FASTER] = msgspec.structs.replace(split, trainer=joint_training(name, quick=quick, lr=1e-2))
    if name != "credit_default" and parties == 2:
        more[DEFAULT_NET] = with_default_net(name, joint)
    return {
        "SplitNN": split,
        **more,
        **like_split_learning(name, quick=quick),
        "OneShot": one,
        "OneShot, labels sent": msgspec.structs.replace(one, guide=SendLabels()),
        "FewShot": few,
        "FewShot + fine-tuning": msgspec.structs.replace(few, more=tuned),
    }


def like_split_learning(name: str, *, quick: bool = False, lr: float | None = None) -> dict[str, Method]:
    """FedBCD and FedCVT, each at the rate chosen for it, or both at this one."""
    made: dict[str, type[FedBCD | FedCVT]] = {"FedBCD, Q = 5": FedBCD, "FedCVT": FedCVT}
    found: dict[str, Method] = {}
    for label, kind in made.items():
        trainer = joint_training(name, quick=quick, lr=lr or OWN_RATES.get((label, name)))
        found[label] = kind(net=joint_extractor(name), width=WIDTH, head=joint_head(name), trainer=trainer)
    return found


def with_default_net(name: str, joint: Sgd) -> SplitNN:
    """Split learning of images with a larger net and the rate that suits it."""
    trainer = msgspec.structs.replace(joint, lr=3e-3 if name == "mnist" else 1e-3)
    return SplitNN(net=Cnn(final="relu"), width=WIDTH, head=Joint(own=None, head=Mlp(hidden=())), trainer=trainer)


def one_shot(name: str, parties: int = 2, *, quick: bool = False) -> OneShot:
    """OneShot as the tables have it: studies/oneshot_vfl_choice.py.

    Four and seven parties of MNIST keep what was best for two before class heads could be added up.
    """
    local = local_learning(name, parties, quick=quick)
    if name == "mnist" and parties == 2:
        several = Ensemble(net=Cnn(channels=(16, 32), hidden=()))
        return OneShot(net=several, width=FEW, local=local, head=SummedHeads())
    return OneShot(net=extractor(name), width=WIDTH, local=local, head=Mlp(hidden=()), trainer=head_trainer(name))


def one_net(*, soft: bool) -> OneShot:
    """OneShot on MNIST before nets were several; every guess counts, or those above a threshold."""
    local = local_learning("mnist", 2, quick=False)
    if not soft:
        local = msgspec.structs.replace(local, threshold=Adaptive(), weight=1.0)
    return OneShot(net=extractor("mnist"), width=WIDTH, local=local, head=SummedHeads(), trainer=head_trainer("mnist"))


def few_shot(name: str, parties: int = 2, *, quick: bool = False) -> FewShot:
    """FewShot as the tables have it: as OneShot, but on MNIST with one net and a threshold for guesses."""
    two = name == "mnist" and parties == 2
    return as_few_shot(one_net(soft=False) if two else one_shot(name, parties, quick=quick))


def as_few_shot(one: OneShot) -> FewShot:
    """FewShot with OneShot's settings."""
    return FewShot(net=one.net, width=one.width, local=one.local, head=one.head, trainer=one.trainer)


def lies(name: str, epsilon: float) -> Method:
    """OneShot whose labels are randomised."""
    return msgspec.structs.replace(one_shot(name), labels=RandomisedResponse(epsilon=epsilon, seeded=True))


def measure(method: Method, fed: Federation, seed: int) -> Record:
    """Run a method: its score, what crossed, and how the score rose with it."""
    looks = 3 * -(-len(fed.labels("train")) // BATCH)
    result = simulate(method, fed, seed=seed, look_every=looks)
    curve = [[one.bytes, one.rounds, round(one.score.value, 4)] for one in result.curve]
    return {
        "metric": result.score.metric,
        "score": result.score.value,
        "bytes": result.fit.bytes,
        "best_bytes": _bytes_at_best(result),
        "exchanges": result.fit.uploads + result.fit.downloads,
        "curve": curve,
    }


def alone(name: str, party: str, fed: Federation, seed: int, *, quick: bool = False) -> Record:
    """One party that is given the labels and asks nobody else, learning from its own rows as OneShot does."""
    tables = {one: fed.tables[one] for one in (LABEL_HOLDER, party)}
    pair = Federation(name=fed.name, tables=tables, hub=LABEL_HOLDER, aligned=True)
    method = msgspec.structs.replace(one_shot(name, len(fed.peers), quick=quick), guide=SendLabels())
    result = simulate(method, pair, seed=seed)
    return {"metric": result.score.metric, "score": result.score.value}


def boosted(fed: Federation, seed: int) -> Record:
    """Boosted trees on everybody's columns of the labelled rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        random_state=seed,
        max_iter=150,
        learning_rate=0.05,
        max_leaf_nodes=8,
        min_samples_leaf=20,
        l2_regularization=1.0,
    )
    model.fit(_pooled(fed, "train"), fed.labels("train"))
    found = model.predict_proba(_pooled(fed, "test"))
    task = fed.task
    score = headline(task, metrics(task, fed.labels("test"), found[:, 1] if task.kind == "binary" else found))
    return {"metric": score.metric, "score": score.value}


def pooled(name: str, seed: int) -> Record:
    """One net on everybody's columns and all labels: what nobody can reach."""
    epochs = 20 if name == "credit_default" else 5
    method = Centralised(trainer=Sgd(epochs=epochs, decay="cosine"))
    result = simulate(method, federation(name, None, 2, seed), seed=seed)
    return {"metric": result.score.metric, "score": result.score.value}


def leak(name: str, fed: Federation, epochs: int, seed: int) -> Record:
    """The share of labels each party can read off its gradients after so many epochs of split learning."""
    trainer = Sgd(epochs=epochs, batch=BATCH, lr=1e-3)
    method = SplitNN(net=joint_extractor(name), width=WIDTH, trainer=trainer, head=Joint(own=None, head=Mlp(hidden=())))
    parties = {one: Party(one, table, seed) for one, table in fed.tables.items()}
    hub = parties.pop(fed.hub)
    with open_calls(tuple(parties.values())) as carrier:
        peers = Peers(method, hub, carrier, WireLog(), carrier.names)
        for _ in method.fit(hub, peers):
            pass
        outputs = peers.ask(method.give_outputs, rows="train")
    y = fed.labels("train")
    classes, rng = len(fed.task.classes), np.random.default_rng(seed)
    gradients = gradients_sent(method, hub, outputs).values()
    found = {
        name: float(np.mean([labels_read_off(one, y, classes, rng, normalise=normalise) for one in gradients]))
        for name, normalise in (("directions", True), ("raw", False))
    }
    return found | {"commonest": commonest(y)}


def _bytes_at_best(result: Result) -> int:
    """Bytes until the best validated epoch: all, less those of the epochs that patience waited through."""
    looks = [one.times for one in result.wire if one.phase == "fit" and one.step == "give_outputs"]
    epochs = max(looks, default=0)
    if result.method["type"] not in ("SplitNN", "FedBCD", "FedCVT") or epochs <= PATIENCE:
        return result.fit.bytes
    stopped_early = epochs < result.method["trainer"]["epochs"]
    return round(result.fit.bytes * (epochs - PATIENCE) / epochs) if stopped_early else result.fit.bytes


def _pooled(fed: Federation, rows: str) -> Array:
    blocks = [table.part(rows)[0] for table in fed.tables.values() if table.columns]
    return np.concatenate([block.reshape(len(block), -1) for block in blocks], axis=1)


def joint_training(name: str, *, quick: bool, lr: float | None = None) -> Sgd:
    """How all nets are trained together; the rate is split learning's if none is given."""
    lr = lr or (1e-3 if name == "cifar10" else 3e-3)
    return Sgd(epochs=3 if quick else 200, batch=BATCH, lr=lr, weight_decay=1e-2, patience=PATIENCE)


def joint_head(name: str) -> Joint:
    """The label holder's head where all nets are trained together."""
    return Joint(own=None, head=Mlp(hidden=(32,) if name == "cifar10" else ()))


def joint_extractor(name: str) -> Net:
    """Each party's net where all are trained together."""
    special: dict[str, Callable[[], Net]] = {
        "credit_default": lambda: Mlp(hidden=(64,), final="relu"),
        "cifar10": lambda: ResNet(channels=(8, 16, 32), final="relu"),
    }
    return special.get(name, lambda: Cnn(channels=(16, 32), hidden=(), final="relu"))()


def extractor(name: str) -> Net:
    """Each party's net where it learns by itself: studies/oneshot_vfl_choice.py."""
    return PatchNet(final="relu") if name in ("fashion_mnist", "cifar10") else joint_extractor(name)


def local_learning(name: str, parties: int, *, quick: bool) -> AnyLocal:
    """How each party learns by itself; on CIFAR-10 as on Fashion-MNIST, mirrored too."""
    if name == "credit_default":
        return FixMatchTab(steps=30) if quick else FixMatchTab()
    if name == "mnist" and parties > 2:
        return KeptFixMatch(steps=1200, average=0.999)
    if name == "mnist":
        views = KeptFixMatch(steps=3000, average=0.999, lr=6e-3, shift=1, turn=10.0, zoom=0.1, shade=0.2, hole=0.25)
        return msgspec.structs.replace(views, threshold=Soft(), weight=4.0)
    mild = KeptFixMatch(steps=1000, average=0.999, shift=1, turn=5.0, zoom=0.1, shade=0.2, hole=0.2)
    return msgspec.structs.replace(mild, flips=True) if name == "cifar10" else mild


def head_trainer(name: str) -> Sgd:
    """How the label holder learns from what one-shot and few-shot learning send."""
    lr, weight_decay = (3e-3, 1e-3) if name == "credit_default" else (1e-2, 0.1)
    return Sgd(epochs=100, batch=64, lr=lr, decay="cosine", weight_decay=weight_decay)
