"""The record of a device."""

from __future__ import annotations

import json

import pytest

from pytest_roofline.device import PATTERNS, Device, Spec

SPEC = Spec(name="H200 SXM", memory_bytes=141e9, bandwidth_bytes_per_s=4.8e12, source="vendor's data sheet")


def test_id_is_what_a_user_types() -> None:
    """Accelerators are counted; there is one CPU."""
    assert Device(name="x", kind="cuda", index=1, backend="torch").id == "cuda:1"
    assert Device(name="x", kind="cpu", backend="cpu").id == "cpu"


def test_key_is_the_uuid_or_the_next_best() -> None:
    """A device is locked by its uuid, and without one by id and name."""
    assert Device(name="x", kind="cuda", backend="torch", uuid="GPU-1").key == "GPU-1"
    assert Device(name="A 1", kind="xpu", index=2, backend="torch").key == "xpu:2-A 1"


@pytest.mark.parametrize(("kind", "is_cpu"), [("cpu", True), ("cuda", False), ("fake", False)])
def test_the_cpu_is_no_accelerator(kind: str, is_cpu: bool) -> None:
    """Only kind cpu is the processor of this process."""
    assert Device(name="x", kind=kind, backend="b").is_cpu is is_cpu


def test_to_dict_is_json_and_names_the_spec() -> None:
    """Builtin types; the spec by its name; what is not known stays None."""
    full = Device(name="NVIDIA H200", kind="cuda", backend="torch", spec=SPEC, notes=("no NVML",))
    record = full.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["spec"] == "H200 SXM"
    assert record["id"] == "cuda:0"
    assert record["notes"] == ["no NVML"]
    assert record["memory_bytes"] is None
    assert Device(name="x", kind="cpu", backend="cpu").to_dict()["spec"] is None


def test_records_cannot_be_changed() -> None:
    """A device found once stays as it was found."""
    with pytest.raises(AttributeError):
        SPEC.name = "other"  # type: ignore[misc]


def test_patterns_are_four() -> None:
    """The access patterns, in the order of the reports."""
    assert PATTERNS == ("read", "copy", "write", "triad")
