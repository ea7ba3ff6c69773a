"""The tables of `studies.vertical_trees`: scores, which head is better, score against bytes, cost of encryption."""

from collections.abc import Mapping

from studies.harness import Record, markdown, mean_spread

_LOWER = ("rmse",)


def best_label(records: list[Record], name: str, method: str, metric: str) -> str:
    """The settings of a method that scored best on validation rows; of equally good ones the first."""
    tried = [r for r in records if (r["key"]["what"], r["key"]["data"], r["key"]["method"]) == ("choice", name, method)]
    sign = 1 if metric in _LOWER else -1
    found: str = min(tried, key=lambda record: sign * record["value"])["key"]["settings"]
    return found


def tables(records: list[Record], metric: Mapping[str, str]) -> str:
    """All tables as one page."""
    scores = [record for record in records if record["key"]["what"] == "score"]
    names = list(dict.fromkeys(record["key"]["data"] for record in scores))
    parts = ["# Trees over parted columns, and trees at the label holder\n"]
    for name in names:
        here = [record for record in scores if record["key"]["data"] == name]
        parts.append(f"## {name} ({metric[name]} on test rows)\n\n{_scores(here)}")
    parts.append("## Does a label holder's tree head beat its net?\n\n" + _verdicts(scores, names, metric))
    parts.append("## Score against bytes (VerticalXgboost, best splits, seed 0)\n\n" + _curves(scores, names))
    costs = [record for record in records if record["key"]["what"] == "cost"]
    parts.append("## What encryption costs: the same few trees of depth 3, 32 bins\n\n" + _costs(costs))
    choices = [record for record in records if record["key"]["what"] == "choice"]
    parts.append("## How settings were chosen: validation rows of seed 0\n\n" + _choices(choices))
    return "\n".join(parts)


def _scores(here: list[Record]) -> str:
    rows = []
    for method in dict.fromkeys(record["key"]["method"] for record in here):
        runs = [record for record in here if record["key"]["method"] == method]
        values = [record["value"] for record in runs if record["value"] is not None]
        score = mean_spread(values) if len(values) == len(runs) else "one tree is more than that"
        first, settings = runs[0], runs[0]["key"]["settings"]
        used = f"{first['processor_seconds']:.1f}" if "processor_seconds" in first else ""
        rows.append((method, settings, score, len(runs), f"{first['bytes']:,}", f"{first['rounds']:,}", used))
    return markdown(("method", "settings", "score", "seeds", "bytes", "rounds", "processor s"), rows)


def _verdicts(scores: list[Record], names: list[str], metric: Mapping[str, str]) -> str:
    rows = []
    for name in names:
        for method in ("FedOnce", "Rap"):
            net, trees = (_values(scores, name, f"{method}, {head}") for head in ("net", "trees"))
            pairs = list(zip(net, trees, strict=False))
            better = sum((tree < one) == (metric[name] in _LOWER) and tree != one for one, tree in pairs)
            rows.append((name, method, mean_spread(net), mean_spread(trees), f"{better} of {len(pairs)}"))
    return markdown(("data", "method", "net", "trees", "seeds on which trees are better"), rows)


def _values(scores: list[Record], name: str, method: str) -> list[float]:
    here = [record for record in scores if (record["key"]["data"], record["key"]["method"]) == (name, method)]
    return [record["value"] for record in here]


def _curves(scores: list[Record], names: list[str]) -> str:
    rows = []
    for name in names:
        curve: list[list[float]] = next((r["curve"] for r in scores if r["key"]["data"] == name and r["curve"]), [])
        rows += [(name, 5 * place + 1, f"{spent:,.0f}", f"{value:.4f}") for place, (spent, value) in enumerate(curve)]
    return markdown(("data", "trees (for each class)", "bytes", "score"), rows)


def _costs(costs: list[Record]) -> str:
    rows = [
        (
            record["key"]["data"],
            record["key"]["settings"],
            f"{record['value']:.6f}",
            f"{record['bytes_up']:,}",
            f"{record['bytes'] - record['bytes_up']:,}",
            f"{record['processor_seconds']:.1f}",
        )
        for record in costs
    ]
    return markdown(("data", "what is sent", "score", "bytes up", "bytes down", "processor s"), rows)


def _choices(choices: list[Record]) -> str:
    rows = [
        (record["key"]["data"], record["key"]["method"], record["key"]["settings"], f"{record['value']:.4f}")
        for record in choices
    ]
    return markdown(("data", "method", "settings", "score"), rows)
