"""What a server can undo of random projections (RAP).

Each attack sees what the server sees and, where stated, something it may know besides. None knows a matrix. `sent` is
one party's upload, rows by mixed columns.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy.stats import kurtosis, skew
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.preprocessing import scale

from laconic.audit.attacks import Finding
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng, track

_MOST_ROWS = 20_000
"""Attacks look at no more rows of an upload than this; more only help them."""

_KNOWN = 300
"""How many rows an attacker knows who has to find their places first: some of them must stand out."""


def attack_rap(
    task: Task, tables: Mapping[str, Table], sent: Mapping[str, Array], hidden: Array | None, y: Array, rng: Rng
) -> Iterator[Finding]:
    """What a server can do with one upload of mixed training columns from each party, and with hidden labels.

    Args:
        task: what the labels are.
        tables: the parties' own rows; used to judge the attacks, and for the few that an attacker is said to know.
        sent: each party's mixed training rows.
        hidden: the label holder's codes or pairs of numbers; None if they stayed at home.
        y: the true labels; used to judge only.
    """
    for name in (list(sent)[place] for place in track(len(sent), "mixed uploads attacked")):
        truth, public = (tables[name].part(cut)[0].astype(np.float64) for cut in ("train", "test"))
        kept = rng.permutation(len(truth))[:_MOST_ROWS]
        yield from _attack_mixed(name, sent[name][kept], truth[kept], public, rng)
    if hidden is None or not sent:
        return
    x, knows = np.hstack(list(sent.values())), "all mixed columns, and the hidden labels"
    if task.kind == "regression":
        found = best_correlations(unmask_numeric_label(x, hidden)[:, None], y[:, None].astype(np.float64))
        measure, success, baseline = "correlation with the label, without sign", float(found[0]), 0.0
    else:
        owner = {int(code): int(np.bincount(y[hidden == code]).argmax()) for code in np.unique(hidden)}
        right = [owner[one] == owner[other] for one, other in pair_codes(x, hidden)]
        measure, success = "share of pairs of codes that belong to one class", float(np.mean(right))
        baseline = 1 / max(len(owner) - 1, 1)  # One of the other codes, drawn at random.
    yield Finding(attack="hidden labels", knows=knows, measure=measure, success=success, baseline=baseline)


def _attack_mixed(name: str, sent: Array, truth: Array, public: Array, rng: Rng) -> Iterator[Finding]:
    """One party's columns, from nothing but their spread, and from rows known without their places."""
    measure = "mean correlation of its columns with what was found, without sign"
    if sent.shape[1] > 1:
        yield Finding(
            attack=f"columns of {name}, by independent components",
            knows=f"what {name} sent",
            measure=measure,
            success=float(best_correlations(unmix(sent, rng), truth).mean()),
            baseline=float(best_correlations(rng.standard_normal(sent.shape), truth).mean()),
        )
    count = min(_KNOWN, len(truth) // 3)
    if min(count, len(public)) < max(12, truth.shape[1] + 2):
        return  # Too few rows to find the population's spread, or rows that stand out.
    known = rng.choice(len(truth), count, replace=False)
    who, where = match_by_leverage(sent, truth[known], public)
    rebuilt = recover_from_known_rows(sent, truth[known[who]], where)
    yield Finding(
        attack=f"columns of {name}, by matching rows of the same leverage",
        knows=f"what {name} sent, {count} of its rows in full but not their places, and {len(public):,} other people",
        measure=measure,
        success=float(best_correlations(rebuilt, truth).mean()),
        baseline=float(best_correlations(rng.standard_normal(sent.shape), truth).mean()),
    )


def whiten(rows: Array, like: Array | None = None) -> Array:
    """Rows less the mean, turned and scaled to unit spread in every direction.

    Lengths of whitened rows and angles between them are the same before and after any invertible mixing of columns.

    Args:
        like: the rows whose mean and spread to use; None takes these rows themselves.
    """
    like = (rows if like is None else like).astype(np.float64)
    mean = like.mean(axis=0)
    spreads, directions = np.linalg.eigh(np.cov(like - mean, rowvar=False).reshape(like.shape[1], -1))
    carries = spreads > 1e-9 * spreads[-1]
    return np.asarray((rows - mean) @ (directions[:, carries] / np.sqrt(spreads[carries])))


@limit_threads()
def recover_from_known_rows(sent: Array, known: Array, at: Array) -> Array:
    """All columns of all rows, from some rows known in full together with their places.

    Exact for every row that is a mixture of known rows; as many independent known rows as columns make that all rows,
    and far fewer make it most rows where columns are flags of categories.

    Args:
        known: the known rows, in the party's own columns.
        at: which rows of `sent` they are.
    """
    return np.asarray(sent.astype(np.float64) @ np.linalg.lstsq(sent[at].astype(np.float64), known, rcond=None)[0])


@limit_threads()
def unmix(sent: Array, rng: Rng) -> Array:
    """The columns, up to order, sign and scale, from their being independent and not normal; nothing is known.

    Independent component analysis. Finds flags and skewed or flat columns; columns that depend on each other come out
    mixed with one another.
    """
    from sklearn.decomposition import FastICA

    white, seed = whiten(sent), int(rng.integers(2**31))
    found = []
    # Tails separate most columns; skewness separates flags set in about one of five rows, whose tails look normal.
    for contrast in ("cube", _skewing):
        model = FastICA(whiten=False, fun=contrast, max_iter=300, tol=1e-5, random_state=seed)
        with catch_warnings():
            simplefilter("ignore")  # A component that has not settled is still a finding, scored like the others.
            found.append(np.asarray(model.fit_transform(white)))
    return max(found, key=lambda parts: float(_strangeness(parts).sum()))


def unmask_single(sent: Array, rng: Rng) -> Array:
    """The one column that was mixed with a pseudo column, up to sign and scale: of two components the less normal."""
    parts = unmix(sent, rng)
    return np.asarray(parts[:, _strangeness(parts).argmax()])


def pair_codes(sent: Array, codes: Array) -> list[tuple[int, int]]:
    """Which two codes belong to one class: the two whose rows are closest on average.

    Args:
        sent: all parties' mixed columns side by side.
        codes: the code of each row, as sent by the label holder.
    """
    white, names = whiten(sent), np.unique(codes)
    means = np.stack([white[codes == code].mean(axis=0) for code in names])
    counts = np.array([np.sum(codes == code) for code in names])
    # Squared distance of two means in units of what is expected if they are of one class.
    gaps = {
        (i, j): float(np.sum((means[i] - means[j]) ** 2) / (1 / counts[i] + 1 / counts[j]))
        for i, j in combinations(range(len(names)), 2)
    }
    pairs: list[tuple[int, int]] = []
    while gaps:
        i, j = min(gaps, key=lambda pair: gaps[pair])
        pairs.append((int(names[i]), int(names[j])))
        gaps = {pair: gap for pair, gap in gaps.items() if not {i, j} & set(pair)}
    return pairs


def unmask_numeric_label(sent: Array, hidden: Array) -> Array:
    """The numeric label of each row, up to sign and scale, from the two numbers sent for it.

    The pseudo label cannot be predicted from any column. So, of all mixtures of the two numbers, the label is the one
    that the columns predict best.

    Args:
        sent: all parties' mixed columns side by side.
        hidden: the two numbers sent for each row.
    """
    white = whiten(hidden)
    x = _with_squares(whiten(sent))
    predicted = x @ np.linalg.lstsq(x, white, rcond=None)[0]
    _, directions = np.linalg.eigh(predicted.T @ predicted)
    return np.asarray(white @ directions[:, -1])


def best_correlations(found: Array, truth: Array) -> Array:
    """For each true column, its greatest correlation (without sign) with any found column; 0 for a constant one."""
    a, b = (scale(values.astype(np.float64)) for values in (truth, found))
    return np.asarray(np.abs(a.T @ b / len(a)).max(axis=1))


def share_recovered(found: Array, truth: Array, within: float = 0.01) -> float:
    """The share of rows in which every column was found to within this share of its standard deviation."""
    spread = np.maximum(truth.std(axis=0), 1e-12)
    return float(np.mean((np.abs(found - truth) <= within * spread).all(axis=1)))


def _strangeness(parts: Array) -> Array:
    """How far from normal each column is: squared skewness and excess, weighed as in the expansion of negentropy."""
    return np.asarray(skew(parts) ** 2 / 12 + kurtosis(parts) ** 2 / 48)


def _skewing(parts: Array) -> tuple[Array, Array]:
    return parts**2, (2 * parts).mean(axis=-1)


def _with_squares(white: Array) -> Array:
    return np.concatenate([np.ones((len(white), 1)), white, white**2], axis=1)


_CANDIDATES = 250
"""How many rows of about the right length are considered per known row."""

_BEAM = (8000, 200)
"""How many partial matchings are followed at once: of up to eight rows, and of more, when few still fit."""

_CLOSE = 0.05
"""How far lengths and angles are usually off, as the population's spread is known from a sample only."""


def match_by_leverage(sent: Array, known: Array, public: Array) -> tuple[Array, Array]:
    """Which rows of one party's upload some known rows are.

    A row's leverage, its length in units of the population's spread, is the same under every invertible mixing, and so
    are angles between rows. The longest known rows are matched to rows of the same lengths and angles. That gives the
    map between the two whitened spaces, and the map gives the rows nearest to all other known rows.

    Args:
        sent: rows by mixed columns, in an unknown order.
        known: rows known in full, in the party's own columns; a few hundred, so that some stand out.
        public: a sample of the population in the same columns, for its mean and spread.

    Returns:
        Positions in `known`, and for each the position in `sent` it was matched to: the better half of all known rows.
    """
    there = whiten(sent)
    here = whiten(known, like=public)
    first = np.argsort(-_lengths(here))[: max(12, here.shape[1] + 2)]
    mapping = _rotation(here[first], there[_rows_with_these_angles(here[first], there)])
    for _ in range(15):
        nearest, distances = pairwise_distances_argmin_min(here @ mapping, there)
        best = np.argsort(distances / np.maximum(_lengths(here), 1e-9))[: max(len(here) // 2, 1)]
        mapping = np.linalg.lstsq(here[best], there[nearest[best]], rcond=None)[0]
    return best, nearest[best]


def _rotation(here: Array, there: Array) -> Array:
    """The rotation that brings rows here closest to rows there, which the library wants to be of the same width."""
    left, _, right = np.linalg.svd(here.T @ there, full_matrices=False)
    return np.asarray(left @ right)


def _rows_with_these_angles(here: Array, there: Array) -> Array:
    """For each row here one row there, found one after the other by following the best partial matchings."""
    lengths, wanted = _lengths(there), _lengths(here)
    cosines = cosine_similarity(here)
    candidates = np.stack([np.argsort(np.abs(lengths - length))[:_CANDIDATES] for length in wanted])
    paths = candidates[0][:, None]
    costs = _surprise(lengths[paths[:, 0]] / wanted[0] - 1)
    for i in range(1, len(here)):
        rows = candidates[i]
        steps = costs[:, None] + _surprise(lengths[rows] / wanted[i] - 1)
        for j in range(i):
            some = np.sort(candidates[j])
            found = cosine_similarity(there[some], there[rows])[np.searchsorted(some, paths[:, j])]
            steps += _surprise(found - cosines[i, j])
        kept = np.argsort(steps, axis=None)[: _BEAM[i >= 8]]
        came, went = np.unravel_index(kept, steps.shape)
        paths, costs = np.column_stack([paths[came], rows[went]]), steps[came, went]
    return np.asarray(paths[0])


def _surprise(off: Array) -> Array:
    """How badly a length or an angle fits; bounded, so that one bad fit does not end a good matching."""
    return np.minimum((off / _CLOSE) ** 2, 9.0)


def _lengths(rows: Array) -> Array:
    return np.asarray(np.linalg.norm(rows, axis=1))
