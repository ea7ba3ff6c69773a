"""The mends of the account, each of which can be switched off, to see whether random sequences would find that."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from laconic.align import alignment
from laconic.core import Ledger
from laconic.deploy import EpsilonAccount, PartyFolder, party_account, policy, responder
from laconic.deploy.party_account import Limit
from laconic.deploy.policy import Gatekeeper
from laconic.inference.server.party import ServingRules

Patch = pytest.MonkeyPatch


def overwrite_reservations(patch: Patch) -> None:
    """A greeting puts what it expects of a run in the place of what the run reserved and released."""
    reserved = party_account._reserved
    patch.setattr(party_account, "_reserved", lambda run, *rest: reserved(party_account._Run(), *rest))


def check_before_writing(patch: Patch) -> None:
    """The limit is looked at in one transaction, and the entry made in another."""
    reserve, write = EpsilonAccount.reserve, EpsilonAccount.write
    no_limit = Limit("", float("inf"), 1e-5)

    def reserve_later(account: EpsilonAccount, run: str, noises: Any, limit: Limit) -> None:
        limit.refuse(account.expected(run, noises, limit.delta))
        reserve(account, run, noises, no_limit)

    def write_later(account: EpsilonAccount, run: str, ledger: Ledger, limit: Limit | None, before: str = "") -> None:
        if limit is not None:
            limit.refuse(party_account._epsilon(account._after(run, ledger, before), limit.delta))
        write(account, run, ledger, None, before)

    patch.setattr(EpsilonAccount, "reserve", reserve_later)
    patch.setattr(EpsilonAccount, "write", write_later)


def cut_again(patch: Patch) -> None:
    """Rows may be matched a second time within a run, otherwise than before."""
    patch.setattr(alignment, "is_aligned", lambda *_: False)


def keep_account_in_the_site(patch: Patch) -> None:
    """The account is in the site's folder, which goes when the site is made anew."""
    patch.setattr(party_account, "account_folder", lambda file: Path(file.path).parent / "account")


def call_runs_as_the_hub_does(patch: Patch) -> None:
    """A run is called in the account as the hub calls it, and what a folder has forgotten is not noticed."""
    begin = responder.OnlineResponder._begin

    class Named:
        name = ""

        @staticmethod
        def token_hex(_: int) -> str:
            return Named.name

    def begin_named(desk: Any, run: str, session: Any) -> Any:
        Named.name = run
        return begin(desk, run, session)

    patch.setattr(responder, "secrets", Named)
    patch.setattr(responder.OnlineResponder, "_begin", begin_named)
    forget_marks(patch)


def forget_marks(patch: Patch) -> None:
    """A run whose folder was put back from a copy is not noticed."""
    patch.setattr(policy, "mark_of", lambda _: "")


def serve_for_nothing(patch: Patch) -> None:
    """A model in use answers without an entry in the account."""
    patch.setattr(ServingRules, "release", lambda *_: None)


def pay_after_keeping(patch: Patch) -> None:
    """An answer is paid for once it is kept, and no more in the same transaction: a crash may come between."""
    release, answer = Gatekeeper.release, PartyFolder._answer

    def release_later(rules: Any, *given: Any) -> None:
        if "unpaid" in vars(rules):
            rules.unpaid.append(given)
        else:
            release(rules, *given)

    def answer_first(kept: Any, script: Any, blob: bytes, rules: Any, expected: str | None) -> Any:
        rules.unpaid = []
        found = answer(kept, script, blob, rules, expected)
        for given in vars(rules).pop("unpaid"):
            release(rules, *given)
        return found

    patch.setattr(Gatekeeper, "release", release_later)
    patch.setattr(PartyFolder, "_answer", answer_first)


MENDS: dict[str, Callable[[Patch], None]] = {
    "a greeting overwrites reservations": overwrite_reservations,
    "check and write in two transactions": check_before_writing,
    "rows cut again within a run": cut_again,
    "account in the site's folder": keep_account_in_the_site,
    "runs called as the hub does": call_runs_as_the_hub_does,
    "folders put back unnoticed": forget_marks,
    "serving unpriced": serve_for_nothing,
    "paid after the answer is kept": pay_after_keeping,
}
"""By what happens without them."""


@contextmanager
def without(mend: str) -> Iterator[None]:
    """The code with one of the mends switched off."""
    with pytest.MonkeyPatch.context() as patch:
        MENDS[mend](patch)
        yield
