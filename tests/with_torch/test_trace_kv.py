"""The KV cache in a traced step: rows attended, rows written, and copies that need not be."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_roofline.models.module import trace_module  # noqa: E402
from pytest_roofline.protocol import Trace, TraceRequest  # noqa: E402


def run(step: Any, *args: Any, **known: Any) -> Trace:
    """Trace a step without gradients."""
    with torch.no_grad():
        return trace_module(TraceRequest(step=step, args=args, **known))


HEADS, ROOM, WIDTH = 2, 128, 64
ROW = HEADS * WIDTH * 4


def _attention(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _static(batch: int = 2) -> tuple[Any, Any, Any]:
    keys, values = torch.randn(2, batch, HEADS, ROOM, WIDTH)
    return keys.clone(), values.clone(), torch.randn(batch, HEADS, 1, WIDTH)


@pytest.mark.parametrize("store", ["index_copy", "index_put", "slice"])
def test_a_masked_static_cache_counts_the_rows_attended(store: str) -> None:
    """Keys that the mask hides are not needed; the new row is written, and what else is read is extra."""
    keys, values, new = _static()
    at = torch.tensor([10])
    mask = torch.arange(ROOM) <= 10

    def step(new: Any) -> Any:
        for cache in (keys, values):
            if store == "index_copy":
                cache.index_copy_(2, at, new)
            elif store == "index_put":
                cache[:, :, at] = new
            else:
                cache[:, :, 10:11] = new
        return _attention(new, keys, values, mask.expand(1, ROOM))

    traffic = run(step, new).traffic
    assert traffic.kv_bytes_per_pass == 2 * 2 * 10 * ROW
    assert traffic.kv_bytes_per_token == 2 * ROW
    assert (traffic.batch, traffic.context) == (2, 10)
    assert traffic.written_bytes_per_pass == 2 * 2 * ROW + new.nbytes
    assert traffic.extra == (("KV buffer read beyond the context", 2 * 2 * (ROOM - 11) * ROW),)
    assert traffic.is_closed


def test_a_mask_may_differ_between_sequences() -> None:
    """Padded sequences count the rows that each of them attends."""
    keys, values, new = _static()
    mask = (torch.arange(ROOM) < torch.tensor([[5], [50]]))[:, None, None]
    additive = torch.zeros(2, 1, 1, ROOM).masked_fill(~mask, float("-inf"))
    for form in (mask, additive):
        traffic = run(lambda q, form=form: _attention(q, keys, values, form), new).traffic
        assert traffic.kv_bytes_per_pass == 2 * 55 * ROW


def test_attention_taken_apart_counts_the_rows_attended() -> None:
    """Where PyTorch has no fused kernel, the mask of the call still says which keys are needed."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    keys, values, new = _static()
    mask = (torch.arange(ROOM) < 50).expand(1, ROOM)
    with sdpa_kernel(SDPBackend.MATH):
        traffic = run(lambda q: _attention(q, keys, values, mask), new).traffic
    assert traffic.kv_bytes_per_pass == 2 * 2 * 50 * ROW


def test_a_quantized_cache_counts_at_stored_size() -> None:
    """Keys and values stored as int8 are read as such; making them float each step is extra."""
    keys, values = torch.randint(-8, 8, (2, 1, HEADS, ROOM, WIDTH), dtype=torch.int8)
    keys, values, scale = keys.clone(), values.clone(), torch.tensor(0.1)

    def step(q: Any) -> Any:
        keys[:, :, 5:6] = 1
        values[:, :, 5:6] = 1
        return _attention(q, keys * scale, values * scale)

    traffic = run(step, torch.randn(1, HEADS, 1, WIDTH)).traffic
    assert traffic.kv_bytes_per_pass == 2 * (ROOM - 1) * ROW // 4
    assert traffic.kv_bytes_per_token == 2 * ROW // 4
    assert traffic.extra == (("KV cache dequantized each step", 2 * 2 * ROOM * ROW),)


def test_a_recurrent_state_does_not_grow_with_the_context() -> None:
    """A state that every step rewrites whole is read once and has no bytes per token."""
    state = torch.randn(4, 1024)
    traffic = run(lambda x: state.copy_(state * 0.9 + x), torch.randn(4, 1)).traffic
    assert traffic.kv_bytes_per_pass == state.nbytes
    assert traffic.kv_bytes_per_token is None


def test_keys_put_together_from_pieces_count_their_pieces() -> None:
    """Keys joined from a latent part and a rotary part read the rows of both that the mask shows."""
    latent, rotary = torch.randn(2, 1, HEADS, ROOM, WIDTH // 2)

    def step(q: Any) -> Any:
        keys = torch.empty(1, HEADS, ROOM, WIDTH)
        keys[..., : WIDTH // 2] = latent
        keys[..., WIDTH // 2 :] = rotary
        return _attention(q, keys, keys, (torch.arange(ROOM) < 50).expand(1, ROOM))

    assert run(step, torch.randn(1, HEADS, 1, WIDTH)).traffic.kv_bytes_per_pass == 50 * ROW


def test_a_whole_buffer_multiplied_counts_the_given_context() -> None:
    """Attention as two products shows no mask; a given context bounds what it must read."""
    keys, values, new = _static()
    at = torch.tensor([10])

    def step(new: Any) -> Any:
        keys.index_copy_(2, at, new)
        values.index_copy_(2, at, new)
        return torch.softmax(new @ keys.transpose(2, 3), -1) @ values

    assert run(step, new, batch=2).traffic.kv_bytes_per_pass == 2 * 2 * (ROOM - 1) * ROW
    assert run(step, new, batch=2, context=10).traffic.kv_bytes_per_pass == 2 * 2 * 10 * ROW


def test_a_concatenated_cache_is_read_once_and_its_copy_is_extra() -> None:
    """A cache that is concatenated anew is read, written and read again: the last two are extra."""
    state = {"k": torch.randn(1, HEADS, ROOM, WIDTH), "v": torch.randn(1, HEADS, ROOM, WIDTH)}

    def step(new: Any) -> Any:
        for name in state:
            state[name] = torch.cat([state[name], new], dim=2)
        return _attention(new, state["k"], state["v"])

    traffic = run(step, torch.randn(1, HEADS, 1, WIDTH)).traffic
    assert traffic.kv_bytes_per_pass == 2 * ROOM * ROW
    assert traffic.extra == (("KV cache copied each step (concatenated anew)", 2 * 2 * ROOM * ROW),)
    assert traffic.written_bytes_per_pass == 2 * ROW + ROW
    assert (traffic.kv_bytes_per_token, traffic.context) == (2 * ROW, ROOM)
    assert traffic.is_closed


def test_repeated_heads_are_extra() -> None:
    """Key heads repeated in memory for their query heads are read once; the copies are extra."""
    keys, values, _ = _static(1)

    def step(q: Any) -> Any:
        k, v = (cache.repeat_interleave(4, dim=1) for cache in (keys, values))
        return _attention(q, k, v)

    traffic = run(step, torch.randn(1, 4 * HEADS, 1, WIDTH)).traffic
    assert traffic.kv_bytes_per_pass == 2 * ROOM * ROW
    assert traffic.extra == (("KV cache repeated in memory each step", 2 * 2 * 4 * ROOM * ROW),)


def test_a_paged_pool_counts_the_blocks_in_the_table() -> None:
    """Blocks picked by a table are read, the rest of the pool is not."""
    pool = torch.randn(64, 16, HEADS * WIDTH)
    table = torch.tensor([3, 40])

    def step(q: Any) -> Any:
        rows = pool[table].reshape(1, 32, HEADS, WIDTH).transpose(1, 2)
        return _attention(q, rows, rows)

    traffic = run(step, torch.randn(1, HEADS, 1, WIDTH)).traffic
    assert traffic.kv_bytes_per_pass == 32 * ROW


def test_a_cache_updated_without_writing_to_it_counts_the_rows_attended() -> None:
    """A functional update copies the whole buffer; what the mask hides of it is not needed."""
    keys, values, new = _static(1)
    at = torch.tensor([10])
    mask = (torch.arange(ROOM) <= 10).expand(1, ROOM)

    def step(new: Any) -> Any:
        return _attention(new, keys.index_copy(2, at, new), values.index_copy(2, at, new), mask)

    traffic = run(step, new).traffic
    assert traffic.kv_bytes_per_pass == 2 * 10 * ROW
    assert traffic.extra[0][0] == "KV cache copied each step"


def test_attention_through_a_table_is_open() -> None:
    """A kernel that picks its keys by lengths or a table counts none of the pool, and opens the trace."""
    from pytest_roofline.models.attention import attend_packed
    from pytest_roofline.models.calls import Call
    from pytest_roofline.models.ledger import Ledger

    ledger = Ledger(has_model=False)
    query, key, value, lengths = (torch.randn(2, 2, 8) for _ in range(4))
    op = torch.ops.aten._flash_attention_forward.default
    call = Call(
        name="aten._flash_attention_forward",
        func=op,
        args=(query, key, value, None, None, 2, 2, 0.0, False, False),
        kwargs={"seqused_k": lengths},
        result=(torch.randn(2, 2, 8),),
    )
    attend_packed(ledger, call)
    assert ledger.open_reasons
    assert not ledger.storages.of(key).needed
    assert ledger.storages.of(query).needed.total_bytes == query.nbytes


def test_copies_that_were_freed_take_no_memory() -> None:
    """The codes of a copy are dropped with it: a deep model makes many."""
    from pytest_roofline.models.lineage import Rows, write_rows
    from pytest_roofline.models.storages import Storages

    storages = Storages()
    for _ in range(3):
        copy = torch.empty(8, 64)
        entry = storages.of(copy, existed=False)
        write_rows(storages, copy, Rows(torch.zeros(8, 1, dtype=torch.int64), 1, 256, 1.0))
        assert entry.lineage is not None
        del copy
    storages.forget_dead_copies()
    assert [entry.lineage for entry in storages] == [None, None, None]


def test_a_shifted_window_is_no_compulsory_write() -> None:
    """A full window that is rolled by one row needs its old rows but the first, and writes one."""
    keys, _, new = _static(1)

    def step(new: Any) -> Any:
        rolled = keys.roll(-1, dims=2)
        rolled[:, :, torch.tensor([ROOM - 1])] = new
        keys.copy_(rolled)
        return _attention(new, keys, keys)

    traffic = run(step, new).traffic
    assert traffic.kv_bytes_per_pass == (ROOM - 1) * ROW
    assert traffic.written_bytes_per_pass == ROW + new.nbytes
    assert [name for name, _ in traffic.extra] == ["KV cache shifted each step"]
