"""The command line. Only the chosen command imports what it needs: help must come at once."""

import click

from laconic.cli.add import add
from laconic.cli.audit import audit
from laconic.cli.compare import compare
from laconic.cli.demo import demo
from laconic.cli.disclose import disclose
from laconic.cli.doctor import doctor
from laconic.cli.forget import forget
from laconic.cli.group import Commands, debug_option
from laconic.cli.host import host
from laconic.cli.keys import keys
from laconic.cli.lists import data, methods
from laconic.cli.mail import answer, open_envelopes, seal
from laconic.cli.online import join, provision, status, stop
from laconic.cli.plan import plan
from laconic.cli.predict import predict
from laconic.cli.privacy import privacy
from laconic.cli.report import report
from laconic.cli.run import run
from laconic.cli.serve import serve


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laconic")
@debug_option
def main() -> None:
    """Federated learning that speaks seldom: one exchange where others need thousands.

    \b
    See what it does:      laconic demo
    Run a method:          laconic run FedOnce --data breast_cancer --parties 3
    On your own files:     laconic run FedOnce --files bank.csv shop.csv --id customer --label churned
    """  # noqa: D301 (click keeps the lines below a backspace as they are)


_TRIALS = (demo, run, compare, report, disclose, plan, methods, data, privacy, audit, doctor)
_APART = (provision, join, host, status, stop, keys, seal, answer, open_envelopes)
_AFTERWARDS = (predict, serve, add, forget)
for _command in (*_TRIALS, *_APART, *_AFTERWARDS):
    main.add_command(_command)
