"""roofline.generate around transformers' own generate: passes, ids, first token and bytes, on real classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from pytest_roofline.backends.torch import TorchBackend  # noqa: E402
from pytest_roofline.errors import RooflineUsageError  # noqa: E402
from pytest_roofline.generation import GenerationWatch, Look, Run, generation_request  # noqa: E402

ITEM, LAYERS, KV_HEADS, HEAD_DIM, VOCABULARY = 4, 2, 2, 16, 512
PROMPT, NEW = 12, 10
KV_BYTES = 2 * LAYERS * KV_HEADS * HEAD_DIM * ITEM
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 256,
}


def _gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=256, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config)


def _t5() -> Any:
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=64, d_ff=96, num_layers=2, num_heads=4, d_kv=16, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


def _mamba() -> Any:
    config = transformers.MambaConfig(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, state_size=8)
    return transformers.MambaForCausalLM(config)


MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**COMMON)),
    "gpt2": _gpt2,
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**COMMON)),
    "mixtral": lambda: transformers.MixtralForCausalLM(
        transformers.MixtralConfig(**COMMON, num_local_experts=4, num_experts_per_tok=2)
    ),
    "t5": _t5,
    "mamba": _mamba,
}


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the library's warnings out of these tests, and one thread for models of this size."""
    threads, verbosity = torch.get_num_threads(), transformers.utils.logging.get_verbosity()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(verbosity)
    torch.set_num_threads(threads)


def make(name: str = "llama", **changes: Any) -> Any:
    """A model with seeded random weights."""
    torch.manual_seed(7)
    if changes:
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**COMMON, **changes})).eval()
    return MODELS[name]().eval()


@pytest.fixture(scope="module")
def llama() -> Any:
    """One for all tests that leave it as it is."""
    return make()


def prompt(rows: int = 1, tokens: int = PROMPT) -> Any:
    """Ids that are no special ones."""
    return torch.randint(5, VOCABULARY, (rows, tokens), generator=torch.Generator().manual_seed(1))


def watching(model: Any, inputs: Any = None, **arguments: Any) -> GenerationWatch:
    """The watch of one call."""
    return TorchBackend().watch_generation(generation_request(model, inputs, arguments), lambda: None)


def seen(model: Any, inputs: Any = None, **arguments: Any) -> tuple[Look, Run]:
    """A look at a call, and a run of it."""
    watch = watching(model, inputs, **{"max_new_tokens": NEW, "do_sample": False, **arguments})
    try:
        return watch.look(), watch.run()
    finally:
        watch.close()


def is_untouched(model: Any) -> bool:
    """Whether no hook and no attribute of ours is left."""
    names = ("forward", "generate", "get_compiled_call")
    return not (model._forward_hooks or model._forward_pre_hooks or any(name in vars(model) for name in names))


@pytest.mark.parametrize("name", MODELS)
def test_a_run_has_as_many_passes_as_new_ids(name: str) -> None:
    """The prefill yields the first, each decode pass one more; the ids are those of an unwatched call."""
    model = make(name)
    ids = prompt()
    plain = model.generate(ids, max_new_tokens=NEW, do_sample=False, min_new_tokens=NEW)
    look, run = seen(model, ids, min_new_tokens=NEW)
    start = 1 if name == "t5" else PROMPT
    for one in (look.run, run):
        assert one.outputs.tolist() == plain.tolist()
        assert one.ids == (tuple(plain[0, start:].tolist()),)
        assert (one.prompt_tokens, one.tokens, one.decode_passes, one.draft_passes) == (start, NEW, NEW - 1, 0)
        assert one.possible_tokens == NEW
        assert one.first_token_s is not None
        assert one.start_s < one.first_token_s < one.end_s
    assert [number for number, _ in look.traced] == [1, 2, 3]
    assert all(traffic.is_closed for _, traffic in look.traced)
    assert is_untouched(model)


@pytest.mark.parametrize("static", [False, True])
def test_a_pass_reads_the_weights_once_and_the_cache_so_far(llama: Any, static: bool) -> None:
    """All parameters but the table's other rows; the cache as far as it was filled before the pass."""
    look, run = seen(llama, prompt(), **({"cache_implementation": "static"} if static else {}))
    row = 64 * ITEM
    weights = sum(one.nbytes for one in llama.parameters()) - (VOCABULARY - 1) * row
    for number, traffic in look.traced:
        assert traffic.weight_bytes_per_pass == pytest.approx(weights, rel=0.01)
        assert traffic.kv_bytes_per_pass == KV_BYTES * (PROMPT + number - 1)
        assert traffic.kv_bytes_per_token == KV_BYTES
    assert run.mean_context == PROMPT + (NEW - 2) / 2


def test_left_padding_is_no_context_and_no_token(llama: Any) -> None:
    """Six of twelve columns of one sequence are padding: its cache is read for the other six."""
    ids = prompt(2)
    mask = torch.ones_like(ids)
    ids[0, :6] = mask[0, :6] = 0
    look, run = seen(llama, {"input_ids": ids, "attention_mask": mask}, pad_token_id=0)
    assert run.context == (6 + 12) / 2
    assert run.tokens == 2 * NEW
    assert look.traced[0][1].batch == 2
    assert look.traced[0][1].kv_bytes_per_pass == KV_BYTES * (6 + 12)


def test_a_sequence_that_has_ended_is_computed_and_yields_no_token(llama: Any) -> None:
    """One of two ends with its third token; the passes go on for the other."""
    ids = prompt(2)
    free = llama.generate(ids, max_new_tokens=NEW, do_sample=False)[:, PROMPT:].tolist()
    end = next(one for at, one in enumerate(free[0][:4]) if one not in free[0][:at] and one not in free[1])
    _, run = seen(llama, ids, eos_token_id=end, pad_token_id=0)
    ended = free[0].index(end) + 1
    assert [len(one) for one in run.ids] == [ended, NEW]
    assert run.decode_passes == NEW - 1
    assert run.decode_tokens == ended - 1 + NEW - 1
    assert not run.is_ended_early


def test_an_end_at_once_leaves_no_decode_pass(llama: Any) -> None:
    """Every id ends: the run says that it ended itself."""
    look, run = seen(llama, prompt(), eos_token_id=list(range(VOCABULARY)))
    assert (run.tokens, run.decode_passes, run.step_s) == (1, 0, None)
    assert run.is_ended_early
    assert look.traced == ()


def test_beams_are_rows_and_their_best_is_the_sequence(llama: Any) -> None:
    """Six rows are computed for two sequences."""
    look, run = seen(llama, prompt(2), num_beams=3)
    assert len(run.ids) == 2
    assert {one.rows for one in run.decode} == {6}
    assert run.decode_passes == NEW - 1
    assert look.traced[0][1].batch == 6


def test_returned_sequences_are_rows(llama: Any) -> None:
    """One prompt, four sequences: each counts."""
    look, run = seen(llama, prompt(), num_return_sequences=4, do_sample=True)
    assert (len(run.ids), run.tokens, run.possible_tokens) == (4, 4 * NEW, 4 * NEW)
    assert look.traced[0][1].batch == 4


def test_sampled_runs_may_differ_in_length(llama: Any) -> None:
    """Each is judged by its own passes: one position of a pass for each id."""
    torch.manual_seed(3)
    watch = watching(llama, prompt(), max_new_tokens=30, do_sample=True, eos_token_id=list(range(60)))
    try:
        runs = [watch.run() for _ in range(8)]
    finally:
        watch.close()
    assert len({run.tokens for run in runs}) > 1
    assert all(run.tokens == run.possible_tokens == run.decode_passes + 1 for run in runs)


def test_an_assistants_passes_are_counted_apart(llama: Any) -> None:
    """Its traffic is its own, and the ids are those that the model alone chooses."""
    draft = make(num_hidden_layers=1)
    alone = llama.generate(prompt(), max_new_tokens=NEW, do_sample=False)
    look, run = seen(llama, prompt(), assistant_model=draft)
    assert run.outputs.tolist() == alone.tolist()
    assert run.draft_passes > 0
    assert {one.positions for one in run.decode if not one.is_draft} != {1}
    assert look.draft is not None
    assert look.draft.weight_bytes_per_pass == pytest.approx(
        sum(one.nbytes for one in draft.parameters()) - (VOCABULARY - 1) * 64 * ITEM, rel=0.01
    )
    assert is_untouched(draft)


def test_a_draft_that_is_always_right_multiplies_the_tokens(llama: Any) -> None:
    """The model drafts for itself: fewer passes than tokens, and each token has its position."""
    llama.generation_config.num_assistant_tokens = 3
    llama.generation_config.num_assistant_tokens_schedule = "constant"
    llama.generation_config.assistant_confidence_threshold = 0.0
    try:
        look, run = seen(llama, prompt(), assistant_model=llama, max_new_tokens=17)
    finally:
        llama.generation_config = type(llama.generation_config)()
    assert run.tokens == 17
    assert run.first_tokens == 4  # three guesses were verified in the prefill
    assert run.decode_passes == 4
    assert run.decode_tokens == 13
    assert run.growth_per_pass == pytest.approx(13 / 4)
    assert run.draft_passes > 2 * run.decode_passes
    assert run.tokens <= (run.possible_tokens or 0)
    assert look.draft is not None


def test_the_first_layers_as_a_draft(llama: Any) -> None:
    """Early exit drafts with the same module, from within its own generate."""
    _, run = seen(llama, prompt(), assistant_early_exit=1)
    assert run.tokens == NEW
    assert run.draft_passes > 0
    assert run.tokens <= (run.possible_tokens or 0)


def test_guesses_from_the_prompt_need_no_draft(llama: Any) -> None:
    """Prompt lookup verifies several positions a pass; no pass is a draft's."""
    look, run = seen(llama, torch.full((1, PROMPT), 9), prompt_lookup_num_tokens=4)
    assert run.draft_passes == 0
    assert look.draft is None
    assert max(one.positions or 0 for one in run.decode) > 1
    assert run.tokens <= (run.possible_tokens or 0)


def test_a_prefill_in_chunks_is_all_prefill(llama: Any) -> None:
    """Three passes of four tokens, and the first token after the last of them."""
    _, run = seen(llama, prompt(), prefill_chunk_size=4)
    assert [one.positions for one in run.prefill] == [4, 4, 4]
    assert (run.decode_passes, run.possible_tokens) == (NEW - 1, NEW)


def test_a_cache_of_the_callers_is_as_it_was(llama: Any) -> None:
    """Each run works on a copy, so all of them begin with the same prompt."""
    cache = transformers.DynamicCache(config=llama.config)
    look, run = seen(llama, prompt(), cache=cache)
    assert cache.get_seq_length() == 0
    assert look.run.ids == run.ids
    assert [one.positions for one in run.prefill] == [PROMPT]


def test_without_a_cache_every_pass_computes_the_whole_sequence(llama: Any) -> None:
    """More positions than tokens accuse nobody."""
    look, run = seen(llama, prompt(), use_cache=False)
    assert [one.positions for one in run.decode] == list(range(PROMPT + 1, PROMPT + NEW))
    assert look.traced[0][1].kv_bytes_per_pass == 0


def test_embeddings_as_a_prompt(llama: Any) -> None:
    """The returned ids are all new."""
    _, run = seen(llama, inputs_embeds=llama.get_input_embeddings()(prompt()).detach())
    assert (run.prompt_tokens, run.tokens, run.context) == (0, NEW, PROMPT)


def test_an_output_with_scores_has_sequences(llama: Any) -> None:
    """`return_dict_in_generate` wraps the ids."""
    _, run = seen(llama, prompt(), return_dict_in_generate=True, output_scores=True)
    assert run.outputs.shape == (1, PROMPT + NEW)


def test_processors_and_streamers_of_the_caller_are_called(llama: Any) -> None:
    """Ours stands beside them: the first id is forbidden by theirs, and their streamer hears of every token."""

    class Streamer(transformers.generation.streamers.BaseStreamer):
        puts = ends = 0

        def put(self, value: Any) -> None:
            self.puts += 1

        def end(self) -> None:
            self.ends += 1

    ids, streamer = prompt(), Streamer()
    first = int(llama.generate(ids, max_new_tokens=1, do_sample=False)[0, -1])
    forbid = transformers.SuppressTokensLogitsProcessor([first])
    theirs = transformers.LogitsProcessorList([forbid])
    _, run = seen(llama, ids, logits_processor=theirs, streamer=streamer)
    assert first not in run.ids[0]
    assert len(theirs) == 1
    assert (streamer.puts, streamer.ends) == (2 * (1 + NEW), 2)


def test_an_encoder_is_no_pass() -> None:
    """The decoder's passes are counted, from its start token on; the cross-attention's cache is read by each."""
    look, run = seen(make("t5"), prompt(), min_new_tokens=NEW)
    assert (run.prompt_tokens, run.context, len(run.prefill)) == (1, 1.0, 1)
    assert look.traced[0][1].kv_bytes_per_pass == 2 * 2 * 64 * ITEM * (PROMPT + 1)


def test_a_recurrent_state_does_not_grow() -> None:
    """A state-space model reads the same bytes in every pass."""
    look, _ = seen(make("mamba"), prompt(), min_new_tokens=NEW)
    sizes = {traffic.bytes_per_pass for _, traffic in look.traced}
    assert len(sizes) == 1
    assert look.traced[0][1].kv_bytes_per_token is None


# -- compiled -----------------------------------------------------------------------------------------------------


def test_a_compiled_forward_is_counted() -> None:
    """`model.forward = torch.compile(model.forward)`: hooks are around it, and the look is eager."""
    model = make()
    model.forward = torch.compile(model.forward, backend="eager")
    look, run = seen(model, prompt())
    assert (run.decode_passes, run.possible_tokens) == (NEW - 1, NEW)
    assert len(look.traced) == 3


def test_a_compiled_module_is_counted_once() -> None:
    """`model.compile()` calls its hooks inside of what is compiled, where ours do nothing."""
    model = make()
    model.compile(backend="eager")
    compiled = model._compiled_call_impl
    look, run = seen(model, prompt())
    assert (run.decode_passes, run.possible_tokens) == (NEW - 1, NEW)
    assert len(look.traced) == 3
    assert model._compiled_call_impl is compiled


def test_what_generate_compiles_by_itself_is_counted() -> None:
    """A static cache makes generate compile its decode passes on devices where that pays; the prefill stays eager."""
    config = transformers.generation.configuration_utils.CompileConfig(backend="eager", mode=None)
    config._compile_all_devices = True
    look, run = seen(make(), prompt(), cache_implementation="static", compile_config=config)
    assert (run.decode_passes, run.possible_tokens) == (NEW - 1, NEW)
    assert len(look.traced) == 3


def test_a_wrapper_that_does_not_compile_generate_is_named() -> None:
    """`torch.compile(model).generate` runs the module inside, eagerly: a note says so."""
    look, run = seen(torch.compile(make(), backend="eager"), prompt())
    assert run.decode_passes == NEW - 1
    assert "torch.compile(model).generate runs the module as it was before compiling" in look.notes[0]


# -- other prompts ------------------------------------------------------------------------------------------------


def test_another_prompt_gives_other_logits_and_new_memory(llama: Any) -> None:
    """An honest model: other logits, and each pass writes what it returns; the ids' own run is not disturbed."""
    watch = watching(llama, prompt(), max_new_tokens=NEW, do_sample=False)
    try:
        before = watch.look().run.ids
        other = watch.with_other_prompt(1)
        whole = watch.with_other_prompt(2, is_whole=True)
        assert (other.elements, other.is_identical, other.reason) == (VOCABULARY, False, "")
        assert other.overwritten.fate == "renewed"
        assert whole.run is not None
        assert whole.run.tokens == whole.run.possible_tokens == NEW
        assert watch.run().ids == before
    finally:
        watch.close()


def test_a_pass_that_returns_what_it_returned_before_is_seen() -> None:
    """The forward is skipped after the prefill: the second pass returns the first one's memory, unwritten."""
    model = make()
    original, kept = model.forward, {}

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if not kept or kwargs["input_ids"].shape[1] > 1:
            kept["output"] = original(*args, **kwargs)
        return kept["output"]

    model.forward = forward
    watch = watching(model, prompt(), max_new_tokens=NEW, do_sample=False)
    try:
        watch.look()
        assert watch.with_other_prompt(1).overwritten.fate == "untouched"
    finally:
        watch.close()
    assert model.forward is forward


def test_a_prompt_that_is_not_of_ids_alone_is_not_made_up(llama: Any) -> None:
    """Then nothing is compared, and it says why."""
    watch = watching(llama, inputs_embeds=llama.get_input_embeddings()(prompt()).detach(), max_new_tokens=NEW)
    try:
        assert "not one of plain ids" in watch.with_other_prompt(1).reason
    finally:
        watch.close()


# -- wrong use ----------------------------------------------------------------------------------------------------


def test_what_generate_raises_comes_through_and_leaves_nothing(llama: Any) -> None:
    """An unknown argument is transformers' own error, and the hooks are gone."""
    with pytest.raises(ValueError, match="nonsense"):
        seen(llama, prompt(), nonsense=3)
    assert is_untouched(llama)


def test_a_generate_of_somebody_elses_is_called_as_the_caller_would(llama: Any) -> None:
    """It hands on what it is given to something that knows no processors: then there is none, and no first token."""
    model = make()

    def generate(inputs: Any, **kwargs: Any) -> Any:
        return greedy(inputs, **kwargs)

    def greedy(ids: Any, max_new_tokens: int, do_sample: bool) -> Any:
        for _ in range(max_new_tokens):
            logits = model(ids, use_cache=False).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
        return ids

    model.generate = generate
    look, run = seen(model, prompt())
    assert run.outputs.tolist() == llama.generate(prompt(), max_new_tokens=NEW, do_sample=False).tolist()
    assert (run.first_token_s, run.ttft_s, run.tokens, run.decode_passes) == (None, None, NEW, NEW)
    assert run.tokens <= (run.possible_tokens or 0)
    assert len(look.traced) == 3
    assert model.generate is generate


def test_ids_are_needed_to_count(llama: Any) -> None:
    """A generate that returns text, or nothing, cannot be counted."""
    model = make()
    model.generate = lambda *_args, **_kwargs: ["a text"]
    with pytest.raises(RooflineUsageError, match="generate returned a list, and tokens are counted from ids"):
        seen(model, prompt())


def test_a_model_that_is_no_module_is_wrong_use() -> None:
    """Its passes cannot be watched."""

    class Engine:
        def generate(self, **_kwargs: Any) -> Any:
            return torch.ones((1, 4), dtype=torch.long)

    with pytest.raises(RooflineUsageError, match=r"passes of a torch\.nn\.Module, and this model is a Engine"):
        watching(Engine(), prompt())
