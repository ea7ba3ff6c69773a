"""Keys that each party makes itself: requests, replies, and what is refused of both."""

import json
import shutil
import stat

import pytest

from laconic.atomic_files import hold
from laconic.deploy import Consortium, HubAddress, open_site, seal_plan
from laconic.deploy.coordinator import open_inbox
from laconic.deploy.transports.envelopes.keys import KeyRefused, UnknownKey, make_key, revoke
from laconic.deploy.transports.flare.operating import accept_reply, host, make_request, provision, read_request
from laconic.errors import PlanError

CIRCLE = Consortium(project="churn", hub=HubAddress(name="bank", address="localhost"), parties=("shop",))


def read_truly(key):
    return key.fingerprint


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The shop's own site, the bank's, and the bank's reply, before the shop has accepted it."""
    folder = tmp_path_factory.mktemp("own keys")
    make_request("shop", folder / "shop")
    provision(CIRCLE, folder / "bank", None, folder / "shop", read_truly)
    return folder


@pytest.fixture
def places(made, tmp_path):
    shutil.copytree(made, tmp_path / "here")
    return tmp_path / "here"


def test_nothing_secret_is_in_a_request_or_in_a_reply(made):
    secrets = [path.read_text().split("-----")[2][:64] for path in made.rglob("*.key")]
    secrets += [path.read_text().split("-----")[2][:64] for path in made.rglob("*.secret")]
    sent = [made / "shop" / "shop.request", *(made / "bank" / "shop.reply").iterdir()]
    assert {path.name for path in sent} == {"shop.request", "bank.public", "client.crt", "parties.toml", "rootCA.pem"}
    text = "".join(path.read_text() for path in sent)
    assert "PRIVATE" not in text
    assert len(secrets) >= 4
    assert not [one for one in secrets if one in text]


def test_private_keys_are_their_owners_to_read_and_stay_when_asked_for_again(places):
    own = [places / "shop" / "kit" / "startup" / "client.key", places / "shop" / "keys" / "shop.secret"]
    before = [path.read_bytes() for path in own]
    assert {stat.S_IMODE(path.stat().st_mode) for path in own} == {0o600}
    make_request("shop", places / "shop")
    assert [path.read_bytes() for path in own] == before


def test_an_accepted_reply_makes_a_site_that_knows_its_hub_and_keeps_what_the_party_wrote(places):
    (places / "shop" / "party.toml").write_text('name = "shop"\n[allow]\nmethods = []\n')
    assert accept_reply(places / "shop", places / "bank" / "shop.reply", read_truly) == "shop"
    shop, bank = open_site(places / "shop"), open_site(places / "bank" / "bank")
    assert shop.ring.named("bank") == bank.ring.own.public
    assert bank.ring.named("shop") == shop.ring.own.public
    assert shop.party_file.allow == {"methods": []}
    assert not shop.plans()


def test_what_locks_a_site_down_is_the_partys_own_and_not_the_hubs(places):
    """A hostile hub, or who carries the reply, adds settings that would let jobs bring code."""
    reply = places / "bank" / "shop.reply"
    (reply / "local").mkdir()
    (reply / "kit" / "local").mkdir(parents=True)
    for place in (reply / "local", reply / "kit" / "local"):
        (place / "resources.json").write_text('{"class_list_enforcement_mode": "off", "components": []}')
    accept_reply(places / "shop", reply, read_truly)
    resources = json.loads((places / "shop" / "kit" / "local" / "resources.json").read_text())
    assert resources["class_list_enforcement_mode"] == "enforce"


def test_digits_that_do_not_agree_end_it_at_the_hub_and_at_the_party(places):
    with pytest.raises(KeyRefused, match="do not use it before the two agree"):
        provision(CIRCLE, places / "again", None, places / "shop", lambda key: make_key("shop").public.fingerprint)
    assert not (places / "again").exists()
    with pytest.raises(KeyRefused, match="do not use it before the two agree"):
        accept_reply(places / "shop", places / "bank" / "shop.reply", lambda key: "1 2 3")
    assert not (places / "shop" / "parties.toml").exists()


@pytest.mark.parametrize("field", ["public", "engine", "signature"])
def test_a_request_put_together_from_two_is_refused(places, field):
    other, _ = make_request("shop", places / "other")
    path = places / "shop" / "shop.request"
    mixed = json.loads(path.read_text()) | {field: json.loads(other.read_text())[field]}
    path.write_text(json.dumps(mixed))
    with pytest.raises(KeyRefused, match="is no request of shop, or a damaged one"):
        read_request(path, "shop")


def test_a_request_in_another_partys_name_and_one_that_is_missing_are_refused(places):
    make_request("insurer", places / "insurer")
    shutil.copy(places / "insurer" / "insurer.request", places / "shop" / "shop.request")
    with pytest.raises(KeyRefused, match="is no request of shop"):
        read_request(places / "shop" / "shop.request", "shop")
    with pytest.raises(PlanError, match="shop makes it with `laconic request shop`"):
        read_request(places / "nowhere.request", "shop")


def test_a_reply_to_somebody_elses_request_is_refused(places):
    make_request("shop", places / "other")
    with pytest.raises(KeyRefused, match="does not answer the request of shop"):
        accept_reply(places / "other", places / "bank" / "shop.reply", read_truly)
    with pytest.raises(PlanError, match="holds no keys of shop"):
        accept_reply(places / "nobody", places / "bank" / "shop.reply", read_truly)


def test_a_site_of_before_says_how_to_make_its_keys(places):
    shutil.rmtree(places / "bank" / "bank" / "keys")
    with pytest.raises(PlanError, match="make its keys with `laconic request bank"):
        open_site(places / "bank" / "bank").ring  # noqa: B018


def test_no_party_is_called_as_the_engine_calls_the_hub():
    with pytest.raises(ValueError, match="no party can be called server"):
        Consortium(project="churn", hub=CIRCLE.hub, parties=("shop", "server"))


def test_a_second_host_command_from_a_site_is_refused_and_says_what_to_do(places):
    site = open_site(places / "bank" / "bank")
    plan = places / "plan.toml"
    plan.write_text('[method]\ntype = "FedOnce"\n[data]\nname = "breast_cancer"\n')
    with hold(site.folder / "hosting") as held, pytest.raises(PlanError, match="another `laconic host` is running"):
        assert held
        host(site, plan, print, wait=1.0, deadline=0.0)
    assert not list((site.folder / "runs").iterdir())


def test_an_envelope_of_a_key_that_was_taken_out_is_refused(world):
    world.plan('[method]\ntype = "Linear"')
    seal_plan(world.context("shop"), world.inbox / "shop.envelope")
    revoke(world.home("bank") / "keys", "shop")
    with pytest.raises(UnknownKey):
        open_inbox(world.context("bank"), world.inbox).take_in()


FILES = "files = {{ bank = 'bank.{end}', {other} = '{other}.{end}' }}"
PUBLIC = "name = 'breast_cancer'"


@pytest.mark.parametrize(
    ("method", "data", "words"),
    [
        (
            "FedAvg",
            FILES.format(end="csv", other="shop") + "\nlabel = 'ill'",
            "each party of FedAvg describes",
        ),
        ("FedOnce", FILES.format(end="toml", other="lab"), "is for bank, lab, but"),
        ("FedOnce", f"{PUBLIC}\nparties = 4", "among 3 parties beside the hub"),
        ("SplitNN", f"{PUBLIC}\nparties = 2\n[budget]\nepsilon = 1", "cannot be promised"),
    ],
)
def test_no_site_is_made_for_a_plan_that_cannot_be_hosted(tmp_path, method, data, words):
    (tmp_path / "plan.toml").write_text(f"[method]\ntype = '{method}'\n[data]\n{data}\n")
    with pytest.raises(PlanError, match=words):
        provision(CIRCLE, tmp_path / "sites", tmp_path / "plan.toml")
    assert not (tmp_path / "sites").exists()
