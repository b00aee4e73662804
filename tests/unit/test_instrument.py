"""decode, prefill, kernel, traffic and ceiling on the fake device: every outcome, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_roofline.backends.fake import FakeBackend, FakeModel
from pytest_roofline.errors import BogusMeasurement, DeviceUnavailable, InconclusiveMeasurement, RooflineUsageError
from pytest_roofline.instrument import Instrument
from pytest_roofline.result import Result
from pytest_roofline.session import Session
from pytest_roofline.settings import Settings, parse_allow, parse_budget
from pytest_roofline.traffic import declared_traffic

WEIGHTS = 4e9


def instrument(settings: Settings | None = None, **figures: Any) -> tuple[FakeBackend, Instrument]:
    """A fake device and the instrument on it."""
    backend = FakeBackend(**figures)
    return backend, Instrument(Session(added_backends=[backend]), settings)


def decode(settings: Settings | None = None, *, efficiency: float = 0.8, **figures: Any) -> Result:
    """An honest decode at this efficiency."""
    backend, roofline = instrument(settings, **figures)
    model = FakeModel(backend, WEIGHTS, kv_bytes_per_token=1e5, context=1000, efficiency=efficiency)
    return roofline.decode(model.step, model=model, reset=model.reset)


def asking(at_least: float, **changes: Any) -> Settings:
    """Settings with a budget."""
    return Settings(at_least=parse_budget(at_least, "test"), **changes)


def found(result: Result) -> list[tuple[str, str]]:
    """Checks and severities of a result."""
    return [(finding.check, finding.severity) for finding in result.findings]


@pytest.mark.parametrize("efficiency", [0.3, 0.8, 0.97])
def test_the_fraction_is_the_efficiency(efficiency: float) -> None:
    """An honest decode is found at the share of the bandwidth that it uses."""
    result = decode(efficiency=efficiency)
    assert result.verdict.outcome == "passed"
    assert float(result.fraction or 0) == pytest.approx(efficiency, rel=0.02)


@pytest.mark.parametrize(("budget", "outcome"), [(0.7, "passed"), (0.9, "failed")])
def test_the_budget_decides(budget: float, outcome: str) -> None:
    """Below it is failed, above it passed; neither raises here, for the test's own end judges."""
    assert decode(asking(budget)).verdict.outcome == outcome


def test_a_better_result_than_at_most_fails() -> None:
    """An unexpected improvement asks for a new number."""
    settings = Settings(at_most=parse_budget(0.5, "test"))
    assert decode(settings).verdict.outcome == "failed"


@pytest.mark.parametrize("noise", ["gaussian", "drift", "bursts", "heavy-tail"])
@pytest.mark.parametrize("sheet", ["derived", None])
def test_noise_accuses_nobody(noise: str, sheet: str | None) -> None:
    """On a noisy device, with and without a datasheet, an honest decode is never bogus and never failed."""
    result = decode(asking(0.6), noise=noise, sheet_bytes_per_s=sheet, seed=3)
    assert result.verdict.outcome in ("passed", "inconclusive")


@pytest.mark.parametrize("sheet", ["derived", None])
def test_a_remembered_result_is_bogus(sheet: str | None) -> None:
    """A step that returns what it returned before moves no bytes: faster than any limit, sheet or none."""
    backend, roofline = instrument(sheet_bytes_per_s=sheet)
    remembered = FakeModel(backend, WEIGHTS).step()
    with pytest.raises(BogusMeasurement, match="did not run") as excinfo:
        roofline.decode(lambda: remembered, traffic=WEIGHTS)
    assert "[faster-than-limit]" in str(excinfo.value)
    assert roofline.results[0].verdict.outcome == "bogus"


def test_without_a_sheet_a_confrontation_is_held() -> None:
    """The accusation rests on five alternations of probe and block, and they are in the evidence."""
    backend, roofline = instrument(sheet_bytes_per_s=None)
    remembered = FakeModel(backend, WEIGHTS).step()
    with pytest.raises(BogusMeasurement):
        roofline.decode(lambda: remembered, traffic=WEIGHTS)
    assert len(roofline.results[0].evidence.confrontation) == 5


def test_more_bytes_than_the_pass_reads_is_bogus() -> None:
    """The closed trace contradicts the declaration."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS, efficiency=0.5)
    with pytest.raises(BogusMeasurement, match=r"6\.00 GB per pass declared, 4\.00 GB read"):
        roofline.decode(model.step, traffic=6e9, reset=model.reset)


def test_fewer_bytes_than_the_pass_reads_is_a_note() -> None:
    """Nobody gains from declaring too little."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    result = roofline.decode(model.step, traffic=2e9, reset=model.reset)
    assert ("bytes-disagree", "note") in found(result)
    assert float(result.fraction or 0) == pytest.approx(0.4, rel=0.03)


def test_a_cached_working_set_has_no_verdict() -> None:
    """20 MB in a 40 MB cache say nothing about memory, however fast they are."""
    backend, roofline = instrument()
    model = FakeModel(backend, 20e6)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "inconclusive"
    assert found(result)[0] == ("cache-resident", "inconclusive")


def test_an_allowed_check_does_not_decide() -> None:
    """`allow=` keeps the finding as a note."""
    backend, roofline = instrument(Settings(allow=parse_allow(("cache-resident",), "test")))
    model = FakeModel(backend, 20e6)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.verdict.outcome == "passed"
    assert found(result)[0] == ("cache-resident", "note")


def test_copies_of_the_cache_are_reported_apart() -> None:
    """A KV cache that is copied in each pass is extra traffic, named in the result."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS, kv_bytes_per_token=1e6, context=1000, copies_kv=True)
    result = roofline.decode(model.step, model=model, reset=model.reset)
    assert result.traffic is not None
    assert result.traffic.extra_bytes_per_pass > 1e9
    assert result.traffic.bytes_per_pass == pytest.approx(WEIGHTS + 1e9, rel=0.01)


def test_state_without_reset_is_not_overrun() -> None:
    """Trace, warm-up and blocks together stay within the room, and the room is said."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS)
    calls = 0

    def step() -> object:
        nonlocal calls
        calls += 1
        return model.step()

    result = roofline.decode(step, traffic=WEIGHTS)
    assert calls <= 64
    assert any("at most 64 passes" in note for note in result.notes)


def test_a_stated_room_is_kept_between_resets() -> None:
    """With reset and passes_per_reset no block is longer than the room."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS)
    since = most = 0

    def step() -> object:
        nonlocal since, most
        since += 1
        most = max(most, since)
        return model.step()

    def reset() -> None:
        nonlocal since
        since = 0
        model.reset()

    result = roofline.decode(step, traffic=WEIGHTS, reset=reset, passes_per_reset=6)
    assert most <= 6
    assert result.verdict.outcome == "passed"


def test_a_slow_step_is_inconclusive_and_soon_over() -> None:
    """A pass that takes longer than the whole time runs, once or twice, and nothing is concluded from it."""
    backend, roofline = instrument(Settings(max_time_s=10.0))
    start = backend.clock()

    def step() -> object:
        return backend.launch(read_bytes=20e12)

    result = roofline.decode(step, traffic=20e12)
    assert result.verdict.outcome == "inconclusive"
    assert backend.clock() - start < 10 + 2 * 20 + 5


def test_tokens_per_pass_may_be_a_function_of_the_output() -> None:
    """Speculative steps say how many tokens came out."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    result = roofline.decode(
        lambda: model.step() and model.step(),
        traffic=2 * WEIGHTS,
        tokens_per_pass=lambda output: 1.0,
        reset=model.reset,
    )
    assert result.tokens_per_s == pytest.approx(100, rel=0.05)


def test_more_tokens_per_pass_than_ids_is_bogus() -> None:
    """A pass that returns one id cannot have made three tokens."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS)
    with pytest.raises(BogusMeasurement, match="3 tokens claimed, 1 ids returned"):
        roofline.decode(model.step, model=model, tokens_per_pass=3, reset=model.reset)


def test_a_kernel_is_measured_cold_and_hot() -> None:
    """Cold evicts between calls, hot is judged against the cache and says so."""
    backend, roofline = instrument()
    buffer = backend.buffer(10e6)

    def read() -> object:
        return backend.launch(read_bytes=10e6, buffer=buffer)

    cold = roofline.kernel(read, bytes_read=10e6)
    assert any("evicted between calls" in note for note in cold.notes)
    assert float(cold.fraction or 0) < 1.0
    hot = roofline.kernel(read, bytes_read=10e6, cache="hot")
    assert hot.ceiling is not None
    assert hot.ceiling.bandwidth_source == "cache"
    assert hot.verdict.outcome != "bogus"


def test_rotated_inputs_keep_a_kernel_cold() -> None:
    """Inputs past four knees are rotated, pass by pass."""
    backend, roofline = instrument()
    buffers = [(backend.buffer(20e6),) for _ in range(12)]
    result = roofline.kernel(
        lambda buffer: backend.launch(read_bytes=20e6, buffer=buffer), bytes_read=20e6, inputs=buffers
    )
    assert any("are rotated" in note for note in result.notes)
    assert float(result.fraction or 0) == pytest.approx(1.0, rel=0.05)


def test_prefill_reports_the_time_to_first_token() -> None:
    """A prompt is judged against the compute roof."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS)

    def prompt() -> object:
        return backend.launch(read_bytes=WEIGHTS, flops=8e12, dtype="float16", buffer=None)

    result = roofline.prefill(prompt, model=model, prompt_tokens=1000)
    assert result.ttft_s is not None
    assert result.ceiling is not None
    assert result.tokens_per_s == pytest.approx(1000 / result.ttft_s)


def test_the_ceiling_is_the_division() -> None:
    """Bandwidth over bytes, times batch."""
    _, roofline = instrument()
    ceiling = roofline.ceiling(WEIGHTS, batch=4)
    assert ceiling.tokens_per_s == pytest.approx(4 * ceiling.bandwidth_bytes_per_s / WEIGHTS)
    assert ceiling.bound == "memory"


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), 10**400, "many", None, True])
def test_bytes_that_are_none_are_refused(value: Any) -> None:
    """Zero, negative, NaN, infinite or missing bytes are a usage error with the figure in it."""
    backend, roofline = instrument()
    with pytest.raises(RooflineUsageError):
        roofline.decode(lambda: backend.launch(read_bytes=1e9), traffic=value)
    if isinstance(value, float):
        with pytest.raises(RooflineUsageError):
            roofline.kernel(lambda: backend.launch(read_bytes=1e9), bytes_read=value)


@pytest.mark.parametrize("words", ["2GB", "2.5 GiB", "512MB"])
def test_bytes_in_words_are_no_name_of_a_model(words: str) -> None:
    """They would mean several models."""
    backend, roofline = instrument()
    model = FakeModel(backend, 2e9)
    with pytest.raises(
        RooflineUsageError, match="is no model: bytes per pass are a plain number, traffic=2e9 for 2 GB"
    ):
        roofline.decode(model.step, traffic=words)


def test_a_model_of_no_framework_is_said_to_be_uncounted() -> None:
    """The pass is traced all the same."""
    backend, roofline = instrument()
    model = FakeModel(backend, 2e9)
    result = roofline.decode(model.step, model=object(), reset=model.reset)
    note = "model= is of type object, which no loaded framework knows: nothing was counted from it"
    assert note in result.notes
    assert note not in roofline.decode(model.step, model=model, reset=model.reset).notes


def test_bytes_are_needed() -> None:
    """decode without model and traffic says what it needs."""
    _, roofline = instrument()
    with pytest.raises(RooflineUsageError, match="needs the bytes of a pass"):
        roofline.decode(lambda: 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"batch": 1.5}, "batch is 1.5"),
        ({"context": -1}, "context is -1"),
        ({"passes_per_reset": 0}, "passes_per_reset is 0"),
        ({"max_time_s": 0}, "max_time_s is 0"),
        ({"max_time_s": float("nan")}, "max_time_s is nan"),
        ({"tokens_per_pass": 0}, "tokens_per_pass is 0"),
        ({"tokens_per_pass": lambda output: "two"}, "tokens_per_pass is 'two'"),
        ({"reset": 5}, "reset is a int"),
        ({"reference": 5}, "reference is a int; it must be callable"),
        ({"inputs": []}, "inputs is empty"),
        ({"device": "cuda:7"}, "cuda:7"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    """Each wrong argument is refused with its value."""
    backend, roofline = instrument()
    with pytest.raises(RooflineUsageError, match=message):
        roofline.decode(lambda *_: backend.launch(read_bytes=1e9), traffic=1e9, **arguments)


def test_a_step_that_is_no_function_is_refused() -> None:
    """The step is called, so it must be callable."""
    _, roofline = instrument()
    with pytest.raises(RooflineUsageError, match="must be callable"):
        roofline.decode(5, traffic=1e9)  # type: ignore[arg-type]


def test_a_step_that_returns_nothing_is_refused() -> None:
    """Work that cannot be forced cannot be believed."""
    backend, roofline = instrument()

    def step() -> None:
        backend.launch(read_bytes=1e9)

    with pytest.raises(RooflineUsageError, match="returned nothing"):
        roofline.decode(step, traffic=1e9)


def test_what_a_backend_prepares_is_not_the_time_of_the_step() -> None:
    """Every loaded backend is prepared before the step is looked at; an hour of it leaves the measurement its time."""
    events = []

    class Slow(FakeBackend):
        """Compiles for an hour."""

        def prepare(self) -> None:
            events.append(self)
            self.host(3600.0)

    first, second = Slow(), Slow()
    model = FakeModel(first, WEIGHTS, efficiency=0.8)

    def step() -> object:
        events.append("step")
        return model.step()

    result = Instrument(Session(added_backends=[first, second])).decode(step, model=model, max_time_s=1.0)
    assert events[:3] == [first, second, "step"]
    assert set(events[3:]) == {"step"}
    assert result.verdict.outcome == "passed"
    assert result.samples
    assert result.elapsed_s < 10.0


def test_a_step_that_raises_leaves_nothing_running() -> None:
    """Its own exception comes through, and the device is drained."""
    backend, roofline = instrument()
    calls = 0

    def step() -> object:
        nonlocal calls
        calls += 1
        output = backend.launch(read_bytes=1e9)
        if calls == 5:
            raise OSError("mine")
        return output

    with pytest.raises(OSError, match="mine"):
        roofline.decode(step, traffic=1e9)
    assert backend.pending() == 0


def test_ctrl_c_leaves_nothing_running() -> None:
    """An interrupt in the middle of a block passes through, and the device is drained."""
    backend, roofline = instrument()
    calls = 0

    def step() -> object:
        nonlocal calls
        calls += 1
        output = backend.launch(read_bytes=1e9)
        if calls == 7:
            raise KeyboardInterrupt
        return output

    with pytest.raises(KeyboardInterrupt):
        roofline.decode(step, traffic=1e9)
    assert backend.pending() == 0
    assert roofline.results == []


def test_no_memory_for_the_probe_is_a_clear_error() -> None:
    """A device that is full says so, and names what to do; it is no failure of the test."""
    backend, roofline = instrument(memory_bytes=1e5)
    with pytest.raises(InconclusiveMeasurement, match=r"(?s)too little free memory to be probed: .*do: free memory"):
        roofline.decode(lambda: backend.launch(read_bytes=1e9), traffic=1e9)


def test_a_device_that_is_not_here_lists_those_that_are() -> None:
    """The error of a wrong name helps."""
    _, roofline = instrument(Settings(device="H900*"))
    with pytest.raises(DeviceUnavailable, match="here are: fake:0"):
        roofline.ceiling(1e9)


def test_a_model_elsewhere_than_asked_is_an_error() -> None:
    """The bytes are on one device, the option names another."""
    backend, roofline = instrument(Settings(device="cpu"))
    model = FakeModel(backend, WEIGHTS)
    with pytest.raises(RooflineUsageError, match="is on fake:0"):
        roofline.decode(model.step, model=model)


def test_off_runs_the_step_once() -> None:
    """--roofline=off: one call, nothing measured, every comparison true."""
    backend, roofline = instrument(Settings(mode="off"))
    calls = 0

    def step() -> object:
        nonlocal calls
        calls += 1
        return backend.launch(read_bytes=1e9)

    result = roofline.decode(step, traffic=1e9)
    assert calls == 1
    assert result.fraction is not None
    assert result.fraction >= 0.99
    assert result.fraction <= 0.01
    assert result.to_dict()["fraction"] is None


def test_results_are_kept_and_reported() -> None:
    """Every result is handed to the listener, also a bogus one."""
    backend = FakeBackend()
    seen: list[Result] = []
    roofline = Instrument(Session(added_backends=[backend]), on_result=seen.append)
    model = FakeModel(backend, WEIGHTS)
    roofline.decode(model.step, model=model, reset=model.reset)
    remembered = model.step()
    with pytest.raises(BogusMeasurement):
        roofline.decode(lambda: remembered, traffic=WEIGHTS)
    assert [result.verdict.outcome for result in seen] == ["passed", "bogus"]
    assert roofline.results == seen


def test_a_traffic_record_is_taken_as_it_is() -> None:
    """A Traffic may stand where a model may."""
    backend, roofline = instrument()
    traffic = declared_traffic(WEIGHTS, flops=8e9, batch=1, context=0)
    assert roofline.traffic(traffic) is traffic
    model = FakeModel(backend, WEIGHTS)
    assert roofline.decode(model.step, traffic=traffic, reset=model.reset).verdict.outcome == "passed"


def test_something_without_bytes_is_refused() -> None:
    """An object of no framework has no traffic, and the error says what has."""
    _, roofline = instrument()
    with pytest.raises(RooflineUsageError, match="no traffic can be taken from a list"):
        roofline.traffic([1, 2])


def test_a_ceiling_that_is_off_bounds_nothing() -> None:
    """--roofline=off probes nothing, also for a ceiling."""
    _, roofline = instrument(Settings(mode="off"))
    ceiling = roofline.ceiling(WEIGHTS, batch=2)
    assert ceiling.tokens_per_s == float("inf")
    assert ceiling.bandwidth_source == "not measured (--roofline=off)"


def test_an_audit_takes_a_model() -> None:
    """The bytes of an audited loop may be counted from the model."""
    backend, roofline = instrument()
    model = FakeModel(backend, WEIGHTS, efficiency=0.8)
    with roofline.audit(model=model) as audit:
        with audit.window():
            for _ in range(32):
                model.step()
            backend.synchronize()
        audit.claim(tokens=32)
    assert float(audit.result.fraction or 0) == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("call", ["prefill", "decode"])
def test_a_state_with_room_for_one_pass_is_reset_before_each(call: str) -> None:
    """A prompt that fills its cache, and a step that must be reset each time, are timed pass by pass."""
    backend, roofline = instrument()
    filled = False

    def fill() -> object:
        nonlocal filled
        assert not filled
        filled = True
        return backend.launch(read_bytes=WEIGHTS)

    def empty() -> None:
        nonlocal filled
        filled = False

    if call == "prefill":
        result = roofline.prefill(fill, model=FakeModel(backend, WEIGHTS), prompt_tokens=8, reset=empty)
    else:
        result = roofline.decode(fill, traffic=WEIGHTS, reset=empty, passes_per_reset=1)
    assert result.step_s == pytest.approx(4e-3, rel=0.02)


def test_a_small_cold_write_is_not_accused() -> None:
    """What a kernel writes may still lie in cache when the clock stops, evicted before or not."""
    backend, roofline = instrument()

    def write() -> object:
        return backend.launch(seconds=5e-6, inputs=()) and backend.array(4, is_int=False)

    result = roofline.kernel(write, bytes_written=10e6)
    assert result.verdict.outcome != "bogus"


def test_a_budget_of_other_devices_leaves_nothing_undecided() -> None:
    """A figure inside the interval is undecided where it is asked for; where no entry fits, it is a note."""
    asked = decode(asking(0.8, max_time_s=1.0), noise="gaussian")
    assert ("too-few-samples", "inconclusive") in found(asked)
    elsewhere = Settings(at_least=parse_budget({"H200*": 0.8}, "test"), max_time_s=1.0)
    result = decode(elsewhere, noise="gaussian")
    assert (result.verdict.outcome, result.verdict.at_least) == ("passed", None)
    assert "too-few-samples" not in [check for check, _ in found(result)]
    assert any("at_least={H200*: 0.8} is reported, not judged: no entry fits fake:0" in note for note in result.notes)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("kernel", "give bytes_read= and bytes_written= (bytes per call)"),
        ("decode", "roofline.decode needs the bytes of a pass: model= (which is traced) or traffic= (bytes per pass)"),
    ],
)
def test_missing_bytes_name_arguments_that_exist(kind: str, words: str) -> None:
    """Of that method: a kernel has no traffic=."""
    _, roofline = instrument()
    with pytest.raises(RooflineUsageError) as caught:
        getattr(roofline, kind)(lambda: [1])
    assert words in str(caught.value)
    assert kind != "kernel" or "traffic=" not in str(caught.value)


@pytest.mark.parametrize("real", [1, 2])
def test_a_step_that_stops_working_is_looked_at_where_it_stopped(real: int) -> None:
    """One or two passes after a reset are real: however the last pair was ordered, a further pass is a stale one."""
    for samples in (10, 11):
        backend, roofline = instrument()
        model = FakeModel(backend, WEIGHTS)
        made: list[Any] = []

        def step(model: FakeModel = model, made: list[Any] = made) -> Any:
            if len(made) < real:
                made.append(model.step())
            return made[-1]

        with pytest.raises(BogusMeasurement) as refused:
            roofline.decode(
                step, traffic=WEIGHTS, reset=made.clear, passes_per_reset=64, stopping=f"fixed:{samples}", max_time_s=60
            )
        assert refused.value.verdict is not None
        assert {"stale-output", "faster-than-limit"} & {one.check for one in refused.value.verdict.findings}
