"""Where the figures of a run come from: its commit, the libraries that were loaded, the devices and their probes.

Everything here is told, never asked for: no library is imported and no device looked for, and what cannot be read is
left out, for no run fails because of what is written about it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_roofline.checks.evidence import Limit
from pytest_roofline.device import Spec
from pytest_roofline.probe import Probe
from pytest_roofline.result import limit_record, plain

LIBRARIES = (
    "torch",
    "triton",
    "transformers",
    "accelerate",
    "bitsandbytes",
    "flash_attn",
    "xformers",
    "vllm",
    "sglang",
    "llama_cpp",
    "tensorrt_llm",
    "onnxruntime",
    "jax",
    "jaxlib",
    "mlx.core",
    "numpy",
    "openai",
    "httpx",
)
"""Modules whose version may change a figure."""
COMMIT_VARIABLES = (
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "BUILDKITE_COMMIT",
    "CIRCLE_SHA1",
    "BITBUCKET_COMMIT",
    "BUILD_SOURCEVERSION",
    "DRONE_COMMIT_SHA",
    "TRAVIS_COMMIT",
    "GIT_COMMIT",
)
"""Where the CI systems say which commit they have checked out, for a folder that git does not know."""
_GIT_S = 5.0
_LONGEST_MESSAGE = 4000


def commit_of(folder: str, environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The commit that `folder` is at: by git, else by the variables of the CI; None where neither knows.

    `is_dirty`: whether tracked files differ from it; None where git was not asked. Costs one process of git, which gets
    five seconds and may write nothing.
    """
    found = _commit_by_git(folder)
    if found is not None:
        return found
    for name in COMMIT_VARIABLES:
        commit = environment.get(name, "").strip()
        if commit:
            return {"id": commit, "branch": None, "is_dirty": None, "source": name}
    return None


def _commit_by_git(folder: str) -> dict[str, Any] | None:
    # A monitor of the repository's own would be a program that nobody asked for.
    command = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C", folder)
    status = ("status", "--porcelain=v2", "--branch", "--untracked-files=no")
    try:
        done = subprocess.run(
            [*command, *status],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_GIT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and line.count(" ") > 1)
    commit = said.get("branch.oid", "")
    if done.returncode != 0 or not commit or commit.startswith("("):  # (initial): there is no commit yet
        return None
    branch = said.get("branch.head", "")
    return {
        "id": commit,
        "branch": None if not branch or branch.startswith("(") else branch,
        "is_dirty": any(not line.startswith("#") for line in lines),
        "source": "git",
    }


def libraries_in(modules: Mapping[str, Any]) -> dict[str, str]:
    """Versions of the libraries among the loaded modules, and what torch was built for; by the names of packages."""
    found = {}
    for name in LIBRARIES:
        version = getattr(modules.get(name), "__version__", None)
        if version is not None:
            found[name.partition(".")[0]] = str(version)
    built = getattr(modules.get("torch"), "version", None)
    for name in ("cuda", "hip"):
        version = getattr(built, name, None)
        if isinstance(version, str):
            found[f"torch.{name}"] = version
    return found


def device_record(probe: Probe, limit: Limit) -> dict[str, Any]:
    """A device with everything that its figures were held against: the probe with its sweep and knee, and the limit."""
    record = plain(
        {
            "device": probe.device.to_dict(),
            "sheet": _sheet_of(probe.device.spec),
            "limit": limit_record(limit),
            "probe": {name: value for name, value in probe.to_dict().items() if name != "device"},
        }
    )
    if not isinstance(record, dict):  # pragma: no cover - a dict stays a dict
        raise TypeError("a record must be a dict")
    return record


def _sheet_of(spec: Spec | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    return {
        "id": spec.id,
        "name": spec.name,
        "bandwidth_bytes_per_s": spec.bandwidth_bytes_per_s,
        "dense_peak_flops_per_s": dict(spec.dense_peak_flops_per_s),
        "source": spec.source,
    }


def merged(known: Sequence[Mapping[str, Any]], told: Mapping[str, Any], worker: str | None) -> list[dict[str, Any]]:
    """The devices of a run, with what one of its processes tells of one; each probe stands there once.

    Workers that share a probe share the entry, and what was measured on demand since joins it. A worker that has made
    another probe of the same device (a process of its own for every test) has its last one kept.
    """
    entry = {**told, "workers": [worker] if worker is not None else []}
    others = []
    for one in known:
        is_same_device = _key(one) == _key(told)
        is_own = worker in one["workers"] if worker is not None else not one["workers"]
        if is_same_device and one["probe"]["sweep"] == told["probe"]["sweep"]:
            entry["workers"] = [*dict.fromkeys([*one["workers"], *entry["workers"]])]
            entry["probe"] = {**_fuller(one["probe"], told["probe"])}
        elif not (is_same_device and is_own and one["workers"] in ([], [worker])):
            others.append(dict(one))
    return [*others, entry]


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    device = record["device"]
    return device["id"], device["name"], device["uuid"]


def _fuller(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the same probe, with every peak and link that either process has measured; the later one's figures stay."""
    return {
        **other,
        "notes": list(one["notes"]),  # of whom measured it: the others only read it
        "peak_flops_per_s": {**one["peak_flops_per_s"], **other["peak_flops_per_s"]},
        **{name: one[name] if other[name] is None else other[name] for name in ("link_bytes_per_s", "links")},
    }


def message_of(longrepr: Any) -> str:
    """What a report says first of its ending, as text; empty where it says nothing.

    `longrepr` is pytest's: a text, a place with a reason (of a skip), or a traceback with the message at its crash.
    """
    if isinstance(longrepr, tuple) and len(longrepr) == 3:
        text = str(longrepr[2])
    else:
        crash = getattr(longrepr, "reprcrash", None)
        text = str(getattr(crash, "message", "") or ("" if longrepr is None else longrepr))
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} ..."


def place_of(location: Any) -> tuple[str | None, int | None]:
    """File (from the root of the tests, with slashes) and line (from 1 on) of a report's `location`."""
    try:
        file, line, _ = location
    except (TypeError, ValueError):
        return None, None
    is_known = isinstance(line, int) and line >= 0
    return (str(file).replace(os.sep, "/") if file else None), (line + 1 if is_known else None)
