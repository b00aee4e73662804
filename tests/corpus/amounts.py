"""Bytes and FLOPs miscounted: slips, tables, experts, caches, heads, batches, ranks (R20 to R30)."""

from __future__ import annotations

from typing import Any

from corpus.recipe import Program, Recipe, bogus, honest, undecidable
from corpus.scene import Scene

# -- R20: slips of arithmetic ---------------------------------------------------------------------------------------


def _declared(factor: float) -> Program:
    def program(scene: Scene) -> None:
        scene.decode(traffic=factor * scene.weight_bytes)

    return program


def _audited(factor: float) -> Program:
    def program(scene: Scene) -> None:
        with scene.audit(traffic=factor * scene.weight_bytes) as audit:
            seconds = scene.timed()
            audit.claim(tokens=scene.passes, seconds=seconds)

    return program


SLIPS: tuple[Recipe, ...] = tuple(
    made
    for name, factor in (("ten-times", 10.0), ("thousand-times", 1000.0), ("bits-for-bytes", 8.0), ("twice", 2.0))
    for made in (
        # A thousand times what was traced looks like work done elsewhere: the limit convicts it, and names the bytes.
        bogus(
            f"R20-{name}-traced",
            "bytes-disagree",
            *(["faster-than-limit"] if factor > 100 else []),
            title=f"The bytes of a pass times {factor:g}, traced",
        )(_declared(factor)),
        bogus(f"R20-{name}-audited", "faster-than-limit", title=f"The bytes of a pass times {factor:g}, audited")(
            _audited(factor)
        ),
    )
)
INSIDE = (
    undecidable("R20-gib-traced", title="GB and GiB mixed up: 7 %, inside every margin")(_declared(2**30 / 1e9)),
    undecidable("R20-gib-audited", title="GB and GiB mixed up in an audit")(_audited(2**30 / 1e9)),
    undecidable("R20-kib-traced", title="1024 for 1000: 2 %, inside every margin")(_declared(1.024)),
)


@undecidable("R20-mac-for-flop", "ceiling-unsure")
def macs_counted_twice_over(scene: Scene) -> None:
    """FLOPs of a product counted twice: above the measured peak, and no sheet knows the true one."""
    size = 8192 if scene.is_large else 4096
    flops, bytes_ = 2.0 * size**3, 6.0 * size**2

    def product() -> Any:
        return scene.backend.launch(
            read_bytes=bytes_ * 2 / 3, write_bytes=bytes_ / 3, flops=flops, dtype="bfloat16", efficiency=0.95
        )

    scene.roofline.kernel(
        product, bytes_read=bytes_ * 2 / 3, bytes_written=bytes_ / 3, flops=2.5 * flops, dtype="bfloat16"
    )


@honest("R20-bits-short", at_least=None)
def bytes_counted_an_eighth(scene: Scene) -> None:
    """Packed bits taken for bytes the other way round: 8x too low, which nobody gains from."""
    scene.decode(traffic=scene.weight_bytes / 8)


# -- R21: a copy ----------------------------------------------------------------------------------------------------


def _copy(read: float, written: float) -> Program:
    def program(scene: Scene) -> None:
        part = scene.weight_bytes / 2

        def copy() -> Any:
            return scene.backend.launch(read_bytes=part, write_bytes=part, efficiency=scene.efficiency)

        scene.roofline.kernel(copy, bytes_read=read * part, bytes_written=written * part)

    return program


COPIES = (
    honest("R21-one-way", at_least=None, title="A copy of S bytes counted as S: half of its traffic")(_copy(1, 0)),
    honest("R21-two-ways", title="A copy of S bytes counted as 2S")(_copy(1, 1)),
    bogus("R21-write-allocate", "bytes-disagree", title="A copy of S bytes counted as 3S")(_copy(2, 1)),
)


@bogus("R21-read-and-written", "bytes-disagree")
def store_counted_twice(scene: Scene) -> None:
    """A read of S bytes counted as read and written."""
    scene.roofline.kernel(
        lambda: scene.launch(scene.weight_bytes), bytes_read=scene.weight_bytes, bytes_written=scene.weight_bytes
    )


# -- R22: tables that are looked up -----------------------------------------------------------------------------------


class _Tabled:
    """A model with a vocabulary table of 30 % of its bytes, of which a pass reads one row."""

    def __init__(self, scene: Scene, *, is_tied: bool) -> None:
        self.scene = scene
        self.body_bytes = 0.7 * scene.weight_bytes
        self.table_bytes = 0.3 * scene.weight_bytes
        self.body = scene.backend.buffer(self.body_bytes, role="weights")
        self.table = scene.backend.buffer(self.table_bytes, role="weights")
        self.is_tied = is_tied

    def step(self) -> Any:
        self.scene.backend.launch(read_bytes=8192, buffer=self.table)
        if self.is_tied:
            self.scene.backend.launch(buffer=self.table, efficiency=self.scene.efficiency)
        return self.scene.backend.launch(buffer=self.body, efficiency=self.scene.efficiency)


@bogus("R22-table-counted", "bytes-disagree")
def untied_table_counted(scene: Scene) -> None:
    """The whole table is counted, and one row of it is read."""
    tabled = _Tabled(scene, is_tied=False)
    scene.roofline.decode(tabled.step, traffic=tabled.body_bytes + tabled.table_bytes)


@bogus("R22-tied-counted-twice", "bytes-disagree")
def tied_table_counted_twice(scene: Scene) -> None:
    """A tied table is counted as the table and again as the head."""
    tabled = _Tabled(scene, is_tied=True)
    scene.roofline.decode(tabled.step, traffic=tabled.body_bytes + 2 * tabled.table_bytes)


@honest("K03-row")
def row_counted(scene: Scene) -> None:
    """One row of the table is counted."""
    tabled = _Tabled(scene, is_tied=False)
    scene.roofline.decode(tabled.step, traffic=tabled.body_bytes + 8192)


@honest("K03-tied-head")
def tied_table_counted_once(scene: Scene) -> None:
    """A tied table is counted once, as the head."""
    tabled = _Tabled(scene, is_tied=True)
    scene.roofline.decode(tabled.step, traffic=tabled.body_bytes + tabled.table_bytes)


# -- R23: experts -----------------------------------------------------------------------------------------------------


class _Experts:
    """Eight experts of which each sequence takes two, beside a dense part of a fifth of the bytes."""

    def __init__(self, scene: Scene, batch: int, *, favourites: int = 8) -> None:
        self.scene, self.batch, self.favourites = scene, batch, favourites
        self.dense_bytes = 0.2 * scene.weight_bytes
        self.expert_bytes = 0.1 * scene.weight_bytes
        self.dense = scene.backend.buffer(self.dense_bytes, role="weights")
        self.experts = [scene.backend.buffer(self.expert_bytes, role="weights") for _ in range(8)]
        chosen = {scene.random.randrange(favourites) for _ in range(2 * batch)}
        self.hit = sorted(chosen | {0, 1})

    @property
    def true_bytes(self) -> float:
        return self.dense_bytes + len(self.hit) * self.expert_bytes

    def step(self) -> Any:
        self.scene.backend.launch(buffer=self.dense, efficiency=self.scene.efficiency)
        return self.scene.backend.launch(
            buffer=[self.experts[index] for index in self.hit],
            efficiency=self.scene.efficiency,
            size=self.batch,
            is_int=True,
        )


def _all_experts(batch: int, favourites: int) -> Program:
    def program(scene: Scene) -> None:
        experts = _Experts(scene, batch, favourites=favourites)
        scene.roofline.decode(experts.step, traffic=scene.weight_bytes, batch=batch)

    return program


def _hit_experts(batch: int, favourites: int) -> Program:
    def program(scene: Scene) -> None:
        experts = _Experts(scene, batch, favourites=favourites)
        scene.roofline.decode(experts.step, traffic=experts.true_bytes, batch=batch)

    return program


EXPERTS = (
    bogus("R23-all-of-batch-1", "bytes-disagree", title="All 8 experts counted, 2 read")(_all_experts(1, 8)),
    bogus("R23-all-of-batch-4", "bytes-disagree", title="All 8 experts counted at batch 4, skewed")(_all_experts(4, 4)),
    bogus("R23-all-of-batch-16", "bytes-disagree", title="All 8 experts counted at batch 16, routed to 3")(
        _all_experts(16, 3)
    ),
    honest("R23-hit-of-batch-1", title="The experts that are hit, at batch 1")(_hit_experts(1, 8)),
    honest("R23-hit-of-batch-4", title="The experts that are hit, at batch 4")(_hit_experts(4, 8)),
    honest("R23-hit-of-batch-16", title="The experts that are hit, at batch 16")(_hit_experts(16, 8)),
)


@bogus("R23-audited", "faster-than-limit")
def all_experts_in_an_audit(scene: Scene) -> None:
    """All experts counted in an audit, where only the limit can tell."""
    experts = _Experts(scene, 1)
    with scene.audit(traffic=2 * scene.weight_bytes) as audit:
        seconds = scene.timed(step=experts.step)
        audit.claim(tokens=scene.passes, seconds=seconds)


# -- R24, R25, R26: the KV cache --------------------------------------------------------------------------------------


@honest("R24", at_least=None, model={"kv_bytes_per_token": 2e5, "context": 8192})
def cache_forgotten(scene: Scene) -> None:
    """Constant bytes declared while the cache grows: the fraction is too low, and nobody gains."""
    scene.decode(traffic=scene.weight_bytes)


@bogus("R25-query-heads", "bytes-disagree", model={"kv_bytes_per_token": 2e5, "context": 8192})
def query_heads_for_kv_heads(scene: Scene) -> None:
    """The cache counted with the query heads, eight to each KV head."""
    model = scene.model
    scene.decode(traffic=model.weight_bytes + 8 * model.kv_bytes_per_token * model.context)


@honest("R25-keys-only", at_least=None, model={"kv_bytes_per_token": 2e5, "context": 8192})
def keys_without_values(scene: Scene) -> None:
    """Keys counted without the values: too low."""
    model = scene.model
    scene.decode(traffic=model.weight_bytes + 0.5 * model.kv_bytes_per_token * model.context)


@bogus("R25-latent-twice", "bytes-disagree", model={"kv_bytes_per_token": 6e5, "context": 8192})
def latent_counted_twice(scene: Scene) -> None:
    """A latent that serves as key and as value is counted for both."""
    model = scene.model
    scene.decode(traffic=model.weight_bytes + 2 * model.kv_bytes_per_token * model.context)


class _Windowed:
    """Half of the layers look back 1024 tokens, the others all the way."""

    def __init__(self, scene: Scene, context: int) -> None:
        self.scene = scene
        self.token_bytes = scene.weight_bytes / 8192
        self.context = context
        self.kv = scene.backend.buffer(self.token_bytes * context, role="kv")

    @property
    def kv_bytes(self) -> float:
        return self.token_bytes * (self.context + min(self.context, 1024)) / 2

    def step(self) -> Any:
        scene = self.scene
        scene.backend.launch(read_bytes=self.kv_bytes, buffer=self.kv, efficiency=scene.efficiency)
        return scene.launch(scene.weight_bytes)


@bogus("R26-long", "bytes-disagree")
def windows_that_grow(scene: Scene) -> None:
    """Linear growth declared at 8k, where half of the layers stopped at 1k."""
    windowed = _Windowed(scene, 8192)
    scene.roofline.decode(windowed.step, traffic=scene.weight_bytes + windowed.token_bytes * 8192)


@honest("R26-short")
def windows_not_full_yet(scene: Scene) -> None:
    """At 512 tokens a window of 1k is no window."""
    windowed = _Windowed(scene, 512)
    scene.roofline.decode(windowed.step, traffic=scene.weight_bytes + windowed.token_bytes * 512)


@honest("R26-right")
def windows_that_stop(scene: Scene) -> None:
    """The bytes of windows that stopped growing."""
    windowed = _Windowed(scene, 8192)
    scene.roofline.decode(windowed.step, traffic=scene.weight_bytes + windowed.kv_bytes)


# -- R27 to R30 -------------------------------------------------------------------------------------------------------


def _bits(declared: float, true: float) -> Program:
    def program(scene: Scene) -> None:
        scene.roofline.decode(
            lambda: scene.launch(scene.weight_bytes * true / 4), traffic=scene.weight_bytes * declared / 4
        )

    return program


SCALES = (
    honest("R27-scales-forgotten", at_least=None, title="4.0 bits declared, 4.5 read: too low")(_bits(4.0, 4.5)),
    honest("R27-scales", title="4.5 bits with their scales")(_bits(4.5, 4.5)),
    undecidable("R27-scales-of-another-group", title="4.5 bits declared, 4.25 read: inside the margin")(
        _bits(4.5, 4.25)
    ),
    bogus("R27-eight-bits", "bytes-disagree", title="8 bits declared, 4.5 read")(_bits(8.0, 4.5)),
)


@bogus("R28-traced", "bytes-disagree", model={"batch": 16})
def weights_times_the_batch(scene: Scene) -> None:
    """Weights counted once per sequence of a batch of 16."""
    scene.decode(traffic=16 * scene.weight_bytes, batch=16)


@bogus("R28-audited", "faster-than-limit", model={"batch": 16})
def weights_times_the_batch_in_an_audit(scene: Scene) -> None:
    """Tokens of a batch of 16 audited as passes."""
    with scene.audit(traffic=scene.weight_bytes, batch=1) as audit:
        seconds = scene.timed()
        audit.claim(tokens=16 * scene.passes, seconds=seconds)


@honest("R28-right", model={"batch": 16, "kv_bytes_per_token": 1e4, "context": 1000})
def batch_of_sixteen(scene: Scene) -> None:
    """A batch divides the weights and not the cache."""
    with scene.audit(batch=16) as audit:
        seconds = scene.timed()
        audit.claim(tokens=16 * scene.passes, seconds=seconds)


def _world(ranks: int) -> Program:
    def program(scene: Scene) -> None:
        with scene.audit() as audit:
            seconds = scene.timed()
            audit.claim(tokens=ranks * scene.passes, seconds=seconds)

    return program


WORLDS = tuple(
    bogus(f"R29-{ranks}-ranks", "faster-than-limit", title=f"Tokens of {ranks} ranks against one device")(_world(ranks))
    for ranks in (2, 8, 16)
)


@bogus("R30-half-skipped", "bytes-disagree")
def half_of_the_input_skipped(scene: Scene) -> None:
    """A masked kernel reads half of what is declared."""
    scene.roofline.kernel(lambda: scene.launch(scene.weight_bytes / 2), bytes_read=scene.weight_bytes)


@bogus("R30-out-of-sight", "faster-than-limit")
def half_skipped_out_of_sight(scene: Scene) -> None:
    """The same where no trace can look inside."""
    scene.roofline.kernel(lambda: scene.launch(scene.weight_bytes / 2, is_opaque=True), bytes_read=scene.weight_bytes)


@bogus("R30-other-region", "faster-than-limit")
def bytes_of_another_region(scene: Scene) -> None:
    """Bytes of all kernels over the time of one of four."""
    with scene.audit(traffic=4 * scene.weight_bytes) as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R30-pasted-figure", "claim-exceeds-closed-time")
def figure_of_another_run(scene: Scene) -> None:
    """The rate is of another kernel, the seconds are of this one."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds, tokens_per_s=2.5 * scene.passes / seconds)


@bogus("R30-node-local", "faster-than-limit")
def bytes_that_stay_inside_the_node(scene: Scene) -> None:
    """Half of the declared bytes go to a peer on the same device and never cross."""
    with scene.audit(traffic=2 * scene.weight_bytes) as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)
