"""How another process finds a script, and how a question is known again."""

import importlib
from hashlib import blake2b
from typing import Any

import msgspec

from laconic.core.script import Script


def name_script(script: Script) -> dict[str, str]:
    """How another process finds a script: where its class is, and its settings as text."""
    kind = type(script)
    return {"module": kind.__module__, "class": kind.__qualname__, "settings": msgspec.json.encode(script).decode()}


def find_script(named: dict[str, str]) -> Script:
    """Build a script from its name; its class must be importable by this process."""
    found: Any = importlib.import_module(named["module"])
    for part in named["class"].split("."):
        found = getattr(found, part)
    if not issubclass(found, Script):
        raise TypeError(f"{named['class']} is not a script")
    script: Script = msgspec.json.decode(named["settings"], type=found)
    return script


def question_id(script: Script, party: str, blob: bytes) -> str:
    """A name for one question to one party: the same run asked again gives the same name."""
    kind = type(script)
    digest = blake2b(f"{kind.__module__}.{kind.__qualname__}\0{party}\0".encode(), digest_size=16)
    for part in (msgspec.json.encode(script), b"\0", blob):
        digest.update(part)
    return digest.hexdigest()
