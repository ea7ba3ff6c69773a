"""The tables of the VIM study, next to the paper's figures."""

from pathlib import Path

from studies.harness import Record, markdown, write_whole

_PAPER = {"VimAdmm": "96.22 / 96.60 / 96.82", "VimSgd": "95.04 / 96.01 / 96.43", "Vafl": "91.07 / 94.36 / 95.59"}
_TABLE_1 = {"all": 97.12, "most 50%": 96.58, "least 50%": 78.11, "most 20%": 88.72, "least 20%": 29.11}


def write_report(records: list[Record], out: Path) -> None:
    """Write `tables.md`."""
    parts = {part: [one for one in records if one["key"]["part"] == part] for part in _TABLES}
    write_whole(out / "tables.md", "\n".join(_TABLES[part](found) for part, found in parts.items() if found))


def _noisy(records: list[Record]) -> str:
    rows = []
    for one in records:
        scores = one["scores"]
        ours = " / ".join(f"{100 * scores[at - 1]:.2f}" for at in (2, 5, 10) if at <= len(scores))
        method = one["key"]["method"]
        megabytes = f"{one['bytes_up'] / 1e6:.0f} + {one['bytes_down'] / 1e6:.0f}"
        rows.append((method, ours, _PAPER.get(method, "-"), one["rounds"], megabytes, f"{100 * scores[0]:.2f}"))
    head = ("method", "accuracy at epochs 2 / 5 / 10", "paper", "rounds", "MB up + down", "epoch 1")
    key = records[0]["key"]
    return f"## {key['data']}, 14 bands, one noisy party, {key['rows']} rows, seed {key['seed']}\n\n" + markdown(
        head, rows
    )


def _clean(records: list[Record]) -> str:
    rows = [
        (
            one["key"]["data"],
            one["key"]["rows"],
            one["key"]["method"],
            one["metric"],
            " ".join(f"{score:.4f}" for score in one["scores"]),
            one["rounds"],
            f"{(one['bytes_up'] + one['bytes_down']) / 1e6:.1f}",
        )
        for one in records
    ]
    return "## Nobody noisy\n\n" + markdown(("data", "rows", "method", "metric", "by epoch", "rounds", "MB"), rows)


def _importance(records: list[Record]) -> str:
    pairs = ("heads_shapley", "heads_noise", "noise_shapley")
    rows = [
        (one["key"]["data"], one["key"]["method"], len(one["heads"]), *(one[f"spearman_{pair}"] for pair in pairs))
        for one in records
    ]
    head = ("data", "method", "parties", "heads ~ Shapley", "heads ~ noise", "noise ~ Shapley")
    return "## Which parties matter: Spearman correlations\n\n" + markdown(head, rows)


def _denoise(records: list[Record]) -> str:
    rows = [
        (one["party"], one["shrinkage"], f"{one['score']:.4f}", f"{one['score_noisy']:.4f}", one["neighbours_alike"])
        for one in records
    ]
    head = ("noisy party", "its head, in units of before", "accuracy clean", "accuracy noisy", "t-SNE neighbours alike")
    return "## A noisy party's head\n\n" + markdown(head, rows)


def _summarise(records: list[Record]) -> str:
    rows = [(kind, f"{100 * one[kind]:.2f}", paper) for one in records for kind, paper in _TABLE_1.items()]
    return f"## Fewer parties, {records[0]['key']['rows']} rows\n\n" + markdown(("parties", "accuracy", "paper"), rows)


def _privacy(records: list[Record]) -> str:
    rows = [
        (
            one["key"]["case"],
            one["key"]["method"],
            f"{100 * one['accuracy']:.2f}",
            "none" if one["epsilon"] is None else f"{one['epsilon']:.2f}",
            "-" if one["claimed"] is None else f"{one['claimed']:.2f}",
            "; ".join(one["units"]) or "-",
            one["rounds"],
        )
        for one in records
    ]
    head = ("upload", "method", "accuracy", "epsilon that holds", "claimed", "unit", "rounds")
    return f"## Privacy, {records[0]['key']['rows']} rows, delta 1e-5, one party\n\n" + markdown(head, rows)


def _choice(records: list[Record]) -> str:
    rows = [(one["key"]["method"], f"{100 * one['valid_accuracy']:.2f}") for one in records]
    head = ("settings", "accuracy on validation rows after two epochs")
    return "## How settings were chosen, MNIST with one noisy party\n\n" + markdown(head, rows)


def _labels(records: list[Record]) -> str:
    rows = [(one["key"]["method"], f"{100 * one['labels_read']:.2f} %") for one in records]
    return "## Labels one party reads off the downlink\n\n" + markdown(("method", "labels read"), rows)


_TABLES = {
    "noisy": _noisy,
    "clean": _clean,
    "importance": _importance,
    "denoise": _denoise,
    "summarise": _summarise,
    "privacy": _privacy,
    "labels": _labels,
    "choice": _choice,
}
