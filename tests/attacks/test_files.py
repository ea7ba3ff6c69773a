"""Attacks 11, 12, 14 and 16: what a party or a hub keeps on its disk."""

import os

import pytest

from tests.attacks.harness import (
    HUB,
    LIMITED,
    PRIVATE,
    Mail,
    Trial,
    keep_and_load,
    laconic,
    make_model,
    provision,
    readable_by_others,
    serve_part,
    times_noted,
)


@pytest.fixture(params=[0o000, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.slow
def test_a_party_reads_back_whatever_it_wrote(tmp_path):
    """As many values as a table of ten million people has ids."""
    try:
        found = len(keep_and_load(tmp_path, {"many": [0] * 10_000_001})["many"])
    except Exception as problem:
        found = str(problem)
    assert found == 10_000_001


def test_two_servers_of_one_part_lose_nothing_of_what_left(tmp_path):
    """Each writes the ledger down; the second may as well be refused while the first is there."""
    make_model(tmp_path)
    saving = times_noted(tmp_path, "find_rows")
    first, second = serve_part(tmp_path), serve_part(tmp_path)
    asked = 0
    with first:
        asked += first.find(["c00001"])
        if second is not None:
            with second:
                asked += second.find(["c00002"])
                asked += second.find(["c00003"])
    noted = times_noted(tmp_path, "find_rows") - saving
    assert noted == asked, f"of {asked} answers {noted} are in the ledger"


def test_nobody_else_can_read_what_a_party_keeps_of_a_run(tmp_path, umask):
    trial = Trial(tmp_path)
    trial.host()
    hub = trial.hub(run="long")
    hub.greet()
    hub.send_part(b"a part of a long question, which may hold anything")
    assert readable_by_others(trial.site("shop") / "runs") == []


def test_nobody_else_can_read_what_a_hub_keeps_of_a_run(tmp_path, umask):
    trial = Trial(tmp_path)
    trial.host()
    assert readable_by_others(trial.site(HUB) / "runs") == []


def test_nobody_else_can_read_what_is_kept_of_a_run_by_envelope(tmp_path, umask):
    mail = Mail(tmp_path, agreed=40)
    mail.seal_plan()
    assert readable_by_others(tmp_path / "shop" / "runs") == []


def test_nobody_else_can_read_a_partys_part_of_a_model(tmp_path, umask):
    make_model(tmp_path)
    assert readable_by_others(tmp_path / "model") == []


def test_the_hub_never_has_another_partys_private_key(tmp_path):
    sites = provision(tmp_path, own_keys=True)
    theirs = [str(path.relative_to(sites)) for path in sites.rglob("*.key") if HUB not in path.parts]
    assert not [path for path in theirs if path.startswith("shop")], f"the hub made {theirs}"


def test_making_all_keys_at_the_hub_says_what_it_means(tmp_path):
    assert "private key" in laconic("provision", "--help").output


def test_nobody_else_can_read_keys_or_sites(tmp_path, umask):
    """The public halves may well be read; what is around them is closed all the same."""
    Mail(tmp_path, agreed=4)
    assert [
        one for one in readable_by_others(tmp_path / "shop") if not one.endswith((".public", ".csv", ".toml"))
    ] == []
    assert readable_by_others(provision(tmp_path, own_keys=False) / "shop") == []


def test_nobody_else_can_read_the_keys_that_a_party_makes_itself(tmp_path, umask):
    provision(tmp_path, own_keys=True)
    private = [path for path in (tmp_path / "shop").rglob("*") if path.suffix in (".key", ".secret") or path.is_dir()]
    assert len(private) >= 2
    assert not [path for path in private if path.stat().st_mode & 0o077]


def test_nobody_else_can_read_a_partys_account(tmp_path, umask):
    trial = Trial(tmp_path, method=PRIVATE, allow=f"{LIMITED}max_epsilon = 100.0\n")
    trial.host()
    account = tmp_path / "shop.account"
    assert (account / "spent.db").exists()
    assert not account.stat().st_mode & 0o077 and readable_by_others(account) == []
