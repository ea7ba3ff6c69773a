"""Start FLARE at a site, hand it runs, and see how they go."""

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from laconic.atomic_files import append_private, make_private_folder
from laconic.errors import LaconicError, MissingExtra

ADMIN = "hub@laconic.local"
"""The one user, who submits runs; its kit stays at the hub."""

ALLOWED = (
    "laconic.deploy.transports.flare.components",
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


KEY, CERTIFICATE, ROOT = "client.key", "client.crt", "rootCA.pem"
"""The engine's private key at a party, the certificate of it, and that of who signed it; in `startup` of a kit."""


def make_kits(places: dict[str, Path], project: str, address: str, port: int, requests: dict[str, Any]) -> None:
    """Make a kit for everyone, in `kit` of the place named, the hub's first; the hub's user has one in `admin` there.

    Args:
        address: the hub's; the certificates hold it.
        requests: public keys of parties that made their own; these get certificates, and nothing else.
    """
    hub, *parties = places
    with tempfile.TemporaryDirectory(dir=places[hub].parent) as workspace:
        context = _provision(Path(workspace), project, address, port, tuple(parties))
        made = Path(context.get_result_location())
        for name, place in places.items():
            make_private_folder(place)  # Before keys are in it.
            source = made / (address if name == hub else name)
            if name in requests:
                (place / CERTIFICATE).write_bytes(_certify(context, project, name, requests[name]))
                shutil.copy(source / "startup" / ROOT, place / ROOT)
            else:
                shutil.copytree(source, place / "kit")
                _lock_down(place / "kit")
        shutil.copytree(made / ADMIN, places[hub] / "admin")


def make_own_kit(kit: Path, project: str, address: str, port: int, name: str, signed: Path) -> None:
    """Make a party's kit around the private key that is in it, taking nothing but certificates from the hub."""
    with tempfile.TemporaryDirectory() as workspace:
        made = Path(_provision(Path(workspace), project, address, port, (name,)).get_result_location()) / name
        shutil.copytree(made, kit, dirs_exist_ok=True, ignore=shutil.ignore_patterns(KEY, CERTIFICATE, ROOT))
    _lock_down(kit)
    for file in (CERTIFICATE, ROOT):
        shutil.copy(signed / file, kit / "startup" / file)


def _certify(context: Any, project: str, name: str, public: Any) -> bytes:
    """A party's certificate, signed by the root of this project, whose private key is thrown away afterwards."""
    from nvflare.lighter.constants import CtxKey
    from nvflare.lighter.utils import Identity, generate_cert, serialize_cert

    root = context[CtxKey.ROOT_PRI_KEY]
    found: bytes = serialize_cert(generate_cert(Identity(name, "laconic"), Identity(project), root, public))
    return found


def shut_out(kit: Path, names: frozenset[str]) -> None:
    """Let the hub's engine refuse these parties, whose certificates it would take otherwise."""
    path = kit / "disabled_clients.json"
    path.write_text(json.dumps({"disabled_clients": sorted(names)}), encoding="utf-8")


def keep_storage_here(kit: Path) -> None:
    """Let a hub keep jobs and snapshots in its own kit, wherever that is now, not where all users of a machine do."""
    path = kit / "local" / "resources.json"
    resources = json.loads(path.read_text(encoding="utf-8"))
    resources["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(kit.absolute() / "snapshots")
    for component in resources["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(kit.absolute() / "jobs")
    path.write_text(json.dumps(resources, indent=2), encoding="utf-8")


def _provision(workspace: Path, project: str, address: str, port: int, parties: tuple[str, ...]) -> Any:
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
        return Provisioner(str(workspace), prepare_builders(plain)).provision(prepare_project(plain))


def _lock_down(kit: Path) -> None:
    """Let a site build our classes only, run no code that comes with a job, open no shell, and send no logs."""
    local = kit / "local"
    resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
    resources["class_list_enforcement_mode"] = "enforce"
    resources["class_allow_list"] = list(ALLOWED)
    resources["allow_log_streaming"] = False
    logs = ("site_log_streamer", "log_receiver")
    resources["components"] = [one for one in resources["components"] if one["id"] not in logs]
    (local / "resources.json").write_text(json.dumps(resources, indent=2), encoding="utf-8")
    nothing = dict.fromkeys(("byoc", "shell_commands", "server-predeployed-flwr", "clone_job", "download_job"), "none")
    lead = {"submit_job": "any", "manage_job": "n:submitter", "view": "any", "operate": "o:site"} | nothing
    rules = {"format_version": "1.0", "permissions": {"lead": lead}}
    (local / "authorization.json").write_text(json.dumps(rules, indent=2), encoding="utf-8")
    for script in ("start.sh", "sub_start.sh", "stop_fl.sh"):
        (kit / "startup" / script).unlink(missing_ok=True)  # `laconic join` and `laconic host` start sites.


_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


_own: dict[int, "subprocess.Popen[bytes]"] = {}
"""Engines that this process started itself."""


class EngineError(LaconicError):
    """The engine could not do what was asked; says what, and where its log is."""


def start(kit: Path, name: str | None) -> "subprocess.Popen[bytes]":
    """Start a site's engine: a party's by its name, or with None the hub's."""
    role = "server" if name is None else "client"
    who = [] if name is None else [f"uid={name}"]
    command = [
        *(sys.executable, "-u", "-m", f"nvflare.private.fed.app.{role}.{role}_train", "-m", str(kit.absolute())),
        *("-s", f"fed_{role}.json", "--set", "secure_train=true", *who, "org=laconic", "config_folder=config"),
    ]
    if name is None:
        keep_storage_here(kit)
    for left in ("pid.fl", "shutdown.fl", "restart.fl"):
        (kit / left).unlink(missing_ok=True)
    environment = os.environ | _ONE_THREAD | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with append_private(kit / "engine.log") as log:
        process = subprocess.Popen(  # noqa: S603 (our own command)
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=kit, start_new_session=True, umask=0o077
        )
    (kit / "pid").write_text(str(process.pid), encoding="utf-8")
    _own[process.pid] = process
    return process


@contextmanager
def session(admin: Path, seconds: float = 30.0) -> Iterator[Any]:
    """Talk to the hub's engine as its user, once it is there."""
    try:
        from nvflare.fuel.flare_api.flare_api import new_secure_session
    except ImportError as problem:
        raise MissingExtra("nvflare", "flare") from problem
    with _quiet():
        with _heard(), redirect_stdout(StringIO()):
            opened = new_secure_session(ADMIN, str(admin.absolute()), timeout=seconds)
        try:
            yield opened
        finally:
            opened.close()  # Left open, it would keep this process from ending.


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the engine's own words from whoever reads ours."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _heard() -> Iterator[None]:
    """Turn what the engine raises when nobody answers, which may be anything, into one error."""
    try:
        yield
    except Exception as problem:
        raise EngineError(f"the hub's engine does not answer: {problem}; see engine.log in its kit") from problem


def connected(opened: Any) -> list[str]:
    """The parties whose engines have joined."""
    with _heard():
        return [client.name for client in opened.get_system_info().client_info]


def wait_for(opened: Any, names: tuple[str, ...], seconds: float) -> list[str]:
    """Wait until all these have joined, or as long as this; returns who has."""
    ends = monotonic() + seconds
    there = connected(opened)
    while not set(names) <= set(there) and monotonic() < ends:
        sleep(0.5)
        there = connected(opened)
    return [name for name in names if name in there]


def submit(opened: Any, hub_args: dict[str, Any], sites: list[str]) -> str:
    """Hand over a job of a few lines of settings, without any code; returns its id."""
    with tempfile.TemporaryDirectory() as folder:
        write_job(Path(folder) / "laconic", hub_args, sites)
        with _heard():
            job: str = opened.submit_job(str(Path(folder) / "laconic"))
        return job


def write_job(folder: Path, hub_args: dict[str, Any], sites: list[str]) -> None:
    """Write the settings of a job: which class stands for the hub, which for a party, and where."""
    ours = "laconic.deploy.transports.flare.components"
    hub = {"path": f"{ours}.FlareHub", "args": hub_args}
    party = {"path": f"{ours}.FlareParty", "args": {}}
    controller = {"path": "nvflare.collab.runtime.controller.CollabController", "args": {"server_obj_id": "hub"}}
    executor = {"path": "nvflare.collab.runtime.executor.CollabExecutor", "args": {"client_obj_id": "party"}}
    files = {
        "meta.json": {
            "name": "laconic",
            "resource_spec": {},
            "min_clients": 1,
            "deploy_map": {"hub": ["server"], "party": sites},
        },
        "hub/config/config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": "controller"} | controller],
            "components": [{"id": "hub"} | hub],
        },
        "party/config/config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": ["*"], "executor": executor}],
            "components": [{"id": "party"} | party],
        },
    }
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(content, indent=2), encoding="utf-8")


def state_of(opened: Any, job: str) -> str:
    """How a job stands: `RUNNING`, or a word that begins with `FINISHED`."""
    with _heard():
        return str(opened.get_job_meta(job).get("status", ""))


def is_running(kit: Path) -> bool:
    """Whether a site's engine runs on this machine."""
    return _pid(kit) is not None


def wait_until_listening(kit: Path, address: str, port: int, seconds: float = 60.0) -> None:
    """Wait until the hub's engine can be reached, or has died."""
    ends = monotonic() + seconds
    while monotonic() < ends:
        with suppress(OSError), socket.create_connection((address, port), timeout=1.0):
            return
        if not is_running(kit):
            break
        sleep(0.1)
    raise EngineError(f"the hub's engine does not listen at {address}:{port}; see {kit / 'engine.log'}")


def stop(kit: Path) -> bool:
    """End a site's engine and the processes of its jobs, which outlive it; False if nothing was running."""
    (kit / "pid").unlink(missing_ok=True)
    found = processes_of(kit)
    for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        for pid in processes_of(kit):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        ends = monotonic() + seconds
        while processes_of(kit) and monotonic() < ends:
            sleep(0.2)
    return bool(found)


def processes_of(kit: Path) -> list[int]:
    """All processes of the engine that were started from this kit, and from no other."""
    for process in _own.values():
        process.poll()  # Nobody else takes note of our own child's end.
    said = subprocess.run(
        ["/bin/ps", "-ww", "-eo", "pid=", "-o", "stat=", "-o", "command="], capture_output=True, text=True, check=False
    ).stdout
    rows = [line.split(None, 2) for line in said.splitlines()]
    place = str(kit.absolute())
    return [
        int(pid)
        for pid, stat, command in (row for row in rows if len(row) == 3)
        if "nvflare" in command and place in command.split() and not stat.startswith("Z")
    ]


def _pid(kit: Path) -> int | None:
    """The process of a site's engine, if it is one: a number that was left behind may be somebody else's by now."""
    path = kit / "pid"
    if not path.exists():
        return None
    pid = int(path.read_text(encoding="utf-8"))
    return pid if (pid in _own and _own[pid].poll() is None) or pid in processes_of(kit) else None
