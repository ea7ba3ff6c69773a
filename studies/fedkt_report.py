"""The tables of the FedKT study: what the paper claims beside what was measured."""

from functools import lru_cache
from itertools import product

import numpy as np

from laconic.privacy import GaussianVotes, LaplaceVotes
from laconic.privacy.mechanisms.votes import WARNING
from studies.fedkt_paper import BUDGETS, CURVE, NOISES, PAPER_1, PAPER_3, PORTIONS, Private
from studies.fedkt_runs import VOTES, one_exchange, spread_of
from studies.fedkt_settings import SETTINGS
from studies.harness import Record, markdown, mean_spread


def report(records: list[Record]) -> str:
    """All tables, of what there is so far."""
    small = SETTINGS["Fashion-MNIST"].every
    parts = [
        "# FedKT: what was claimed, what we measure\n",
        "Accuracy in percent on test rows, mean ± standard deviation over seeds (how many in brackets).\n",
        "## Table 1: one exchange\n",
        _table_1(records),
        "PooledRows is XGBoost on all rows. Fashion-MNIST stands in for SVHN, with every "
        f"{small}th of its rows: the paper has no figures for it.\n",
        "## Table 2: privacy, delta 1e-5\n",
        _table_2(records),
        f"Warning: {WARNING}. The paper prints the data-dependent one.\n",
        "A share is of the held-out quarter, public and test rows together, as the paper's experiments count it. Rows "
        "with true labels say what the same model makes of as many public rows if nobody errs. At L2 the paper prices "
        "the answers of one partition; ours are of all, for a row is in every one of them.\n",
        "## Within a budget, delta 1e-5\n",
        _table_budget(records),
        "`FedKt.within` chose labels, noise and, at L2, teachers. Votes are smoothed, and cut at classes' shares: at "
        "L2 those of noisy counts, at L1 those of the labelled tenth of parties' rows that the server keeps there. The "
        "epsilon is that of the ledgers, whatever the votes are.\n",
        "## Table 3: share of the public rows used\n",
        _table_3(records),
        "## Many exchanges (appendix B.3 in kind), MNIST, accuracy after each\n",
        _table_curve(records),
    ]
    return "\n".join(parts)


def _table_1(records: list[Record]) -> str:
    rows = []
    for name, setting in SETTINGS.items():
        for word in one_exchange(setting):
            there = _those(records, table=1, data=name, method=word)
            if there:
                megabytes = f"{np.mean([one['bytes'] for one in there]) / 1e6:.2f}"
                rows.append((name, word, PAPER_1[name].get(word, ""), _percent(there), megabytes))
    return markdown(("data", "method", "paper", "measured", "MB"), rows)


def _table_2(records: list[Record]) -> str:
    rows = [row for name, lines in NOISES.items() for line in lines for row in _rows_2(records, name, line)]
    head = ("data", "level", "share", "gamma", "partitions x teachers", "noise", "labels asked for", "paper epsilon")
    return markdown((*head, "paper accuracy", "data-dependent epsilon", "independent epsilon", "accuracy"), rows)


def _rows_2(records: list[Record], name: str, line: Private) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    key = {"table": 2, "data": name, "level": line.level, "share": line.share}
    claimed = (line.epsilon, line.accuracy)
    for partitions, teachers in line.shards:
        for noise in ("LaplaceVotes", "GaussianVotes"):
            shards = {"gamma": line.gamma, "partitions": partitions, "teachers": teachers}
            there = _those(records, **key, **shards, noise=noise)
            if there:
                independent = _independent(noise, line, partitions, there[0]["asked"])
                dependent = mean_spread([min(one["dependent"], independent) for one in there], 2)
                prices = [dependent, f"{independent:.2f}"]
                start = (name, line.level, f"{line.share:.1%}", line.gamma, f"{partitions} x {teachers}", noise)
                paper = claimed if noise == "LaplaceVotes" else ("", "")
                rows.append((*start, there[0]["asked"], *paper, *prices, _percent(there)))
    known = _those(records, **key, noise="none, true labels")
    if known:
        asked = ("none, true labels", known[0]["asked"])
        rows.append((name, line.level, f"{line.share:.1%}", "", "", *asked, "", "", "", "", _percent(known)))
    return rows


@lru_cache
def _independent(noise: str, line: Private, partitions: int, asked: int) -> float:
    """What so many labels cost whatever the votes are, by privacy loss distributions; of records, it needs none."""
    moved, answers = (partitions, asked) if line.level == "L1" else (1, partitions * asked)
    kind = LaplaceVotes(gamma=line.gamma) if noise == "LaplaceVotes" else GaussianVotes(sigma=spread_of(line.gamma))
    return kind.price(np.zeros((answers, 2)), moved, 1e-5).independent


def _table_budget(records: list[Record]) -> str:
    rows = []
    for name, lines in BUDGETS.items():
        for (level, epsilon), answers in product(lines, VOTES):
            there = _those(records, table="budget", data=name, level=level, epsilon=epsilon, answers=answers)
            if there:
                shown = [mean_spread([float(one[part]) for one in there], 1) for part in ("labels", "sigma")]
                spent = f"{max(one['spent'] for one in there):.2f}"
                rows.append((name, level, epsilon, answers, *shown, spent, _percent(there)))
    head = ("data", "level", "budget", "answers", "labels asked for", "sigma", "epsilon spent", "accuracy")
    return markdown(head, rows)


def _table_3(records: list[Record]) -> str:
    rows = []
    for name, paper in PAPER_3.items():
        found = [_those(records, table=3, data=name, public=keep) for keep in PORTIONS[:-1]]
        found.append(_those(records, table=1, data=name, method="FedKt"))
        rows += [(name, "paper", *paper), (name, "measured", *(_percent(there) if there else "" for there in found))]
    return markdown(("data", "", *(f"{keep:.0%}" for keep in PORTIONS)), rows)


def _table_curve(records: list[Record]) -> str:
    there = [one for one in records if one["key"]["table"] == "curve"]
    rows = [(one["key"]["method"], *(f"{100 * value:.1f}" for value in one["curve"])) for one in there]
    return markdown(("method", *(str(number + 1) for number in range(CURVE))), rows)


def _those(records: list[Record], **key: object) -> list[Record]:
    return [record for record in records if key.items() <= record["key"].items()]


def _percent(records: list[Record]) -> str:
    return f"{mean_spread([100 * one['accuracy'] for one in records], 1)} ({len(records)})"
