"""Cheats and honest programs in torch on the CPU, which is synchronous: only bytes, tokens and work can be wrong."""

from __future__ import annotations

import functools
import time

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.errors import BogusMeasurement  # noqa: E402
from pytest_roofline.instrument import Instrument  # noqa: E402

ELEMENTS = 16 * 1024 * 1024


@pytest.fixture(scope="module")
def weights() -> object:
    """64 MB of random numbers."""
    return torch.rand(ELEMENTS // 1024, 1024)


def bogus_checks(excinfo: pytest.ExceptionInfo[BogusMeasurement]) -> set[str]:
    """Names of the checks behind a bogus verdict."""
    verdict = excinfo.value.verdict
    assert verdict is not None
    return {finding.check for finding in verdict.of("bogus")}


def test_an_honest_product_is_not_accused(roofline: Instrument, weights: object) -> None:
    """A matrix-vector product, decoded and audited, is believed."""
    hidden = torch.rand(1024)

    def step() -> object:
        return torch.mv(weights, hidden)

    result = roofline.decode(step, traffic=weights.nbytes)  # type: ignore[attr-defined]
    assert result.verdict.outcome != "bogus"
    with roofline.audit(traffic=weights.nbytes) as audit:  # type: ignore[attr-defined]
        start = time.perf_counter()
        for _ in range(8):
            step()
        audit.claim(tokens=8, seconds=time.perf_counter() - start)
    assert audit.result.verdict.outcome != "bogus"


def test_a_remembered_result_is_bogus(roofline: Instrument, weights: object) -> None:
    """The first call works, the others return what it found."""

    @functools.lru_cache
    def remember() -> object:
        return weights.sum(dim=1)  # type: ignore[attr-defined]

    with pytest.raises(BogusMeasurement, match="did not run"):
        roofline.decode(remember, traffic=weights.nbytes, passes_per_reset=100_000)  # type: ignore[attr-defined]


def test_a_remembered_result_passes_in_no_room(roofline: Instrument, weights: object) -> None:
    """With room for so few passes that draining outweighs them, it may be inconclusive; it never passes."""
    remembered = weights.sum(dim=1)  # type: ignore[attr-defined]
    try:
        outcome = roofline.decode(lambda: remembered, traffic=weights.nbytes).verdict.outcome  # type: ignore[attr-defined]
    except BogusMeasurement:
        outcome = "bogus"
    assert outcome in ("bogus", "inconclusive")


def test_twice_the_bytes_are_bogus(roofline: Instrument, weights: object) -> None:
    """A read counted as read and written is contradicted by the trace."""
    total = weights.nbytes  # type: ignore[attr-defined]
    with pytest.raises(BogusMeasurement, match="every byte was counted twice") as excinfo:
        roofline.kernel(lambda: weights.sum(dim=1), bytes_read=total, bytes_written=total)  # type: ignore[attr-defined]
    assert "bytes-disagree" in bogus_checks(excinfo)


def test_an_embedding_table_counted_as_traffic_is_bogus(roofline: Instrument) -> None:
    """A lookup reads rows, not the table."""
    table, head = torch.rand(64_000, 256), torch.rand(16_000, 256)
    token = torch.tensor([7])

    def step() -> object:
        return torch.nn.functional.embedding(token, table) @ head.T

    with pytest.raises(BogusMeasurement, match="resident but not read") as excinfo:
        roofline.decode(step, traffic=table.nbytes + head.nbytes)
    assert "bytes-disagree" in bogus_checks(excinfo)


def test_a_copy_counted_once_is_a_note(roofline: Instrument) -> None:
    """Counting n of the 2n bytes hurts nobody but its author: the result says what is missing."""
    source = torch.rand(ELEMENTS)
    target = torch.rand_like(source)
    result = roofline.kernel(lambda: target.copy_(source), bytes_read=source.nbytes)
    assert result.verdict.outcome != "bogus"
    notes = [finding.message for finding in result.findings if finding.check == "bytes-disagree"]
    assert notes
    assert "were forgotten" in notes[0]


def test_a_forgotten_kv_cache_is_a_note(roofline: Instrument, weights: object) -> None:
    """Declaring the weights alone understates the traffic, and the result says by how much."""
    cache = torch.rand(ELEMENTS // 256, 256)
    hidden, query = torch.rand(1024), torch.rand(256)

    def step() -> object:
        return torch.mv(weights, hidden), torch.mv(cache, query)

    result = roofline.decode(step, traffic=weights.nbytes)  # type: ignore[attr-defined]
    assert result.verdict.outcome != "bogus"
    assert any(finding.check == "bytes-disagree" for finding in result.findings)


def test_a_small_buffer_gives_no_verdict(roofline: Instrument) -> None:
    """1 MB comes from cache on any machine."""
    buffer = torch.rand(256 * 1024)
    result = roofline.decode(buffer.sum, traffic=buffer.nbytes)
    assert result.verdict.outcome == "inconclusive"
    assert "cache-resident" in {finding.check for finding in result.findings}


def test_a_wrong_divisor_is_bogus(roofline: Instrument, weights: object) -> None:
    """A claim of half the time that passed."""
    with (
        pytest.raises(BogusMeasurement, match="claimed, but"),
        roofline.audit(traffic=weights.nbytes) as audit,  # type: ignore[attr-defined]
    ):
        start = time.perf_counter()
        for _ in range(8):
            weights.sum(dim=1)  # type: ignore[attr-defined]
        audit.claim(tokens=8, seconds=(time.perf_counter() - start) / 2)


def test_a_patched_clock_is_bogus(roofline: Instrument, weights: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is replaced by one that runs at a tenth of the speed."""
    with pytest.raises(BogusMeasurement) as excinfo, roofline.audit() as audit:
        real = time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: real() / 10)
        start = time.perf_counter()
        for _ in range(8):
            weights.sum(dim=1)  # type: ignore[attr-defined]
        audit.claim(tokens=8, seconds=time.perf_counter() - start)
    assert bogus_checks(excinfo) <= {"clock-disagrees", "claim-exceeds-closed-time"}


def test_a_prompt_counted_as_output_is_bogus(roofline: Instrument, weights: object) -> None:
    """The ids that came out are fewer than the tokens claimed."""
    with pytest.raises(BogusMeasurement, match="8 ids returned"), roofline.audit() as audit:
        start = time.perf_counter()
        ids = [weights.sum(dim=1).argmax() for _ in range(8)]  # type: ignore[attr-defined]
        audit.claim(tokens=8 + 1000, seconds=time.perf_counter() - start, ids=ids)


def test_a_draft_that_runs_four_times_may_be_declared_four_times(roofline: Instrument, weights: object) -> None:
    """Speculative decoding reads its draft once per token, and the bytes are real."""
    draft = torch.rand(ELEMENTS // 4 // 1024, 1024)
    hidden = torch.rand(1024)

    def step() -> object:
        for _ in range(4):
            proposed = torch.mv(draft, hidden)
        return torch.mv(weights, hidden), proposed

    total = weights.nbytes + 4 * draft.nbytes  # type: ignore[attr-defined]
    assert roofline.decode(step, traffic=total, tokens_per_pass=2.5).verdict.outcome != "bogus"


def test_work_in_other_threads_and_libraries_is_not_denied(roofline: Instrument, weights: object) -> None:
    """A trace sees this thread's torch alone; what it cannot see it does not contradict."""
    from concurrent.futures import ThreadPoolExecutor

    hidden = torch.rand(1024)
    halves = weights.chunk(2)  # type: ignore[attr-defined]
    with ThreadPoolExecutor(2) as pool:

        def step() -> object:
            return torch.cat(list(pool.map(lambda part: torch.mv(part, hidden), halves)))

        assert roofline.kernel(step, bytes_read=weights.nbytes).verdict.outcome != "bogus"  # type: ignore[attr-defined]


def test_a_position_beside_the_logits_is_no_id(roofline: Instrument, weights: object) -> None:
    """An integer among other outputs counts no tokens."""
    hidden = torch.rand(1024)

    def step() -> object:
        return {"logits": torch.mv(weights, hidden), "pos": torch.tensor([5])}

    result = roofline.decode(step, traffic=weights.nbytes, batch=8)  # type: ignore[attr-defined]
    assert result.verdict.outcome != "bogus"


def test_ids_may_lie_in_a_structure(roofline: Instrument, weights: object) -> None:
    """A mapping with the generated ids is counted like the ids themselves."""
    with roofline.audit() as audit:
        start = time.perf_counter()
        for _ in range(5):
            weights.sum(dim=1)  # type: ignore[attr-defined]
        ids = {"sequences": torch.ones(1, 5, dtype=torch.long)}
        audit.claim(tokens=5, seconds=time.perf_counter() - start, ids=ids)
    assert audit.result.verdict.outcome != "bogus"
    assert "tokens-disagree" not in {finding.check for finding in audit.result.findings}
    assert audit.result.evidence.ids_seen == 5
