"""A hub that reports other things about a party than the party signed is found out by `laconic verify`."""

import msgspec
import pytest
from click.testing import CliRunner

from laconic.cli import main
from laconic.deploy import KeyRing, Result, make_key, save_key
from laconic.deploy.statements import check_result, sign_ledger
from laconic.deploy.transports.envelopes.keys import open_ring
from laconic.deploy.transports.envelopes.sealing import Expected, check
from tests.deploy.conftest import World
from tests.deploy.test_training import ONESHOT


def laconic(*words):
    return CliRunner().invoke(main, [*map(str, words)])


@pytest.fixture(scope="module")
def hosted(tmp_path_factory):
    """A result by envelopes, and the bank's key ring, which trusts the shop's key."""
    world = World(tmp_path_factory.mktemp("signed"), parties=("bank", "shop"))
    world.plan(ONESHOT)
    bank, shop = world.home("bank"), world.home("shop")
    mine = ("--party", shop / "shop.toml")
    laconic("seal", shop / "plan.toml", *mine, "-o", world.inbox / "shop-0.envelope")
    host = ("host", bank / "plan.toml", "--party", bank / "bank.toml", "--envelopes", world.inbox)
    for turn in (1, 2):
        laconic(*host)
        question = world.inbox / "questions" / f"shop-fit-{turn}.envelope"
        laconic("answer", shop / "plan.toml", question, *mine, "-o", world.inbox / f"shop-{turn}.envelope")
    result = world.inbox / "result.json"
    assert laconic(*host, "--save", result).exit_code == 0
    return result, bank / "keys"


def altered(path, change):
    """The states that `check_result` finds once a hub has changed its report."""
    result, ring = Result.from_json(path[0].read_bytes()), open_ring(path[1], "bank")
    return [one.state for one in check_result(change(result), ring)]


def with_releases(result, change):
    """The result with the first release of the shop changed, or left out."""
    first = shop_release(result)
    rest = [one for one in result.releases if one is not first]
    return msgspec.structs.replace(result, releases=(*change(first), *rest))


def test_an_honest_report_is_confirmed(hosted):
    found = laconic("verify", hosted[0], "--keys", hosted[1])
    assert found.exit_code == 0, found.output
    said = found.output.splitlines()
    assert "result.json: confirmed: signed by bank" in said[0]
    assert said[1].startswith("shop: confirmed: signed by shop")


CHANGES = {
    "left out": lambda one: (),
    "fewer bytes": lambda one: (msgspec.structs.replace(one, bytes=one.bytes - 1),),
    "more often": lambda one: (msgspec.structs.replace(one, times=one.times + 1),),
    "other words": lambda one: (msgspec.structs.replace(one, words="nothing made from rows"),),
    "other cover": lambda one: (msgspec.structs.replace(one, covered="noise covers it"),),
    "other digest": lambda one: (msgspec.structs.replace(one, digest="0" * 32),),
    "one more": lambda one: (one, msgspec.structs.replace(one, step="learn")),
}
"""What a hub may do to one release in its report."""


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_report_that_differs_from_what_the_party_signed_is_found(hosted, change):
    assert altered(hosted, lambda result: with_releases(result, change)) == ["differs"]


def test_a_signature_that_is_taken_away_or_made_by_the_hub_does_not_confirm(hosted, tmp_path):
    result = Result.from_json(hosted[0].read_bytes())
    entries = [one for one in result.releases if one.party == "shop"]
    own = sign_ledger(make_key("shop"), "shop", result.statements["shop"].plan, entries, final=True)
    # The shop's fingerprint over a signature of the hub's making.
    stolen = msgspec.structs.replace(own, key=result.statements["shop"].key)
    for statements, state in (({}, "unsigned"), ({"shop": own}, "unknown key"), ({"shop": stolen}, "differs")):
        assert altered(hosted, lambda one, s=statements: msgspec.structs.replace(one, statements=s)) == [state]


def test_what_a_party_signed_before_its_last_answer_does_not_confirm(hosted):
    """A hub that leaves out all after the first envelope has the shop's signature of the rest."""
    folder, ring = hosted[0].parent, open_ring(hosted[1], "bank")
    with check(folder / "shop-0.envelope", ring, Expected("answer")).open(ring.own) as opened:
        first = opened.content

    def shaved(result):
        own = [msgspec.structs.replace(shop_release(result), **_said(one)) for one in first.ledger]
        others = [one for one in result.releases if one.party != "shop"]
        assert len(own) < len(result.releases) - len(others)
        return msgspec.structs.replace(result, releases=(*own, *others), statements={"shop": first.statement})

    assert altered(hosted, shaved) == ["unfinished"]


def _said(entry):
    """What an entry of a ledger says, as a hub reports it."""
    return msgspec.structs.asdict(entry) | {"to": "hub"}


def shop_release(result):
    return next(one for one in result.releases if one.party == "shop")


def test_a_statement_about_another_plan_does_not_confirm(hosted):
    def other_plan(result):
        said = msgspec.structs.replace(result.statements["shop"], plan="0" * 32)
        return msgspec.structs.replace(result, statements={"shop": said})

    assert altered(hosted, other_plan) == ["differs"]


def test_a_result_of_nobody_who_signed_ends_with_1_and_says_so(tmp_path):
    save_key(make_key("bank"), tmp_path / "keys")
    run = laconic("run", "Linear", "--data", "breast_cancer", "--save", tmp_path / "run.json")
    assert run.exit_code == 0, run.output
    found = laconic("verify", tmp_path / "run.json", "--keys", tmp_path / "keys")
    assert found.exit_code == 1
    assert "unsigned: it signed nothing" in found.output


def test_a_signed_file_is_confirmed_until_a_byte_of_it_changes(tmp_path):
    secret = make_key("shop")
    save_key(secret, tmp_path / "keys")
    record = tmp_path / "shop.json"
    record.write_text('{"party": "shop"}')
    assert laconic("verify", record, "--keys", tmp_path / "keys").exit_code == 1
    assert laconic("sign", record, "--keys", tmp_path / "keys").exit_code == 0
    found = laconic("verify", record, "--keys", tmp_path / "keys")
    assert (found.exit_code, found.output.split(": ")[1]) == (0, "confirmed")
    record.write_text('{"party": "shoP"}')
    found = laconic("verify", record, "--keys", tmp_path / "keys")
    assert (found.exit_code, found.output.split(": ")[1]) == (1, "forged")
    (tmp_path / "shop.json.signature").write_text("nonsense")
    assert "is no signature" in laconic("verify", record, "--keys", tmp_path / "keys").output


def test_a_key_of_somebody_else_confirms_nothing(hosted):
    result = Result.from_json(hosted[0].read_bytes())
    other = make_key("bank")
    ring = KeyRing(other, {"bank": other.public, "shop": make_key("shop").public})
    assert [one.state for one in check_result(result, ring)] == ["unknown key"]
