"""The command line. Only the chosen command imports what it needs: help must come at once."""

import click

from laconic import __version__
from laconic.cli.advise import advise, data, demo, methods
from laconic.cli.doctor import doctor
from laconic.cli.envelopes import answer, keys, open_envelopes, seal, sign, verify
from laconic.cli.models import add, export, forget, home, predict
from laconic.cli.online import accept, host, join, provision, request, status, stop
from laconic.cli.options import Commands, debug_option
from laconic.cli.privacy import audit, privacy, widths
from laconic.cli.report import disclose, ledger, report
from laconic.cli.run import compare, plan, reproduce, run
from laconic.cli.serve import serve


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="laconic")
@debug_option
def main() -> None:
    """Federated learning that speaks seldom: one exchange where others need thousands.

    \b
    See what it does:      laconic demo
    Run a method:          laconic run FedOnce --data breast_cancer --parties 3
    On your own files:     laconic run FedOnce --files bank.csv shop.csv --id customer --label churned
    Which method suits:    laconic advise --files bank.csv shop.csv --id customer --label churned
    """


_TRIALS = (demo, advise, run, compare, reproduce, report, disclose, ledger, plan, methods, data, privacy, audit)
_FILES = (widths, doctor)
_APART = (request, provision, accept, join, host, status, stop, keys, seal, answer, open_envelopes, sign, verify)
_AFTERWARDS = (home, predict, serve, add, forget, export)
for _command in (*_TRIALS, *_FILES, *_APART, *_AFTERWARDS):
    main.add_command(debug_option(_command))
