"""Small federations for tests of methods: three parties on data sets that come with scikit-learn."""

from laconic.data.federation import Federation


def small_federation(kind: str) -> Federation:
    """Three parties on a small data set of a kind of task, all from scikit-learn."""
    from laconic.data.datasets import load
    from laconic.data.partition.columns import Equal, deal

    name = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}[kind]
    return deal(load(name), Equal(parties=3), seed=3, test=0.3)


def small_horizontal(kind: str) -> Federation:
    """Three parties and a server on a small data set of a kind of task, rows dealt with a slight label skew."""
    from laconic.data.datasets import load
    from laconic.data.partition.rows import Dirichlet, Iid, deal_rows

    name = {"binary": "breast_cancer", "multiclass": "digits", "regression": "diabetes"}[kind]
    return deal_rows(load(name), Iid(parties=3) if kind == "regression" else Dirichlet(parties=3, beta=2.0), seed=3)
