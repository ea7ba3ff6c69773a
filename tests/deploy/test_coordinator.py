import shutil
import time

import msgspec
import numpy as np
import pytest

from benchmarks.crashes import same
from laconic import Budget, DataPlan, FedAvg, FedOnce, Linear, OneShot, Plan, VimAdmm, VimSgd, write_plan
from laconic.align import ExactMatch, PrivateMatch
from laconic.core import Party, decode
from laconic.deploy.coordinator import host_run
from laconic.deploy.execute import execute
from laconic.deploy.journal import Journal
from laconic.deploy.party_files import open_site
from laconic.deploy.party_memory import PartyFolder
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.session import online_session
from laconic.deploy.statements import check_result
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.rpc_client import ConnectionBroken
from laconic.errors import DataError, LaconicError, PartyAbsent, PlanError, Refused
from laconic.learn import FixMatchTab, Pca, Sgd
from laconic.plan import plan_fingerprint
from laconic.privacy import DpPca, DpSgd, Pld, PublicProjection, RowsOnce
from tests.deploy.sites import ALL, agree, consortium, make_sites, straight, tapped

BREAST = DataPlan(name="breast_cancer", parties=4)
SHORT = OneShot(width=4, local=FixMatchTab(steps=5), trainer=Sgd(epochs=2))
ONCE = Plan(method=FedOnce(encoder=Pca(dim=2)), data=BREAST)


@pytest.fixture
def sites(tmp_path):
    return make_sites(tmp_path, consortium())


def responders(sites):
    return {name: OnlineResponder(site) for name, site in sites.items() if name != "hub"}


def host(sites, plan, run="one", away=None, deadline=None):
    agree(sites, sites["hub"], plan, run)
    return host_run(sites["hub"], run, straight(responders(sites), away), deadline=deadline)


@pytest.mark.parametrize(
    "plan",
    [
        ONCE,
        Plan(method=VimAdmm(epochs=2), data=BREAST),
        Plan(method=FedAvg(), data=DataPlan(name="breast_cancer", parties=3)),
        Plan(
            method=FedOnce(encoder=DpPca(dim=2, seeded=True), trainer=DpSgd(epochs=3, seeded=True)),
            data=BREAST,
            budget=Budget(epsilon=2.0, accountant=Pld(interval=1e-2)),
        ),
    ],
    ids=["fedonce", "vimadmm", "fedavg", "budget"],
)
def test_a_hosted_run_equals_one_in_process(sites, plan):
    hosted = host(sites, plan)
    assert same(hosted, execute(plan))
    # Sites play the parties of a public set, and sign for them; the label holder beside a server signs too.
    checked = check_result(hosted, sites["hub"].ring, plan=plan_fingerprint(plan))
    assert [one.state for one in checked] == ["confirmed"] * (len(hosted.parties) - 1)
    assert len({hosted.statements[one.whose].signer for one in checked}) == len(checked)


@pytest.fixture
def csvs(tmp_path, sites):
    """Own files at every site, with only some people shared."""
    rng = np.random.default_rng(0)
    plain = {}
    for place, name in enumerate(sites):
        people = np.sort(rng.choice(400, size=300, replace=False))
        x = np.random.default_rng(place).normal(size=(400, 2))[people]
        y = (np.random.default_rng(1).normal(size=(400, 2))[:, 0] > 0)[people]
        lines = [
            f"p{one},{a},{b}" + (f",{label}" if name == "hub" else "")
            for one, (a, b), label in zip(people, x, y, strict=True)
        ]
        head = "who,a,b" + (",churned" if name == "hub" else "")
        (sites[name].folder / "rows.csv").write_text("\n".join([head, *lines]))
        label = 'label = "churned"\n' if name == "hub" else ""
        (sites[name].folder / "party.toml").write_text(
            f'name = "{name}"\n[data]\nsource = "rows.csv"\nkey = "who"\n{label}{ALL}'
        )
        plain[name] = str(sites[name].folder / "party.toml")
    return plain


@pytest.mark.parametrize("match", [ExactMatch(), PrivateMatch(threads=1)], ids=["exact", "private"])
def test_own_files_are_matched_on_the_way_and_the_run_equals_one_in_process(sites, csvs, match):
    plan = Plan(method=Linear(), data=DataPlan(files=csvs, match=match))
    assert same(without_facts(host(sites, plan)), without_facts(execute(plan)))


def without_facts(result):
    kept = {key: result.data[key] for key in ("alignment", "fingerprint", "plan")}
    # Private matching hides ids under a secret drawn anew in each run: other bytes cross, and their digests differ.
    plain = [one if one.phase != "align" else msgspec.structs.replace(one, digest="") for one in result.releases]
    return msgspec.structs.replace(result, data=kept, releases=tuple(plain))


def test_a_run_taken_up_by_a_new_hub_asks_nothing_twice(sites, csvs):
    plan = Plan(method=Linear(), data=DataPlan(files=csvs, match=PrivateMatch(threads=1)))
    first = host(sites, plan)
    (sites["hub"].run("one") / "result").unlink()
    again = host_run(sites["hub"], "one", straight(responders(sites)))
    assert same(first, again)
    times = [release.times for release in again.releases if release.step == "begin"]
    assert times == [1, 1, 1]


def test_a_hub_that_is_taken_up_again_draws_its_secure_noise_as_before(sites):
    plan = Plan(method=FedOnce(encoder=PublicProjection(), trainer=DpSgd(sigma=2.0, epochs=2)), data=BREAST)
    first = host(sites, plan)
    assert same(first, host_run(sites["hub"], "one", straight(responders(sites))))


def test_a_row_is_told_alike_in_a_look_and_in_the_end(sites):
    private = RowsOnce(clip=1.0, sigma=4.0)
    host(sites, Plan(method=VimSgd(epochs=1, width=4, privacy=private), data=BREAST, look_every=1))
    heard = {}
    with Journal(sites["hub"].run("one") / "journal") as journal:
        for note in journal.notes():
            if note.phase in ("look", "final"):
                heard.setdefault(note.party, []).append(journal.reply(journal.find(note)[1]))
    assert len(heard) == 3
    assert {len(set(replies)) for replies in heard.values()} == {1}
    assert min(len(replies) for replies in heard.values()) > 1


def first_upload(sites, run, party):
    """What a party sent first, as the hub has it on its disk."""
    with Journal(sites["hub"].run(run) / "journal") as journal:
        (note,) = (one for one in journal.notes() if (one.step, one.party) == ("begin_and_send", party))
        _, record = journal.find(note)
        return decode(journal.reply(record))


@pytest.mark.parametrize(("seed", "heard"), [("own", False), ("plan", True)])
def test_a_hub_that_knows_the_plan_draws_a_partys_first_weights_only_if_the_party_lets_it(sites, csvs, seed, heard):
    file = sites["site1"].folder / "party.toml"
    file.write_text(f'seed = "{seed}"\n{file.read_text()}')
    plan = Plan(method=SHORT, data=DataPlan(files=csvs, match=ExactMatch()), seed=7)
    host(sites, plan)
    # A hub with the party's very rows: if it had the weights too, it would find just what was sent.
    rows = PartyFolder(sites["site1"].run("one") / "memory").load().data
    redrawn, uploads = Party("site1", rows, plan.seed), []
    for number in range(4):
        redrawn.turn("fit", number)
        uploads.append(SHORT.begin_and_send(redrawn, 4))
    sent = first_upload(sites, "one", "site1")
    assert any(np.array_equal(sent, one) for one in uploads) == heard


def test_a_party_that_is_started_again_keeps_the_chance_it_began_with(sites, csvs, tmp_path):
    plan = Plan(method=SHORT, data=DataPlan(files=csvs, match=ExactMatch()))

    asked = set()

    def tap(site, frame, honest):
        if isinstance(frames.read_asked(frame), frames.Ask):
            if site in asked:
                raise ConnectionBroken("the line broke after the first question")
            asked.add(site)
        return honest(frame)

    with pytest.raises(PartyAbsent), tapped(tap):
        host(sites, plan)
    copied = tmp_path / "copied"
    shutil.copytree(sites["hub"].folder.parent, copied, ignore=shutil.ignore_patterns("copied"))
    others = {name: open_site(copied / name) for name in sites}
    assert same(host(sites, plan), host(others, plan))


def test_fedonce_goes_on_without_an_absent_party_and_others_end_naming_it(sites):
    result = host(sites, ONCE, away={"site2"})
    assert {absence.party for absence in result.absences} == {"insurer"}
    with pytest.raises(PartyAbsent, match="insurer did not answer"):
        host(sites, Plan(method=Linear(), data=BREAST), run="two", away={"site2"})


def test_a_party_that_was_absent_can_come_back_in_a_later_run(sites):
    assert host(sites, ONCE, away={"site2"}).absences
    assert same(host(sites, ONCE, run="two"), execute(ONCE))


def test_a_run_that_ended_for_an_absent_party_goes_on_when_it_is_back(sites):
    plan = Plan(method=Linear(), data=BREAST)
    with pytest.raises(PartyAbsent):
        host(sites, plan, away={"site2"})
    assert same(host(sites, plan), execute(plan))


def test_another_plan_is_refused_with_both_shown(sites):
    agree(sites, sites["hub"], ONCE, "one")
    other = msgspec.structs.replace(ONCE, seed=5)
    (sites["site2"].folder / "plans" / "one.toml").write_text(write_plan(other))
    words = rf"site2 has not agreed to the hub's plan {plan_fingerprint(ONCE)[:8]}.* are {plan_fingerprint(other)[:8]}"
    with pytest.raises(Refused, match=words):
        host_run(sites["hub"], "one", straight(responders(sites)))


def test_rows_matched_otherwise_are_refused_with_both_shown(sites):
    def tap(site, frame, honest):
        said = frames.read_said(honest(frame))
        if site == "site3" and isinstance(said, frames.Welcome):
            said = msgspec.structs.replace(said, alignment="beef" * 8)
        return frames.write(said)

    with pytest.raises(DataError, match=r"bank [0-9a-f]{8}, .* telecom beefbeef"), tapped(tap):
        host(sites, ONCE)


def test_a_refusal_by_a_partys_rules_reaches_the_hub_in_its_words(sites):
    (sites["site3"].folder / "party.toml").write_text('name = "site3"\n[allow]\nmethods = ["SplitNN"]')
    with pytest.raises(Refused, match=r"telecom does not allow FedOnce; the methods .* lists: SplitNN"):
        host(sites, ONCE)


def test_a_late_party_is_absent_when_the_deadline_has_passed(sites):
    def tap(site, frame, honest):
        slow = site == "site1" and isinstance(frames.read_asked(frame), frames.Ask)
        return frames.write(frames.Working()) if slow and not time.sleep(0.05) else honest(frame)

    with tapped(tap):
        result = host(sites, ONCE, deadline=3.0)
    assert {absence.party for absence in result.absences} == {"shop"}


def test_own_files_of_other_parties_are_refused_on_several_machines():
    files = {"hub": "hub.csv", "north": "north.csv"}
    with pytest.raises(PlanError, match=r"the plan is for hub, north, but parties\.toml for hub, site1"):
        online_session(Plan(method=FedAvg(), data=DataPlan(files=files, label="diagnosis")), consortium())


@pytest.mark.parametrize("name", ["site1", "hub"])
def test_a_site_learns_on_the_device_of_its_own_party_file(name, sites):
    file = sites[name].folder / "party.toml"
    file.write_text(f'device = "cuda"\n{file.read_text()}')
    words = 'device = "cuda": torch finds no such device on this machine'
    with pytest.raises(LaconicError, match=words if name == "hub" else "could not answer; its own log has the details"):
        host(sites, ONCE)
    assert name == "hub" or words in sites[name].log.read_text()
