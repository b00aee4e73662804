"""What the tests of ``roofline predict`` give it: figures, a config, a spec file."""

from __future__ import annotations

RULE = ("--params", "8B", "--bandwidth", "1TB/s")
CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SPECS = """
schema: 1
sources: {sheet: "Data sheet of a made-up card"}
devices:
  - id: made-up
    name: Made-up card
    vendor: Nobody
    device_names: ["Made-up"]
    memory_bytes: {value: 10_000_000_000, source: sheet}
    bandwidth_bytes_per_s: {value: 100_000_000_000, source: sheet}
    link_bidirectional_bytes_per_s: {value: 20_000_000_000, source: sheet}
    host_link_bytes_per_s: {value: 5_000_000_000, source: sheet}
    dense_peak_flops_per_s:
      bfloat16: {value: 1_000_000_000_000, source: sheet}
"""
