"""What a server can undo of random projections (RAP).

Each attack sees what the server sees and, where said, something it may know beside. None knows a matrix. `sent` is one
party's upload, rows by mixed columns. See `laconic.audit.leverage` for known rows whose places are not known.
"""

from itertools import combinations

import numpy as np

from laconic.audit.whitening import standardise, whiten
from laconic.core.values import Array, Rng


def recover_from_known_rows(sent: Array, known: Array, at: Array) -> Array:
    """All columns of all rows, from some rows known in full together with their places.

    Exact for every row that is a mixture of known rows; as many independent known rows as columns make that all rows,
    and far fewer make it most rows where columns are flags of categories.

    Args:
        known: the known rows, in the party's own columns.
        at: which rows of `sent` they are.
    """
    return np.asarray(sent.astype(np.float64) @ np.linalg.lstsq(sent[at].astype(np.float64), known, rcond=None)[0])


def unmix(sent: Array, rng: Rng) -> Array:
    """The columns, up to order, sign and scale, from their being independent and not normal; nothing is known.

    Independent component analysis. Finds flags and skewed or flat columns; columns that depend on each other come out
    mixed with one another.
    """
    from warnings import catch_warnings, simplefilter

    from sklearn.decomposition import FastICA

    white, seed = whiten(sent), int(rng.integers(2**31))
    found = []
    # Tails tell most columns apart, skewness those flags, of about one in five rows, whose tails are as a normal's.
    for contrast in ("cube", _skewing):
        model = FastICA(whiten=False, fun=contrast, max_iter=300, tol=1e-5, random_state=seed)
        with catch_warnings():
            simplefilter("ignore")  # a component that has not settled is still a finding, scored like the others
            found.append(np.asarray(model.fit_transform(white)))
    return max(found, key=lambda parts: float(_strangeness(parts).sum()))


def unmask_single(sent: Array, rng: Rng) -> Array:
    """The one column that was mixed with a pseudo column, up to sign and scale: of two components the less normal."""
    parts = unmix(sent, rng)
    return np.asarray(parts[:, _strangeness(parts).argmax()])


def pair_codes(sent: Array, codes: Array) -> list[tuple[int, int]]:
    """Which two codes belong to one class: the two whose rows are most alike on average.

    Args:
        sent: all parties' mixed columns side by side.
        codes: the code of each row, as sent by the label holder.
    """
    white, names = whiten(sent), np.unique(codes)
    means = np.stack([white[codes == code].mean(axis=0) for code in names])
    counts = np.array([np.sum(codes == code) for code in names])
    # Squared distance of two means in units of what it would be by chance if they were of one class.
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
    a, b = standardise(truth), standardise(found)
    return np.asarray(np.abs(a.T @ b / len(a)).max(axis=1))


def share_recovered(found: Array, truth: Array, within: float = 0.01) -> float:
    """The share of rows in which every column was found to within this share of its standard deviation."""
    scale = np.maximum(truth.std(axis=0), 1e-12)
    return float(np.mean((np.abs(found - truth) <= within * scale).all(axis=1)))


def _strangeness(parts: Array) -> Array:
    """How far from normal each column is: squared skewness and excess, weighed as in the expansion of negentropy."""
    plain = standardise(parts)
    return np.asarray((plain**3).mean(axis=0) ** 2 / 12 + ((plain**4).mean(axis=0) - 3) ** 2 / 48)


def _skewing(parts: Array) -> tuple[Array, Array]:
    return parts**2, (2 * parts).mean(axis=-1)


def _with_squares(white: Array) -> Array:
    return np.concatenate([np.ones((len(white), 1)), white, white**2], axis=1)
