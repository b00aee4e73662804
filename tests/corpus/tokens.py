"""Tokens, passes and batch are three numbers: prompts, paddings, requests and drafts counted (R40 to R50)."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

from corpus.recipe import bogus, honest, undecidable
from corpus.scene import Scene


@honest("R40", at_least=None)
def chunks_for_tokens(scene: Scene) -> None:
    """A chunk of a stream holds several tokens and is counted as one: too few, and nobody gains."""
    with scene.audit(tokens_per_pass=4) as audit:
        seconds = scene.timed()
        audit.claim(tokens=scene.passes, seconds=seconds)


@bogus("R42", "tokens-disagree")
def characters_for_tokens(scene: Scene) -> None:
    """The characters of the text are counted, beside its ids."""
    with scene.audit() as audit:
        seconds = scene.timed()
        text = "tok " * scene.passes
        audit.claim(tokens=len(text), seconds=seconds, ids=list(range(scene.passes)))


@bogus("R42-without-ids", "faster-than-limit")
def characters_without_ids(scene: Scene) -> None:
    """The same without the ids."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=len("tok " * scene.passes), seconds=seconds)


@bogus("R43-without-ids", "faster-than-limit")
def prompt_in_the_count(scene: Scene) -> None:
    """A prompt of a thousand tokens is counted with the few that were generated."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=1000 + scene.passes, seconds=seconds)


@bogus("R43-among-the-ids", "faster-than-limit")
def prompt_among_the_ids(scene: Scene) -> None:
    """The array that holds prompt and output is counted."""
    with scene.audit() as audit:
        seconds = scene.timed()
        ids = list(range(1000 + scene.passes))
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@bogus("R43-more-than-ids", "tokens-disagree")
def more_tokens_than_ids(scene: Scene) -> None:
    """The ids are those of the output, the claim counts the prompt too."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=1000 + scene.passes, seconds=seconds, ids=list(range(scene.passes)))


@undecidable("R43-watched", "tokens-disagree")
def prompt_among_the_ids_of_watched_passes(scene: Scene) -> None:
    """The passes were watched, and cannot have made so many."""
    with scene.audit() as audit:
        step = audit.watch(scene.step)
        seconds = scene.timed(step=step)
        ids = list(range(1000 + scene.passes))
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@bogus("R44-requested", "tokens-disagree")
def requested_length(scene: Scene) -> None:
    """The sequence ended early, and the length that was asked for is claimed."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=4 * scene.passes, seconds=seconds, ids=list(range(scene.passes)))


@bogus("R44-requested-without-ids", "faster-than-limit")
def requested_length_without_ids(scene: Scene) -> None:
    """The same, and no ids are given."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=4 * scene.passes, seconds=seconds)


@undecidable("R44-padding", model={"batch": 8})
def padding_counted(scene: Scene) -> None:
    """Sequences of a batch end early, and their padding is counted: without their end marks nobody can tell."""
    with scene.audit(batch=8) as audit:
        seconds = scene.timed()
        audit.claim(tokens=8 * scene.passes, seconds=seconds, ids=list(range(8 * scene.passes)))


@bogus("R47", "tokens-disagree")
def failures_counted(scene: Scene) -> None:
    """Four of five requests raise at once, and count as finished."""
    made: list[int] = []

    def request(index: int) -> None:
        if index % 5:
            raise ConnectionError
        scene.step()
        made.append(index)

    with scene.audit() as audit:
        start = time.perf_counter()
        for index in range(scene.passes):
            with contextlib.suppress(ConnectionError):
                request(index)
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start, ids=made)


@bogus("R48-drafts", "tokens-disagree", model={"batch": 2})
def drafts_counted(scene: Scene) -> None:
    """Five drafts a pass are claimed, two ids come out."""
    scene.decode(batch=1, tokens_per_pass=5)


@bogus("R48-drafts-audited", "tokens-disagree")
def drafts_counted_in_an_audit(scene: Scene) -> None:
    """Drafts are claimed, the ids are those that were accepted."""
    with scene.audit(tokens_per_pass=2) as audit:
        seconds = scene.timed()
        audit.claim(tokens=5 * scene.passes, seconds=seconds, ids=list(range(2 * scene.passes)))


@honest("K04-emitted", model={"batch": 3})
def several_tokens_of_a_pass(scene: Scene) -> None:
    """Three ids of one sequence come out of every pass."""
    scene.decode(batch=1, tokens_per_pass=3)


@honest("K04-audited", "tokens-disagree")
def speculation_declared(scene: Scene) -> None:
    """Accepted tokens vary from pass to pass, and are counted as ids."""
    ids: list[int] = []

    def speculate() -> Any:
        ids.extend(range(scene.random.randint(1, 5)))
        return scene.step()

    with scene.audit(tokens_per_pass=3) as audit:
        seconds = scene.timed(step=audit.watch(speculate))
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@honest("K04-audited-at-most")
def speculation_declared_at_most(scene: Scene) -> None:
    """The same, with the most that a pass can emit declared."""
    ids: list[int] = []

    def speculate() -> Any:
        ids.extend(range(scene.random.randint(1, 5)))
        return scene.step()

    with scene.audit(tokens_per_pass=5) as audit:
        seconds = scene.timed(step=audit.watch(speculate))
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@bogus("R50-late-start", "faster-than-limit")
def window_without_the_first_tokens(scene: Scene) -> None:
    """The clock starts at the first token that is seen, a parser held three quarters of them back."""
    with scene.audit() as audit:
        scene.loop()
        scene.backend.synchronize()
        seconds = scene.timed(scene.passes // 3)
        audit.claim(tokens=scene.passes + scene.passes // 3, seconds=seconds)


@undecidable("R50-late-start-watched", "tokens-disagree")
def window_without_the_first_passes(scene: Scene) -> None:
    """The same, and the passes of the window were watched."""
    with scene.audit() as audit:
        step = audit.watch(scene.step)
        scene.loop(step=step)
        scene.backend.synchronize()
        seconds = scene.timed(scene.passes // 3, step=step)
        audit.claim(tokens=scene.passes + scene.passes // 3, seconds=seconds)


@honest("R50-with-prefill", at_least=None)
def prefill_in_the_window(scene: Scene) -> None:
    """Output tokens over the whole run, prefill included: too low, and nobody gains."""
    with scene.audit() as audit:
        start = time.perf_counter()
        scene.launch(20 * scene.weight_bytes)
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)


# -- R41: pieces of a text, tokenized one by one ---------------------------------------------------------------------


def _tokenized_again(scene: Scene) -> list[int]:
    """Each piece has a mark of its beginning before it, and a word cut in two is two tokens."""
    return [id_ for index in range(scene.passes) for id_ in (1, index, index + 1)]


@bogus("R41", "tokens-disagree")
def pieces_tokenized_beside_the_ids(scene: Scene) -> None:
    """The pieces of a stream are tokenized one by one and counted; the ids that were chosen are given too."""
    with scene.audit() as audit:
        seconds = scene.timed()
        audit.claim(tokens=len(_tokenized_again(scene)), seconds=seconds, ids=list(range(scene.passes)))


@bogus("R41-as-ids", "faster-than-limit")
def pieces_given_as_the_ids(scene: Scene) -> None:
    """The pieces are given as the ids."""
    with scene.audit() as audit:
        seconds = scene.timed()
        ids = _tokenized_again(scene)
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


@undecidable("R41-watched", "tokens-disagree")
def pieces_of_watched_passes(scene: Scene) -> None:
    """The same, where the passes were watched: three tokens of each are possible, and were not declared."""
    with scene.audit() as audit:
        seconds = scene.timed(step=audit.watch(scene.step))
        ids = _tokenized_again(scene)
        audit.claim(tokens=len(ids), seconds=seconds, ids=ids)


# -- R45: a prefix that is warm already -------------------------------------------------------------------------------


class _PrefixCache:
    """A prompt that was seen before costs nothing."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.known: dict[int, Any] = {}

    def prefill(self, prompt: int) -> Any:
        if prompt not in self.known:
            self.known[prompt] = self.scene.launch(self.scene.weight_bytes, size=64)
        return self.known[prompt]


@bogus("R45", "stale-output", "faster-than-limit")
def same_prompt_every_time(scene: Scene) -> None:
    """A prefill whose prompt is always the same: from the second on nothing runs."""
    cache = _PrefixCache(scene)
    scene.roofline.decode(lambda: cache.prefill(0), traffic=scene.weight_bytes, reset=lambda: None)


@bogus("R45-ladder", "faster-than-limit")
def same_prompts_on_every_rung(scene: Scene) -> None:
    """A ladder of rounds whose prompts are seeded anew with the same seed; every round is counted."""
    cache = _PrefixCache(scene)
    with scene.audit() as audit:
        start = time.perf_counter()
        for _ in range(6):
            for prompt in range(8):
                cache.prefill(prompt)
            scene.backend.synchronize()
        audit.claim(tokens=48, seconds=time.perf_counter() - start)


@bogus("R45-median", "faster-than-limit", "claim-exceeds-closed-time")
def median_over_warm_prompts(scene: Scene) -> None:
    """The median of samples of which only the first ran the prompt."""
    cache = _PrefixCache(scene)
    samples: list[float] = []
    with scene.audit() as audit:
        samples.extend(scene.timed(1, step=lambda: cache.prefill(0)) for _ in range(9))
        audit.claim(tokens_per_s=1 / statistics.median(samples), samples=samples)


@honest("R45-decoded")
def warm_prefix_and_its_decode(scene: Scene) -> None:
    """The prompt's cache is warm, and only the tokens that were decoded are claimed."""
    cache = _PrefixCache(scene)
    with scene.audit() as audit:
        cache.prefill(0)
        scene.backend.synchronize()
        start = time.perf_counter()
        cache.prefill(0)
        scene.loop()
        scene.backend.synchronize()
        audit.claim(tokens=scene.passes, seconds=time.perf_counter() - start)
