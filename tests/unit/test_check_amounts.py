"""Bytes and tokens: declared against seen."""

from __future__ import annotations

from typing import Any

import pytest
from court import audit, claim, loop, traced, traffic, window

from pytest_roofline.checks.amounts import bytes_disagree, spill_disagrees, tokens_disagree
from pytest_roofline.checks.evidence import Evidence, Finding


def declared(bytes_: float, seen: Any = None, **figures: Any) -> Evidence:
    """So much declared, 1 GB traced unless another trace is given."""
    return loop(declared=traffic(bytes_), traced=seen or traced(1e9, weight_bytes_per_pass=1e9), **figures)


def severity(finding: Finding | None) -> str | None:
    """How grave, None for silence."""
    return None if finding is None else finding.severity


# -- bytes-disagree


@pytest.mark.parametrize(
    ("bytes_", "expected"),
    [
        (1.0e9, None),
        (1.1e9, None),
        (1.1001e9, "bogus"),
        (9e9, "bogus"),
        (0.981e9, None),
        (0.98e9, "note"),
        (0.1e9, "note"),
    ],
)
def test_ten_per_cent_more_than_traced_is_bogus_and_less_a_note(bytes_: float, expected: str | None) -> None:
    """Nobody gains from declaring too little."""
    assert severity(bytes_disagree(declared(bytes_))) == expected


def test_what_is_spilled_may_be_read_where_no_trace_looks() -> None:
    """Twice as much declared as traced, half of it on the other side of a link: nobody invented anything."""
    spilled = traffic(2e9, spilled_bytes_per_pass=1e9)
    assert severity(bytes_disagree(declared(2e9, traffic=spilled))) is None
    assert severity(bytes_disagree(declared(2.2e9, traffic=traffic(2.2e9, spilled_bytes_per_pass=1e9)))) == "bogus"


@pytest.mark.parametrize(("spilled_bytes", "is_doubted"), [(0.0, False), (1e7, False), (1e8, True), (5e8, True)])
def test_spilled_weights_that_were_read_in_the_device_are_not_judged(spilled_bytes: float, is_doubted: bool) -> None:
    """A closed trace saw all of them there; within the noise of a count nothing is said."""
    said = traffic(1e9, spilled_bytes_per_pass=spilled_bytes)
    finding = spill_disagrees(declared(1e9, traffic=said))
    assert severity(finding) == ("inconclusive" if is_doubted else None)
    if finding is not None:
        assert "1.00 GB of 1.00 GB were read in it" in finding.message
    seen = traced(1e9, spilled_bytes_per_pass=spilled_bytes)
    assert spill_disagrees(declared(1e9, seen, traffic=said)) is None


def test_an_open_trace_accuses_nobody() -> None:
    """It is a lower bound: what it did not see may have been read."""
    assert bytes_disagree(declared(9e9, traced(1e9, is_closed=False))) is None


def test_without_both_counts_nothing_disagrees() -> None:
    """No declaration, no trace, or a declaration without bytes."""
    assert bytes_disagree(loop()) is None
    assert bytes_disagree(loop(declared=traffic(9e9), traced=None)) is None
    assert bytes_disagree(loop(declared=traffic(0.0, flops_per_pass=1e9))) is None


def test_the_least_bytes_count_where_they_are_more() -> None:
    """The larger of both figures is what the trace vouches for."""
    assert bytes_disagree(declared(1.9e9, traced(1e9, least_bytes_per_pass=1.8e9))) is None


def test_message_of_too_many() -> None:
    """Both figures, a cause, and what the trace found."""
    seen = traced(
        2.47e9,
        weight_bytes_per_pass=2.2e9,
        kv_bytes_per_pass=0.2e9,
        written_bytes_per_pass=1e6,
    )
    finding = bytes_disagree(declared(3.0e9, seen))
    assert finding is not None
    assert finding.check == "bytes-disagree"
    assert finding.message.split("\n") == [
        "3.00 GB per pass declared, 2.47 GB read and written: bytes that are resident but not read (an embedding "
        "table, experts not hit, a cache's capacity) were counted",
        "  the trace accounts for every output (weights 2.20 GB, KV cache 200 MB, other reads 69.0 MB)",
    ]
    assert finding.remedy == "declare the bytes of one pass, or pass model= and let the trace count them"
    assert finding.figures["declared_bytes_per_pass"] == 3.0e9
    assert finding.figures["traced_bytes_per_pass"] == 2.47e9


@pytest.mark.parametrize(
    ("bytes_", "batch", "cause"),
    [
        (8e9, 8, "the bytes of one pass were multiplied by the batch (8)"),
        (7.3e9, 8, "the bytes of one pass were multiplied by the batch (8)"),
        (2e9, 1, "every byte was counted twice"),
        (2e9, 2, "the bytes of one pass were multiplied by the batch (2)"),
        (5e9, 8, "bytes that are resident but not read"),
    ],
)
def test_causes_of_too_many(bytes_: float, batch: int, cause: str) -> None:
    """The ratio tells."""
    finding = bytes_disagree(declared(bytes_, batch=batch))
    assert finding is not None
    assert cause in finding.message.split("\n")[0]


@pytest.mark.parametrize(("bytes_", "gravity"), [(19e9, "bogus"), (21e9, "note")])
def test_a_blind_trace_accuses_nobody(bytes_: float, gravity: str) -> None:
    """Under a twentieth of what was declared, the work was done where no trace can look."""
    finding = bytes_disagree(declared(bytes_, traced(1e9)))
    assert severity(finding) == gravity
    nothing = bytes_disagree(declared(1e9, traced(0.0, flops_per_pass=1e9)))
    assert severity(nothing) == "note"


@pytest.mark.parametrize(("bytes_", "gravity"), [(4e9, "note"), (4.5e9, "bogus")])
def test_what_is_read_again_may_be_declared(bytes_: float, gravity: str) -> None:
    """A draft model that runs four times in a pass is read four times."""
    finding = bytes_disagree(declared(bytes_, traced(1e9, repeated_bytes_per_pass=3e9)))
    assert severity(finding) == gravity


def test_an_expectation_is_not_convicted() -> None:
    """Only the least bytes of a declaration can be too many: batched experts beat what is expected of them."""
    said = traffic(10e9, least_bytes_per_pass=5e9)
    finding = bytes_disagree(loop(declared=said, traced=traced(8e9, least_bytes_per_pass=5e9)))
    assert severity(finding) == "note"


@pytest.mark.parametrize(("bytes_", "expected"), [(1.1e9, None), (1.2e9, "note"), (1.65e9, "note"), (1.66e9, "bogus")])
def test_bytes_that_did_move_were_not_invented(bytes_: float, expected: str | None) -> None:
    """A cache copied each step is traffic: declaring it is a note, for the fraction counts it as useful work."""
    seen = traced(1e9, extra_bytes_per_pass=0.5e9, extra=(("KV cache copied each step", 0.5e9),))
    finding = bytes_disagree(declared(bytes_, seen))
    assert severity(finding) == expected
    if expected == "note":
        assert finding is not None
        assert finding.message.endswith(
            "1.00 GB of it compulsory: 500 MB are KV cache copied each step, which the fraction counts as useful work"
        )
        assert finding.remedy
    if expected == "bogus":
        assert finding is not None
        assert "1.50 GB read and written" in finding.message
        assert "KV cache copied each step 500 MB" in finding.message


def test_extra_traffic_without_a_name() -> None:
    """It is still called something."""
    finding = bytes_disagree(declared(1.3e9, traced(1e9, extra_bytes_per_pass=0.5e9)))
    assert finding is not None
    assert "extra traffic" in finding.message


@pytest.mark.parametrize(
    ("parts", "cause"),
    [
        ({"kv_bytes_per_pass": 0.4e9}, "the KV cache (400 MB per pass) was forgotten"),
        (
            {"written_bytes_per_pass": 0.4e9},
            "the 400 MB that are written were forgotten (a copy of n bytes reads n and writes n)",
        ),
        ({"kv_bytes_per_pass": 0.1e9}, "part of the traffic is missing"),
        ({}, "part of the traffic is missing"),
    ],
)
def test_causes_of_too_few(parts: dict[str, float], cause: str) -> None:
    """A forgotten KV cache or a forgotten write is named when its size is what is missing."""
    finding = bytes_disagree(declared(0.6e9, traced(1e9, **parts)))
    assert finding is not None
    assert finding.message == (
        f"600 MB per pass declared, 1.00 GB read and written (1.7x): {cause}; the fraction is taken from what was "
        "declared, so it is too low"
    )
    assert finding.severity == "note"


# -- tokens-disagree


def counted(claimed: float, ids: int | None, **figures: Any) -> Evidence:
    """An audit that claims so many tokens and returned so many ids."""
    return audit(claim=claim(claimed), ids_seen=ids, **figures)


@pytest.mark.parametrize(
    ("claimed", "ids", "expected"),
    [(100, 100, None), (102, 100, None), (103, 100, "bogus"), (50, 100, None), (1, 0, "bogus"), (100, None, None)],
)
def test_more_tokens_than_ids_are_bogus(claimed: float, ids: int | None, expected: str | None) -> None:
    """Over 2 % more than were returned; fewer are honest; without ids nothing is known."""
    assert severity(tokens_disagree(counted(claimed, ids))) == expected


def test_tokens_message() -> None:
    """Both counts, the ratio, the likely cause."""
    finding = tokens_disagree(counted(1100, 100))
    assert finding is not None
    assert finding.message == (
        "1100 tokens claimed, 100 ids returned (11x): the prompt, padding, or a requested length was counted"
    )
    assert finding.remedy == "count the ids that this window generated, without prompt and padding"
    none = tokens_disagree(counted(5, 0))
    assert none is not None
    assert none.message.startswith("5 tokens claimed, 0 ids returned (none): ")


@pytest.mark.parametrize(
    ("claimed", "batch", "per_pass", "expected"),
    [(100, 1, 1.0, None), (102, 1, 1.0, None), (103, 1, 1.0, "inconclusive"), (400, 4, 1.0, None), (250, 1, 2.5, None)],
)
def test_watched_passes_bound_the_tokens(claimed: float, batch: int, per_pass: float, expected: str | None) -> None:
    """Passes x batch x tokens per pass; more may be honest speculation, so it is unsure."""
    evidence = counted(claimed, None, window=window(are_passes_watched=True), batch=batch, tokens_per_pass=per_pass)
    finding = tokens_disagree(evidence)
    assert severity(finding) == expected
    if finding is not None:
        assert finding.message.startswith("103 tokens claimed, but 100 passes x batch 1 x 1 tokens per pass are 100: ")
        assert "tokens_per_pass=" in finding.remedy


def test_unwatched_passes_say_nothing() -> None:
    """They were computed from the claim."""
    assert tokens_disagree(counted(1e6, None)) is None
    assert tokens_disagree(counted(1e6, None, window=None)) is None
    assert tokens_disagree(loop()) is None
