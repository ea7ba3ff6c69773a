"""FedOnce's tables at the paper's settings, as `laconic reproduce fedonce` runs them, beside the paper's figures."""

from laconic.plan import read_table
from laconic.report.published import cells, lines_on, run_published
from studies.harness import arguments, markdown, write_whole

TABLES = {"7": ("phishing", 3), "5": ("superconduct", 3), "6": ("phishing", 1)}
"""The data set and number of seeds of each table that two idle cores run in an hour; images take days."""


def main() -> None:
    """Run what is not in the results yet, and write a file for each table as it is done."""
    chosen = arguments(__doc__ or "", "studies/results/fedonce_published", parts=tuple(TABLES))
    for number in [chosen.part] if chosen.part else list(TABLES)[: 1 if chosen.quick else None]:
        data, seeds = TABLES[number]
        lines = lines_on(read_table("fedonce", number), data, quick=chosen.quick)
        results = run_published(lines, range(1 if chosen.quick else seeds), chosen.out / "results.jsonl")
        about = (
            f"# FedOnce as published: table {number}\n\n`laconic reproduce fedonce --table {number} --data {data}`: "
        )
        about += f"test rows, seeds 0 to {len(results[0]) - 1}. *Better by* is above 0 where ours is better.\n\n"
        head = ("arm", f"{lines[0].row.metric}, ours", "paper", "better by", "preset", "code")
        rows = [cells(line, runs) for line, runs in zip(lines, results, strict=True)]
        write_whole(chosen.out / f"table{number}.md", f"{about}## {data}\n\n{markdown(head, rows)}")


if __name__ == "__main__":
    main()
