"""Writes a small GGUF file of a llama with random weights: large enough to leave most caches, quickly made."""

from __future__ import annotations

from pathlib import Path

WIDTH, FEED, LAYERS, HEADS, KV_HEADS = 1024, 2816, 12, 16, 4
ROOM = 512
"""Tokens that a context may have."""
WORDS = ("<unk>", "<s>", "</s>")
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def write_llama(path: Path) -> Path:
    """270 MB in F16; its tokens are the bytes of a text, and letters."""
    import gguf
    import numpy as np

    letters = ["\u2581", *(chr(code) for code in range(ord("a"), ord("z") + 1))]
    tokens = [*WORDS, *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    kinds = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(letters)]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(ROOM)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)

    random = np.random.default_rng(0)

    def matrix(name: str, rows: int, columns: int) -> None:
        values = random.standard_normal((rows, columns), dtype=np.float32) * np.float32(0.02)
        if name == "output.weight":
            # Half a character is never the likeliest: the package ends no completion within one. Nor is an id without
            # text.
            values[len(WORDS) + 128 : len(WORDS) + 256] = 0
            values[: len(WORDS)] = 0
        writer.add_tensor(name, values.astype(np.float16))

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(WIDTH, dtype=np.float32))

    kv = WIDTH // HEADS * KV_HEADS
    matrix("token_embd.weight", len(tokens), WIDTH)
    matrix("output.weight", len(tokens), WIDTH)
    norm("output_norm.weight")
    for layer in range(LAYERS):
        for part, rows, columns in (
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", kv, WIDTH),
            ("attn_v", kv, WIDTH),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", FEED, WIDTH),
            ("ffn_up", FEED, WIDTH),
            ("ffn_down", WIDTH, FEED),
        ):
            matrix(f"blk.{layer}.{part}.weight", rows, columns)
        norm(f"blk.{layer}.attn_norm.weight")
        norm(f"blk.{layer}.ffn_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
