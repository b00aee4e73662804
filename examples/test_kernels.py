"""Recipes for single kernels: what each must read and write, in words and as arithmetic.

A byte counts once, however often a kernel touches it: what it reads from memory at least, and what it leaves there.
Vectors beside a matrix are left out where they are a thousandth of it. Caches are kept cold by the tool. For a kernel
of your own (Triton, a CUDA extension) put its call in the place of the torch one: no trace looks into it, so the bytes
have to be declared.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

BUDGET = {"cpu": 0.02, "*": 0.3}
SECONDS = 2.0
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = pytest.mark.roofline(at_least=BUDGET)


def filled(*shape: int, dtype=torch.bfloat16):
    """Random numbers: memory that was never written, or holds one value, may be read faster than memory can be."""
    block = torch.empty(1 << 20, device=DEVICE).uniform_(-1, 1)
    block = (block * 127).to(dtype) if dtype == torch.int8 else block.to(dtype)
    size = torch.Size(shape).numel()
    return block.repeat(-(-size // block.numel()))[:size].view(shape)


def judged(roofline, kernel, read: float, written: float = 0):
    """Measure it for two seconds at most, and print its figures."""
    result = roofline.kernel(kernel, bytes_read=read, bytes_written=written, max_time_s=SECONDS)
    print(f"{read / 1e6:.1f} MB read, {written / 1e6:.2f} MB written: {result.fraction:.0%} of the ceiling")


def test_copy(roofline):
    """A copy of n bytes reads n and writes n."""
    source, target = filled(1 << 24), filled(1 << 24)
    judged(roofline, lambda: target.copy_(source), read=source.nbytes, written=target.nbytes)


def test_gemv(roofline):
    """A matrix times a vector reads the matrix once: rows x columns x 2 bytes."""
    rows, columns = 4096, 8192
    weight, vector = filled(rows, columns), filled(columns)
    result = filled(rows)
    judged(roofline, lambda: torch.mv(weight, vector, out=result), read=rows * columns * 2)


def test_quantized_gemv(roofline):
    """With int8 weights that the kernel unpacks: rows x columns x 1 byte, and a scale of 2 bytes for each row."""
    rows, columns = 8192, 8192
    weight, scales, vector = filled(rows, columns, dtype=torch.int8), filled(rows), filled(1, columns)
    if not hasattr(torch.ops.aten, "_weight_int8pack_mm"):
        pytest.skip("this torch has no product with int8 weights")
    judged(
        roofline,
        lambda: torch.ops.aten._weight_int8pack_mm(vector, weight, scales),
        read=rows * columns * 1 + rows * 2,
    )


def test_decode_attention(roofline):
    """One query reads all keys and all values once: 2 x tokens x KV heads x head size x 2 bytes."""
    heads, tokens, size = 8, 16_384, 128
    query = filled(1, heads, 1, size)
    keys, values = filled(1, heads, tokens, size), filled(1, heads, tokens, size)
    judged(
        roofline,
        lambda: torch.nn.functional.scaled_dot_product_attention(query, keys, values),
        read=2 * tokens * heads * size * 2,
    )


def test_rms_norm(roofline):
    """A normalisation reads its input once and writes as much: tokens x width x 4 bytes of float32, each way."""
    tokens, width = 4096, 2048
    hidden, gain = filled(tokens, width, dtype=torch.float32), filled(width, dtype=torch.float32)
    judged(
        roofline,
        lambda: torch.nn.functional.rms_norm(hidden, (width,), gain),
        read=tokens * width * 4,
        written=tokens * width * 4,
    )


def test_mixture_of_experts(roofline):
    """A token reads the experts that it is sent to, not all of them: experts hit x rows x columns x 2 bytes."""
    experts, rows, columns = 16, 2048, 4096
    hit = (3, 7, 8, 12)
    weights, vector = filled(experts, rows, columns), filled(columns)
    judged(
        roofline,
        lambda: sum(torch.mv(weights[expert], vector) for expert in hit),
        read=len(hit) * rows * columns * 2,
    )


def test_jitted_function(roofline):
    """A JAX jit is traced: no bytes are declared, and what XLA compiles is compiled before anything is timed."""
    jax = pytest.importorskip("jax")
    matrix = jax.random.normal(jax.random.key(0), (4096, 4096))
    product = jax.jit(lambda left, right: left @ right)
    vector = matrix[0]
    result = roofline.kernel(lambda: product(matrix, vector), max_time_s=SECONDS)
    print(f"{result.traffic.bytes_per_pass / 1e6:.1f} MB traced: {result.fraction:.0%} of the ceiling")
    assert result.traffic.bytes_per_pass == pytest.approx(matrix.nbytes, rel=0.01)
