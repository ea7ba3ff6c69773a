"""How the files in `kept` were made: by the commands below, with Laconic 0.1.0 before files and classes were renamed.

Do not run it again over them: they are there to show that what was written then can still be read. Only commands that
users type are used, so that it can make the files of a later format beside these.

    python -m tests.formats.make NEW_FOLDER
"""

import subprocess
import sys
from pathlib import Path

PEOPLE = range(48)
SHORT = ("method.trainer.epochs=3", "method.trainer.batch=16")
PLANS = {
    "fedonce": ("FedOnce", "columns", SHORT),
    "linear": ("Linear", "columns", ()),
    "oneshot": (
        "OneShot",
        "columns",
        (
            *("method.net.type=Ensemble", "method.net.net.type=Mlp", "method.net.net.hidden=[4]", "method.width=4"),
            *("method.head.type=SummedHeads", "method.local.type=FixMatchTab", "method.local.steps=5", *SHORT),
        ),
    ),
    "fedavg": ("FedAvg", "rows", ("method.net.type=Mlp", "method.net.hidden=[4]", *SHORT)),
    "fedkt": ("FedKt", "public", ("method.model.type=Forest", "method.model.trees=3", "method.teachers=2")),
}
"""Plans by name: the method, what its files have, and its settings."""


def main() -> None:
    """Write everything into an empty folder."""
    folder = Path(sys.argv[1]).absolute()
    folder.mkdir()
    write_tables(folder)
    for name, (method, files, settings) in PLANS.items():
        said = [word for setting in settings for word in ("--set", setting)]
        (folder / f"{name}.toml").write_text(laconic(folder, "plan", method, *data_options(files), *said))
        laconic(folder, "run", f"{name}.toml", "--save", f"{name}.result.json", "--model", f"{name}.model")
        new = ["bank.csv", "shop.csv"] if files == "columns" else ["north.csv"]
        laconic(folder, "predict", f"{name}.model", "--files", *new, "--out", f"{name}.scores.csv")
    journal = ("--set", "runtime.type=Journalled", "--set", "runtime.folder=linear.journal")
    laconic(folder, "run", "linear.toml", *journal, "--save", "journalled.result.json")
    make_envelope(folder)


def write_tables(folder: Path) -> None:
    """Two files of the same people, and three of the same columns."""
    lines = {"bank": ["id,age,income,churned"], "shop": ["id,visits,region"]}
    for one in PEOPLE:
        lines["bank"].append(f"p{one:02d},{one * 37 % 101},{one * 53 % 89},{('no', 'yes')[one * 37 % 101 > 50]}")
        lines["shop"].append(f"p{one:02d},{one * 71 % 97},{'abc'[one % 3]}")
    for start, name in enumerate(("north", "south", "public")):
        lines[name] = lines["bank"][:1] + lines["bank"][1 + start :: 3]
    for name, written in lines.items():
        (folder / f"{name}.csv").write_text("\n".join([*written, ""]))


def data_options(files: str) -> list[str]:
    """What says which files, and what is in them."""
    if files == "columns":
        return ["--files", "bank.csv", "shop.csv", "--id", "id", "--label", "churned"]
    public = ["--set", "data.public=public.csv"] if files == "public" else []
    return ["--files", "north.csv", "south.csv", "--id", "id", "--label", "churned", *public]


def make_envelope(folder: Path) -> None:
    """The shop's answers to a plan, sealed for the bank, with everybody's keys and what the shop kept of the run."""
    for name, label in (("bank", 'label = "churned"\n'), ("shop", "")):
        rows = f'[data]\nsource = "../{name}.csv"\nkey = "id"\n{label}'
        allow = '[allow]\nmethods = ["Linear", "AgreedIds"]\n'
        home = folder / f"envelope-{name}"
        home.mkdir()
        (home / f"{name}.toml").write_text(f'name = "{name}"\nseed = "plan"\n{rows}{allow}')
        laconic(home, "keys", name)
    files = 'files = {bank = "bank.toml", shop = "shop.toml"}'
    plan = f'method.type = "Linear"\n[data]\n{files}\nmatch.type = "AgreedIds"\n'
    for own, other in (("bank", "shop"), ("shop", "bank")):
        home, public = folder / f"envelope-{own}", folder / f"envelope-{other}" / "keys" / f"{other}.public"
        shown = laconic(home, "keys", "--show", str(public))
        digits = " ".join(word for word in shown.split() if word.isdigit())
        laconic(home, "keys", "--trust", str(public), "--fingerprint", digits)
        (home / "plan.toml").write_text(plan)
    inbox = folder / "envelope-bank" / "inbox"
    inbox.mkdir()
    sealing = ("--party", "shop.toml", "--days", "3650", "-o", str(inbox / "shop.envelope"))
    laconic(folder / "envelope-shop", "seal", "plan.toml", *sealing)


def laconic(folder: Path, *words: str) -> str:
    """Run a command in a folder; what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "laconic", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"laconic {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
