"""Sites of parties on different machines, as their owners type it; no engine is started."""

import pytest
from click.testing import CliRunner

from laconic.cli import main

PARTIES = 'project = "churn"\nparties = ["shop"]\n[hub]\nname = "bank"\naddress = "localhost"\n'


def laconic(*words):
    return CliRunner().invoke(main, [*map(str, words)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with sites, and what `provision` printed."""
    folder = tmp_path_factory.mktemp("circle")
    (folder / "parties.toml").write_text(PARTIES)
    return folder / "sites", laconic("provision", folder / "parties.toml", "-o", folder / "sites")


def test_provision_makes_a_site_for_everyone(made):
    sites, outcome = made
    assert outcome.exit_code == 0, outcome.output
    assert outcome.stdout.split() == [str(sites / "bank"), str(sites / "shop")]
    assert 'name = "shop"' in (sites / "shop" / "party.toml").read_text()
    keys = [path.read_bytes() for path in sorted(sites.rglob("*.key"))]
    assert len(keys) == len(set(keys)) >= 2


def test_status_and_stop_say_that_nothing_runs(made):
    sites, _ = made
    assert laconic("status", sites / "bank").output == "engine: not running\n"
    assert laconic("stop", sites / "shop").output == "shop: was not running\n"


def test_join_refuses_the_hubs_site_and_a_folder_that_is_none(made):
    sites, _ = made
    outcome = laconic("join", sites / "bank")
    assert outcome.exit_code == 2
    assert f"bank is the hub; start it with `laconic host PLAN.toml --site {sites / 'bank'}`" in outcome.output
    assert "is no site; make sites with `laconic provision" in laconic("join", sites / "nobody").output


def test_a_party_makes_its_own_keys_and_takes_in_the_hubs_reply(tmp_path):
    (tmp_path / "parties.toml").write_text(PARTIES)
    asked = laconic("request", "shop", "-o", tmp_path / "shop")
    assert asked.exit_code == 0, asked.output
    digits = asked.output.splitlines()[-1].strip()
    sites = ("provision", tmp_path / "parties.toml", "-o", tmp_path / "sites", "--requests", tmp_path / "shop")
    assert laconic(*sites, "--fingerprint", "1 2 3").exit_code != 0
    made = laconic(*sites, "--fingerprint", digits)
    assert made.exit_code == 0, made.output
    reply = made.stdout.split()[1]
    wrong = laconic("accept", tmp_path / "shop", reply, "--fingerprint", digits)
    assert wrong.exit_code == 1
    assert "do not use it before the two agree" in wrong.output
    taken = laconic("accept", tmp_path / "shop", reply, "--fingerprint", made.stderr.splitlines()[-1].strip())
    assert taken.exit_code == 0, taken.output
    assert (tmp_path / "shop" / "party.toml").exists()
