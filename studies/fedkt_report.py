"""The tables of the FedKT study: what the paper claims beside what was measured."""

import numpy as np

from laconic.privacy.mechanisms.votes import WARNING
from studies.fedkt_paper import CURVE, NOISES, PAPER_1, PAPER_3, PORTIONS, Private
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
        "## Table 3: share of the public rows used\n",
        _table_3(records),
        "## Many exchanges (appendix B.3 in kind), MNIST, accuracy after each\n",
        _table_curve(records),
    ]
    return "\n".join(parts)


def _table_1(records: list[Record]) -> str:
    rows = []
    for name, setting in SETTINGS.items():
        for method in (*setting.others(), setting.fedkt()):
            word = type(method).__name__
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
                prices = [mean_spread([one[kind] for one in there], 2) for kind in ("dependent", "independent")]
                start = (name, line.level, f"{line.share:.1%}", line.gamma, f"{partitions} x {teachers}", noise)
                paper = claimed if noise == "LaplaceVotes" else ("", "")
                rows.append((*start, there[0]["asked"], *paper, *prices, _percent(there)))
    known = _those(records, **key, noise="none, true labels")
    if known:
        asked = ("none, true labels", known[0]["asked"])
        rows.append((name, line.level, f"{line.share:.1%}", "", "", *asked, "", "", "", "", _percent(known)))
    return rows


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
