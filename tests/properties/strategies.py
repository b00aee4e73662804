"""Evidence as it may come, believable or not: every figure finite, every combination possible."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pytest_roofline.checks.claimed import Claim, ClockDrift, ClockRead, Window
from pytest_roofline.checks.confronted import Alternation
from pytest_roofline.checks.evidence import CHECK_NAMES, Evidence, Limit, Sample
from pytest_roofline.checks.generated import Generated
from pytest_roofline.roofline import Ceiling, Interval, Rates
from pytest_roofline.traffic import Traffic

# Nothing here may depend on the speed or the mood of the machine.
steady = settings(
    deadline=None,
    derandomize=True,
    max_examples=80,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    database=None,
)

TIMES_S = st.one_of(st.just(0.0), st.floats(min_value=1e-9, max_value=1e4))
POSITIVE_TIMES_S = st.floats(min_value=1e-9, max_value=1e4)
ANY_TIMES_S = st.floats(min_value=-1e4, max_value=1e4)
RATES = st.floats(min_value=1e6, max_value=1e15)
BYTES = st.floats(min_value=1.0, max_value=1e13)
NO_BYTES = st.one_of(st.just(0.0), BYTES)
FRACTIONS = st.floats(min_value=1e-4, max_value=30.0)
BUDGETS = st.one_of(st.none(), st.floats(min_value=0.01, max_value=1.0))
CLOCKS = st.sampled_from(["time.perf_counter", "time.time", "time.monotonic"])


def intervals(values: st.SearchStrategy[float] = FRACTIONS) -> st.SearchStrategy[Interval]:
    """Two figures in order."""
    return st.tuples(values, values).map(lambda pair: Interval(low=min(pair), high=max(pair)))


rates = st.builds(
    Rates, read_bytes_per_s=RATES, copy_bytes_per_s=RATES, write_bytes_per_s=RATES, triad_bytes_per_s=RATES
)
traffics = st.builds(
    Traffic,
    bytes_per_pass=BYTES,
    least_bytes_per_pass=NO_BYTES,
    weight_bytes_per_pass=st.one_of(st.none(), NO_BYTES),
    kv_bytes_per_pass=NO_BYTES,
    written_bytes_per_pass=NO_BYTES,
    extra_bytes_per_pass=NO_BYTES,
    extra=st.sampled_from([(), (("KV cache copied each step", 1e6),)]),
    flops_per_pass=st.one_of(st.none(), NO_BYTES),
    least_flops_per_pass=st.one_of(st.none(), NO_BYTES),
    working_set_bytes=st.one_of(st.none(), NO_BYTES),
    is_closed=st.booleans(),
)
ceilings = st.builds(
    Ceiling,
    traffic=traffics,
    bandwidth_bytes_per_s=RATES,
    bandwidth_source=st.just("read"),
    peak_flops_per_s=st.one_of(st.none(), RATES),
    batch=st.integers(min_value=1, max_value=64),
    tokens_per_pass=st.floats(min_value=0.1, max_value=16),
)
limits = st.builds(
    Limit,
    bytes_per_s=RATES,
    slack=st.sampled_from([1.02, 1.05, 1.25]),
    source=st.just("a sheet"),
    is_measured=st.booleans(),
)
samples = st.builds(
    Sample,
    passes=st.integers(min_value=1, max_value=1000),
    step_s=ANY_TIMES_S,
    fixed_s=ANY_TIMES_S,
    closed_step_s=TIMES_S,
    ruler_before_bytes_per_s=RATES,
    ruler_after_bytes_per_s=RATES,
    fraction=FRACTIONS,
)
windows = st.builds(
    Window,
    window_s=TIMES_S,
    leftover_s=TIMES_S,
    idle_drain_s=TIMES_S,
    passes=st.floats(min_value=0.0, max_value=1e6),
    are_passes_watched=st.booleans(),
    returned_s=st.one_of(st.none(), ANY_TIMES_S),
    private_low_s=st.one_of(st.none(), TIMES_S),
    private_high_s=st.one_of(st.none(), TIMES_S),
    stop_where=st.one_of(st.none(), st.just("test_it.py:1")),
    clock=st.one_of(st.none(), CLOCKS),
)
claims = st.builds(
    Claim,
    tokens=st.floats(min_value=0.0, max_value=1e9),
    seconds=ANY_TIMES_S,
    is_tokens_seen=st.booleans(),
)
drifts = st.builds(
    ClockDrift,
    clock=CLOCKS,
    public_s=ANY_TIMES_S,
    private_low_s=TIMES_S,
    private_high_s=TIMES_S,
    resolution_s=st.sampled_from([0.0, 15.6e-3]),
)
alternations = st.builds(
    Alternation, probe_before_bytes_per_s=RATES, block_bytes_per_s=RATES, probe_after_bytes_per_s=RATES
)
generated = st.builds(
    Generated,
    tokens=st.integers(0, 10**6),
    possible_tokens=st.one_of(st.none(), st.integers(0, 10**6)),
    passes=st.integers(0, 10**6),
    replay=st.sampled_from(["by-prompt", "same-ids", "no", "unknown"]),
)
evidence = st.builds(
    Evidence,
    kind=st.sampled_from(["decode", "prefill", "kernel", "audit", "generate"]),
    ceiling=st.one_of(st.none(), ceilings),
    traffic=st.one_of(st.none(), traffics),
    declared=st.one_of(st.none(), traffics),
    traced=st.one_of(st.none(), traffics),
    limit=st.one_of(st.none(), limits),
    knee_bytes=NO_BYTES,
    generated=st.one_of(st.none(), generated),
    samples=st.lists(samples, max_size=10).map(tuple),
    confrontation=st.lists(alternations, max_size=6).map(tuple),
    fraction=st.one_of(st.none(), intervals()),
    at_least=BUDGETS,
    at_most=BUDGETS,
    is_cache_hot=st.booleans(),
    timed_out=st.booleans(),
    window=st.one_of(st.none(), windows),
    claim=st.one_of(st.none(), claims),
    drifts=st.lists(drifts, max_size=3).map(tuple),
    reads=st.integers(min_value=0, max_value=10),
    is_window_unknown=st.booleans(),
    whole_audit_s=st.one_of(st.none(), TIMES_S),
    tokens_claimed=st.one_of(st.none(), st.floats(min_value=0.0, max_value=1e9)),
    ids_seen=st.one_of(st.none(), st.integers(min_value=0, max_value=10**9)),
    batch=st.integers(min_value=1, max_value=64),
    tokens_per_pass=st.floats(min_value=0.1, max_value=16),
    peak_limit_flops_per_s=st.one_of(st.none(), RATES),
    is_peak_limit_measured=st.booleans(),
    allow=st.sets(st.sampled_from(CHECK_NAMES), max_size=3).map(frozenset),
)


@st.composite
def reads(draw: st.DrawFn, least: int = 0, most: int = 8) -> list[ClockRead]:
    """Reads of honest clocks in the order of time, some of them with work still pending."""
    made = []
    now_s = 0.0
    for _ in range(draw(st.integers(min_value=least, max_value=most))):
        now_s += draw(st.floats(min_value=1e-3, max_value=10.0))
        made.append(
            ClockRead(
                clock="time.perf_counter",
                value_s=now_s,
                private_low_s=now_s,
                private_high_s=now_s,
                where="test_it.py:1",
                finished_s=draw(st.one_of(st.none(), st.floats(min_value=0.0, max_value=5.0).map(now_s.__add__))),
            )
        )
    return made
