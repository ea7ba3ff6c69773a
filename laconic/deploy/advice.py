"""Advice before a run: which methods suit, and what each would send, how often, and how long it would take.

**The model.** Each candidate is played on two small samples of the parties' own rows, in this process; nothing is sent,
and nothing of it is kept. What it sends grows with the rows by a straight line, and so do its rounds, if it asks batch
by batch: both are carried on to all rows. Where training could stop early and send less, it is taken to its last epoch,
so that such figures are upper bounds. Time is that of the line, `bytes * 8 / link + rounds * ping`, and of learning,
which grows with rows by the line through both samples, but by no less than a fifth of what the larger took per row, and
by no more than that. Bytes and rounds come out within 5 % of a run's; the time of learning within a factor of 5, as it
depends on what else the machine does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any
from zlib import crc32

import msgspec
import numpy as np

from laconic.core.method import Method
from laconic.data.federation import Federation
from laconic.deploy.execute import simulate, train
from laconic.deploy.result import Result
from laconic.errors import LaconicError, PlanError
from laconic.learn.train.sgd import Sgd
from laconic.methods.baselines.centralised import Centralised
from laconic.methods.baselines.local_dp import LocalDp
from laconic.methods.baselines.solo import Solo
from laconic.methods.horizontal.analytic import Analytic
from laconic.methods.horizontal.cox import Cox
from laconic.methods.horizontal.fedavg import FedAvg
from laconic.methods.horizontal.fedkt import FedKt
from laconic.methods.horizontal.pooled_rows import PooledRows
from laconic.methods.horizontal.scaffold import Scaffold
from laconic.methods.vertical.fedonce import FedOnce
from laconic.methods.vertical.oneshot import OneShot
from laconic.methods.vertical.splitnn import SplitNN
from laconic.methods.vertical.vimadmm import VimAdmm
from laconic.tables.table import PAIRED, Table
from laconic.values import Array, Listener

_MOST = 3
_SAMPLES = (256, 1024)  # training rows, or per party where parties have other rows
_FEW_SHARED = 1000


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a run may cost and give away.

    Attributes:
        link: bits per second between the hub and each party.
        ping: seconds for one message to go and its answer to come, beside its bytes.
        exchanges: how often the hub may ask and wait while fitting; None for no limit.
        labels_may_leave: whether others may learn what shows labels.
        raw_may_leave: whether raw columns may be handed over.
    """

    link: float = 10e6
    ping: float = 0.05
    exchanges: int | None = None
    labels_may_leave: bool = False
    raw_may_leave: bool = False

    def __post_init__(self) -> None:
        if self.link <= 0 or self.ping < 0:
            raise ValueError(f"link must be above 0 and ping 0 or more, not {self.link:g} and {self.ping:g}")
        if self.exchanges is not None and self.exchanges < 1:
            raise ValueError(f"exchanges must be 1 or more, not {self.exchanges}")


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One method, and what it would cost to fit.

    Attributes:
        method: its name.
        why: in words, what speaks for it here.
        bytes, rounds: what crosses, and how often the hub waits.
        at_most: whether training may stop earlier and cost less.
        line_seconds: time on the line. learning_seconds: time of learning, as on this machine.
        leaves: what leaves while fitting, in the words of its steps, most bytes first.
        labels_leave: whether others can read labels from that. raw_leaves: whether it is raw columns.
    """

    method: str
    why: str
    bytes: int
    rounds: int
    at_most: bool
    line_seconds: float
    learning_seconds: float
    leaves: tuple[str, ...]
    labels_leave: bool
    raw_leaves: bool

    @property
    def seconds(self) -> float:
        """The time in all."""
        return self.line_seconds + self.learning_seconds


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """Which methods suit a federation within some limits, the most suitable first.

    Attributes:
        kind: whether parties have other columns, or other rows.
        parties: how many hold rows.
        rows: training rows that all share; horizontal: of all parties together.
        columns: of each party.
        limits: within which the candidates are.
        candidates: two or three, or fewer if no more are within the limits.
        left_out: why other methods are not among them.
        model: how bytes, rounds and time were estimated.
    """

    kind: str
    parties: int
    rows: int
    columns: dict[str, int]
    limits: RunLimits
    candidates: tuple[Candidate, ...]
    left_out: dict[str, str]
    model: str = (
        "Each candidate was played on two small samples of the rows, here, and its bytes, rounds and seconds carried "
        "on to all rows by a straight line. Time is that of learning, and bytes * 8 / link + rounds * ping."
    )

    def to_json(self) -> bytes:
        """One JSON object."""
        return msgspec.json.encode(self)


@dataclass(frozen=True)
class _Offer:
    """A method that may suit: what speaks for it, and what it is known to give away."""

    method: Method
    why: str
    labels: bool = False
    raw: bool = False

    @property
    def name(self) -> str:
        return type(self.method).__name__


def advise(
    federation: Federation, limits: RunLimits | None = None, *, seed: int = 0, listener: Listener | None = None
) -> Advice:
    """Name two or three methods that suit a federation, with what each would send and how long it would take.

    Args:
        federation: the parties with their rows, matched or not.
        limits: what a run may cost and give away; None for the usual ones.
        seed: which rows are sampled, and held out, depends on it.
        listener: hears of progress.

    Raises:
        DataError: the rows cannot be matched, or are too few.

    Example:
        >>> from laconic import Equal, deal, load
        >>> [one.method for one in advise(deal(load("breast_cancer"), Equal(parties=3))).candidates]
        ['FedOnce', 'LocalDp']
    """
    limits = limits or RunLimits()
    matched = _matched(federation, seed)
    found: list[Candidate] = []
    left_out: dict[str, str] = {}
    for offer in _offers(matched):
        reason = _refusal(offer, matched, limits)
        if reason is None and len(found) < _MOST:
            if listener is not None:
                listener(f"playing {offer.name} on a sample", len(found), _MOST)
            reason = _add(offer, matched, limits, seed, found)
        if reason is not None:
            left_out[offer.name] = reason
    peers = [name for name in matched.tables if name != "server"]
    return Advice(
        kind=matched.kind,
        parties=len(peers),
        rows=_training_rows(matched),
        columns={name: len(matched.tables[name].columns) for name in peers},
        limits=limits,
        candidates=tuple(found),
        left_out=left_out,
    )


def _offers(federation: Federation) -> Iterator[_Offer]:
    """What may suit, the most suitable first."""
    if federation.kind == "horizontal":
        yield _Offer(
            Analytic(), "one exchange of sums, exactly as if all rows were pooled, by a linear model of features"
        )
        if "public" in federation.tables[federation.hub].cuts:
            yield _Offer(FedKt(), "one exchange, any classifier, with public rows")
        yield _Offer(FedAvg(), "one exchange of nets")
        yield _Offer(Scaffold(exchanges=20), "20 exchanges of nets, for parties whose rows differ much")
        if federation.task.kind in Cox.tasks:
            yield _Offer(Cox(), "one exchange of how each party's likelihood falls; risks of a time to an event")
        yield _Offer(PooledRows(), "what all rows at one place give", labels=True, raw=True)
        return
    yield _Offer(FedOnce(), "one exchange of learnt numbers; labels stay with the hub, which chooses its model")
    own = any(len(table.cuts.get("own", ())) for name, table in federation.tables.items() if name != federation.hub)
    one_shot = _Offer(OneShot(), "few exchanges, and parties learn from rows that not all share", labels=True)
    if own and _training_rows(federation) < _FEW_SHARED:
        yield one_shot
    yield _Offer(SplitNN(), "one net trained together, batch by batch", labels=True)
    yield _Offer(VimAdmm(), "few epochs, batch by batch, one head per party", labels=True)
    yield _Offer(Centralised(), "what all columns at one place give", raw=True)
    yield _Offer(LocalDp(), "one exchange of rows under noise, each with an epsilon")


def _refusal(offer: _Offer, federation: Federation, limits: RunLimits) -> str | None:
    """Why a method is out of the question before it is played; None if it is not."""
    if offer.raw and not limits.raw_may_leave:
        return "hands over raw columns, which may not leave"
    if offer.labels and not limits.labels_may_leave:
        return "gives labels away, which may not leave"
    if federation.task.kind not in offer.method.tasks:
        return f"does not predict {federation.task.kind}"
    rounds = offer.method.rounds
    if limits.exchanges is not None and rounds is not None and rounds > limits.exchanges:
        return f"takes {rounds} exchanges, and {limits.exchanges} are allowed"
    if limits.exchanges is not None and rounds is None:
        return f"asks batch by batch, and {limits.exchanges} exchanges are allowed"
    return None


def _add(offer: _Offer, federation: Federation, limits: RunLimits, seed: int, found: list[Candidate]) -> str | None:
    """Add a method's estimate; why it cannot be had, if it cannot."""
    try:
        found.append(estimate(offer.method, federation, limits, why=offer.why, seed=seed))
    except (LaconicError, ValueError) as problem:
        return f"cannot be played on these rows: {problem}"
    return None


def estimate(
    method: Method, federation: Federation, limits: RunLimits | None = None, *, why: str = "", seed: int = 0
) -> Candidate:
    """What fitting a method would cost on all rows of a matched federation, by the model of this module."""
    limits, rows = limits or RunLimits(), _training_rows(federation)
    whole, at_most = _to_the_end(method)
    if isinstance(whole, Analytic) and whole.expected_rows is None:
        # Its width follows from the number of all rows, which a sample does not have.
        whole = msgspec.structs.replace(whole, expected_rows=rows)
    sizes = _sizes(federation, rows)
    runs = [simulate(whole, _sample(federation, size / rows, seed), seed=seed) for size in sizes]
    wanted = _batches(method, rows), [_batches(method, _training_rows_of(one)) for one in runs]
    rounds = round(_carry_on(wanted[1], [one.fit.rounds for one in runs], wanted[0]))
    counts = [float(_training_rows_of(one)) for one in runs]
    crossed = round(_carry_on(counts, [one.fit.bytes for one in runs], rows))
    last = runs[-1]
    learning = _learning_time(counts, [one.fit.seconds for one in runs], rows)
    by_size = sorted(last.releases, key=lambda one: -one.bytes)
    return Candidate(
        method=type(method).__name__,
        why=why,
        bytes=crossed,
        rounds=rounds,
        at_most=at_most,
        line_seconds=crossed * 8 / limits.link + rounds * limits.ping,
        learning_seconds=learning,
        leaves=tuple(dict.fromkeys(one.words for one in by_size if one.phase == "fit")),
        labels_leave=bool(last.label_leaks),
        raw_leaves=any("raw columns" in one.words for one in last.releases),
    )


def _to_the_end(method: Method) -> tuple[Method, bool]:
    """The method with training that does not stop early, where what it sends depends on that."""
    trainer = getattr(method, "trainer", None)
    if method.rounds is not None or not isinstance(trainer, Sgd) or trainer.patience is None:
        return method, False
    return msgspec.structs.replace(method, trainer=msgspec.structs.replace(trainer, patience=trainer.epochs)), True


def _batches(method: Method, rows: float) -> float:
    """How many batches an epoch has, for methods that ask batch by batch; else 1."""
    size: Any = getattr(method, "batch", None) or getattr(getattr(method, "trainer", None), "batch", None)
    return float(ceil(rows / size)) if method.rounds is None and isinstance(size, int) else 1.0


def _carry_on(at: Sequence[float], values: Sequence[float], to: float) -> float:
    """A straight line through two points, carried on; the last value where both are at one place."""
    if at[-1] == at[0]:
        return float(values[-1])
    slope = (values[-1] - values[0]) / (at[-1] - at[0])
    return float(values[-1] + slope * (to - at[-1]))


def _learning_time(at: Sequence[float], seconds: Sequence[float], to: float) -> float:
    """Seconds for so many rows; times of small samples are unsure, so that the slope is kept within bounds."""
    most = seconds[-1] / at[-1]
    slope = (seconds[-1] - seconds[0]) / (at[-1] - at[0]) if at[-1] > at[0] else most
    return seconds[-1] + min(max(slope, most / 5), most) * max(0.0, to - at[-1])


def _sizes(federation: Federation, rows: int) -> tuple[int, ...]:
    """How many training rows each sample has, of all parties together where these have other rows; or all, if few."""
    parts = max(1, len(federation.peers)) if federation.kind == "horizontal" else 1
    wanted = tuple(size * parts for size in _SAMPLES)
    return wanted if rows > wanted[-1] else (rows,)


def _matched(federation: Federation, seed: int) -> Federation:
    """The federation with its rows matched and cut, as a run would have them."""
    if federation.aligned or federation.kind == "horizontal":
        return federation
    return train(_NOTHING, federation, seed=seed).federation


_NOTHING = Solo(trainer=Sgd(epochs=1))


def _training_rows(federation: Federation) -> int:
    if federation.kind == "horizontal":
        return sum(len(federation.tables[name].cut("train")) for name in federation.peers)
    return len(federation.tables[federation.hub].cut("train"))


def _training_rows_of(result: Result) -> int:
    return int(result.data["sampled"])


def _sample(federation: Federation, share: float, seed: int) -> Federation:
    """The same federation with a share of the rows of every cut, shared rows the same at all parties."""
    tables = {name: _sampled(table, share, seed, name, federation) for name, table in federation.tables.items()}
    made = Federation(
        name=federation.name, tables=tables, hub=federation.hub, aligned=federation.aligned, kind=federation.kind
    )
    made.facts["sampled"] = _training_rows(made)
    return made


def _sampled(table: Table, share: float, seed: int, name: str, federation: Federation) -> Table:
    together = federation.kind == "vertical"
    pairs = _sampled_pairs(table, share)
    kept: dict[str, Array] = {}
    for cut in ("public", "train", "valid", "test", "own"):
        if cut not in table.cuts:
            continue
        rows = table.cuts[cut]
        apart = [] if together and cut != "own" else list(name.encode())
        rng = np.random.default_rng([seed, *cut.encode(), *apart])
        some = len(rows) if cut == "public" else min(len(rows), max(2, round(share * len(rows))))
        kept[cut] = rows[np.sort(rng.permutation(len(rows))[:some])]
    if pairs:
        # Pairs, and of all others as many as still belong to the share.
        paired = np.unique(np.concatenate(list(pairs.values())))
        others = np.setdiff1d(kept["own"], paired)[: max(0, len(kept["own"]) - len(paired))]
        kept["own"] = np.sort(np.concatenate([paired, others]))
    at = np.concatenate(list(kept.values()))
    ends = np.cumsum([0, *map(len, kept.values())])
    cuts = {cut: np.arange(ends[number], ends[number + 1]) for number, cut in enumerate(kept)}
    if together:
        cuts["shared"] = np.concatenate([cuts[cut] for cut in ("train", "valid", "test") if cut in cuts])
    now = np.full(table.rows, -1)
    now[at] = np.arange(len(at))
    cuts |= {cut: now[rows] for cut, rows in pairs.items()}
    y, parting = (None if table.y is None else table.y[at]), table.parting
    parting = parting and parting._replace(values=parting.values[at])
    return table.changed(raw=table.raw[at], ids=table.keys[at], y=y, cuts=cuts, parting=parting)


def _sampled_pairs(table: Table, share: float) -> dict[str, Array]:
    """A share of the rows of each cut of pairs: chosen by ids, so that both parties choose the same people."""
    found = {}
    for cut, rows in table.cuts.items():
        if cut.startswith(PAIRED) and len(rows):
            drawn = np.array([crc32(key.encode()) for key in table.keys[rows].tolist()])
            found[cut] = rows[np.sort(np.argsort(drawn, kind="stable")[: max(1, round(share * len(rows)))])]
    return found


def read_link(words: str) -> float:
    """Bits per second from words such as 10Mbit, 1.5 Gbit/s or 512kbit.

    Example:
        >>> read_link("10Mbit"), read_link("512 kbit/s")
        (10000000.0, 512000.0)
    """
    units = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
    plain = words.strip().lower().removesuffix("/s").removesuffix("ps")
    for suffix in ("bits", "bit", "b"):
        plain = plain.strip().removesuffix(suffix)
    plain = plain.strip()
    unit = plain[-1:] if plain[-1:] in ("k", "m", "g") else ""
    try:
        found = float(plain.removesuffix(unit)) * units[unit]
    except ValueError:
        found = 0.0
    if not found > 0:
        raise PlanError(f"--link is a speed in bits per second, such as 10Mbit or 1Gbit, not {words!r}")
    return found
