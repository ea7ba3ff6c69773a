"""A hub that reports an online run otherwise than it went is found out, as it is by envelope."""

import json
from threading import Event

import msgspec
import pytest

from laconic import FedOnce
from laconic.deploy import open_site
from laconic.deploy.statements import check_result
from tests.attacks.harness import HUB, Trial, laconic, was_answered, was_refused
from tests.attacks.test_signed_records import CHANGES, with_releases

PARTIES = ("shop", "insurer")


@pytest.fixture(scope="module")
def hosted(tmp_path_factory):
    """Two online runs of one plan, and what the shop would have signed in the middle of the first."""
    trial = Trial(tmp_path_factory.mktemp("online"), parties=PARTIES)
    return trial, [trial.host(run) for run in ("one", "two")]


def states(trial, result):
    return {one.whose: one.state for one in check_result(result, open_site(trial.site(HUB)).ring)}


def saved(trial, result, name="result.json"):
    path = trial.root / name
    result.save(path)
    return path


def test_an_honest_report_of_an_online_run_is_confirmed(hosted):
    trial, (result, _) = hosted
    assert states(trial, result) == dict.fromkeys(PARTIES, "confirmed")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_report_that_differs_from_what_a_party_signed_online_is_found(hosted, change):
    trial, (result, _) = hosted
    assert states(trial, with_releases(result, change)) == {"shop": "differs", "insurer": "confirmed"}


def test_a_statement_of_another_run_of_the_same_plan_does_not_confirm(hosted):
    trial, (result, other) = hosted
    mixed = msgspec.structs.replace(
        result,
        statements=result.statements | {"shop": other.statements["shop"]},
        releases=tuple(one for one in result.releases if one.party != "shop")
        + tuple(one for one in other.releases if one.party == "shop"),
    )
    assert "differs" in states(trial, mixed).values()


def test_a_party_that_signed_its_ledger_answers_nothing_new_in_that_run(tmp_path):
    """Otherwise a hub has the ledger signed in the middle of a run, goes on, and shows that one."""
    trial = Trial(tmp_path)
    hub = trial.hub()
    hub.greet()
    hub.match()
    first = hub.unsigned_question("learn_and_send")
    before = hub.say(first)
    signed = hub.end()
    assert signed["statement"]["final"]
    for _ in range(2):
        said = hub.ask("represent", "final", rows="test")
        assert was_refused(said)
        assert "signed all that it gave away" in said["words"]
        assert hub.say(first) == before, "what was answered before is said again"
        assert hub.end()["entries"] == signed["entries"]
        trial.restart("shop")
        hub.greet()


def test_an_answer_under_way_when_a_run_ends_is_in_what_is_signed(tmp_path, monkeypatch):
    trial, slow = Trial(tmp_path), Event()
    hub = trial.hub()
    hub.greet()
    hub.match()
    learn = FedOnce.learn_and_send

    def wait_and_learn(self, party):
        slow.wait(20)
        return learn(self, party)

    wait_and_learn.__dict__.update(learn.__dict__)
    monkeypatch.setattr(FedOnce, "learn_and_send", wait_and_learn)
    monkeypatch.setattr(trial.desks["shop"], "_wait", 0.1)
    question = hub.unsigned_question("learn_and_send")
    assert hub.say(question)["type"] == "Working"
    assert hub.end()["type"] == "Working"
    slow.set()
    while (ended := hub.end())["type"] == "Working":
        pass
    assert "learn_and_send" in [one["step"] for one in ended["entries"]]
    assert hub.say(question)["type"] == "Answer"


def test_a_run_that_nothing_was_asked_in_is_over_too(tmp_path):
    trial = Trial(tmp_path)
    hub = trial.hub()
    hub.greet()
    assert hub.end()["entries"] == []
    trial.restart("shop")
    hub.greet()
    assert not was_answered(hub.ask("show_ids", "align"))


def test_a_hub_that_fell_after_ledgers_were_signed_ends_the_run_as_it_would_have(hosted, tmp_path):
    trial = Trial(tmp_path, parties=PARTIES)
    ended = []

    def falls(name, frame, honest):
        said = honest(name, frame)
        if b"EndRun" in frame and name == "shop":
            ended.append(said)
            raise KeyboardInterrupt
        return said

    with pytest.raises(RuntimeError, match="the hub fell"):
        trial.host(bring=falling(falls))
    again = trial.host()
    assert ended
    assert states(trial, again) == dict.fromkeys(PARTIES, "confirmed")


def falling(bring):
    """A line that ends the hub: what is raised in a thread of it is the hub's to hear."""

    def line(name, frame, honest):
        try:
            return bring(name, frame, honest)
        except KeyboardInterrupt:
            raise RuntimeError("the hub fell") from None

    return line


def test_one_key_does_not_sign_for_two_parties(hosted):
    trial, (result, _) = hosted
    shop = result.statements["shop"]
    assert states(trial, msgspec.structs.replace(result, statements={"shop": shop, "insurer": shop})) == {
        "shop": "differs",
        "insurer": "differs",
    }


def test_verify_compares_with_the_plan_that_is_named_and_looks_at_who_is_named(hosted):
    trial, (result, _) = hosted
    path = saved(trial, result)
    assert laconic("sign", path, "--keys", trial.site(HUB) / "keys").exit_code == 0
    plan, other = trial.site("shop") / "plans" / "plan.toml", trial.root / "other.toml"
    other.write_text(plan.read_text().replace("seed = 3", "seed = 4"))
    keys = ("--keys", trial.site(HUB) / "keys")
    assert laconic("verify", path, "--plan", plan, *keys).exit_code == 0
    said = laconic("verify", path, "--plan", other, *keys)
    assert (said.exit_code, said.output.count("which is not the one named")) == (1, 2)
    at_shop = ("--keys", trial.site("shop") / "keys")
    assert "insurer: unknown key" in laconic("verify", path, *at_shop).output
    alone = laconic("verify", path, "--party", "shop", *at_shop)
    assert (alone.exit_code, alone.output.count("confirmed")) == (0, 2)
    assert "was not asked in this run" in laconic("verify", path, "--party", "bakery", *at_shop).output


def test_a_result_that_the_hub_did_not_sign_is_not_confirmed(hosted):
    trial, (result, _) = hosted
    path = saved(trial, result, "unsigned.json")
    said = laconic("verify", path, "--keys", trial.site(HUB) / "keys")
    assert (said.exit_code, "unsigned.json: unsigned" in said.output) == (1, True)
    assert laconic("sign", path, "--keys", trial.site(HUB) / "keys").exit_code == 0
    assert laconic("verify", path, "--keys", trial.site(HUB) / "keys").exit_code == 0
    changed = json.loads(path.read_text())
    changed["releases"] = [one for one in changed["releases"] if one["party"] != HUB]
    path.write_text(json.dumps(changed))
    assert "unsigned.json: forged" in laconic("verify", path, "--keys", trial.site(HUB) / "keys").output


def test_a_party_signs_its_disclosure_record_only_if_the_report_is_what_it_signed(hosted):
    trial, (result, _) = hosted
    path, record, keys = saved(trial, result), trial.root / "shop-record.json", trial.site("shop") / "keys"
    said = laconic("disclose", path, "--party", "shop", "-o", record, "--keys", keys)
    assert said.exit_code == 0, said.output
    assert laconic("verify", record, "--keys", keys).exit_code == 0
    shaved = saved(trial, with_releases(result, CHANGES["left out"]), "shaved.json")
    record = trial.root / "shaved-record.json"
    said = laconic("disclose", shaved, "--party", "shop", "-o", record, "--keys", keys)
    assert (said.exit_code != 0, "is not what it signed" in said.output) == (True, True)
    assert not record.exists()
    said = laconic("disclose", path, "--party", "insurer", "-o", record, "--keys", keys)
    assert "is the key of shop" in said.output
