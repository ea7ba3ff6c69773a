"""Start-up kits for FLARE: certificates for everyone, and sites locked down to the code that they have installed."""

import json
import shutil
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from laconic.core.errors import MissingExtra

ADMIN = "hub@laconic.local"
"""The one user, who submits runs; its kit stays at the hub."""

ALLOWED = (
    "laconic.runtime.flare",
    "laconic.online.flare_jobs",
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
)
"""The only classes that a site builds for a job."""

_BUILDERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("nvflare.lighter.impl.workspace.WorkspaceBuilder", {"template_file": ["master_template.yml"]}),
    ("nvflare.lighter.impl.static_file.StaticFileBuilder", {"config_folder": "config"}),
    ("nvflare.lighter.impl.cert.CertBuilder", {}),
    ("nvflare.lighter.impl.signature.SignatureBuilder", {}),
)


def make_kits(folder: Path, project: str, hub: str, address: str, port: int, parties: tuple[str, ...]) -> None:
    """Make a kit for everyone, in `folder/NAME/kit`; the hub's also has one for its user, in `folder/NAME/admin`.

    Args:
        folder: where to.
        project: the name of the whole.
        hub: the hub's name. address: its host name, as the certificates have it. port: where it listens.
        parties: the names of all others.
    """
    with tempfile.TemporaryDirectory(dir=folder) as workspace:
        made = Path(_provision(Path(workspace), project, address, port, parties))
        for name in (hub, *parties):
            shutil.copytree(made / (address if name == hub else name), folder / name / "kit")
            _lock_down(folder / name / "kit")
        shutil.copytree(made / ADMIN, folder / hub / "admin")


def keep_storage_here(kit: Path) -> None:
    """Let a hub keep jobs and snapshots in its own kit, wherever that is now, not where all users of a machine do."""
    path = kit / "local" / "resources.json"
    resources = json.loads(path.read_text())
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(kit.absolute() / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(kit.absolute() / "jobs")
    path.write_text(json.dumps(resources, indent=2))


def _provision(workspace: Path, project: str, address: str, port: int, parties: tuple[str, ...]) -> str:
    try:
        from nvflare.lighter.prov_utils import prepare_builders
        from nvflare.lighter.provision import prepare_project
        from nvflare.lighter.provisioner import Provisioner
    except ImportError as problem:
        raise MissingExtra("nvflare", "flare") from problem
    org = {"org": "laconic"}
    plain: dict[str, Any] = {
        "api_version": 3,
        "name": project,
        "description": "made by laconic",
        "participants": [
            {"name": address, "type": "server", "fed_learn_port": port} | org,
            *({"name": party, "type": "client"} | org for party in parties),
            {"name": ADMIN, "type": "admin", "role": "lead"} | org,
        ],
        "builders": [{"path": path, "args": args} for path, args in _BUILDERS],
    }
    with redirect_stdout(StringIO()):
        context = Provisioner(str(workspace), prepare_builders(plain)).provision(prepare_project(plain))
    return str(context.get_result_location())


def _lock_down(kit: Path) -> None:
    """Let a site build our classes only, run no code that comes with a job, open no shell, and send no logs."""
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text())
    resources["class_list_enforcement_mode"] = "enforce"
    resources["class_allow_list"] = list(ALLOWED)
    resources["allow_log_streaming"] = False
    logs = ("site_log_streamer", "log_receiver")
    resources["components"] = [one for one in resources["components"] if one["id"] not in logs]
    (local / "resources.json").write_text(json.dumps(resources, indent=2))
    nothing = dict.fromkeys(("byoc", "shell_commands", "server-predeployed-flwr", "clone_job", "download_job"), "none")
    lead = {"submit_job": "any", "manage_job": "n:submitter", "view": "any", "operate": "o:site"} | nothing
    rules = {"format_version": "1.0", "permissions": {"lead": lead}}
    (local / "authorization.json").write_text(json.dumps(rules, indent=2))
    for script in ("start.sh", "sub_start.sh", "stop_fl.sh"):
        (kit / "startup" / script).unlink(missing_ok=True)  # `laconic join` and `laconic host` start sites.
