"""Which programs stand for which known fault and which honest look-alike, and what no check here can decide, and why.

A program bears the number of what it shows before the first hyphen of its id; what is shown under another number is
named in `ALSO`. Numbers that are not listed are not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corpus.recipe import Recipe

FAULTS: Mapping[str, str] = {
    "R01": "no wait before the clock stops",
    "R02": "a wait for the wrong device or queue",
    "R03": "a library's own stream",
    "R04": "events on another stream than the work",
    "R06": "samples stamped at the launch",
    "R07": "a lazy graph that nobody evaluates",
    "R09": "the wait comes after the stop",
    "R10": "a synchronize that knows no such backend",
    "R12": "the same time stamp for both ends",
    "R13": "events stamped when they are enqueued",
    "R14": "clocks that give zero, negative, wrapped or coarse values",
    "R15": "another unit of time",
    "R16": "a stream starved by its host",
    "R17": "totals of a profiler",
    "R18": "a wrong divisor",
    "R20": "slips of arithmetic",
    "R21": "a copy counted once, twice, three times",
    "R22": "lookup tables counted as read",
    "R23": "experts that were not hit",
    "R24": "a growing cache forgotten",
    "R25": "heads of queries, keys and values mixed up",
    "R26": "windows that stop growing",
    "R27": "scales of quantized weights",
    "R28": "weights counted per sequence",
    "R29": "tokens of all ranks against one device",
    "R30": "traffic that is declared and not moved",
    "R31": "working sets around the size of a cache",
    "R33": "writes that stay in cache",
    "R34": "data that compresses",
    "R35": "pages that were never written",
    "R36": "the row of another card",
    "R37": "peaks with sparsity",
    "R40": "chunks counted as tokens",
    "R41": "pieces of a text tokenized one by one",
    "R42": "characters counted as tokens",
    "R43": "the prompt counted as output",
    "R44": "the length asked for, or its padding, counted as output",
    "R45": "a prefix that is warm already",
    "R47": "failures counted as work",
    "R48": "drafts counted as tokens",
    "R49": "a mean of rates",
    "R50": "a window that leaves tokens out, or prefill in",
    "R51": "work that is remembered",
    "R53": "a buffer with an earlier result",
    "R55": "a patched clock, event or statistic",
    "R56": "an aggregate that one row decides",
    "R57": "work that a compiler removed",
    "R59": "nothing ran",
    "R61": "data that draws less power",
    "R62": "clocks that ramp, heat and throttling",
    "R63": "contention",
    "R64": "the capacity of something else",
    "R71": "compilation inside the window",
    "R72": "the first contender pays",
    "R81": "windows of ranks that do not overlap",
    "R82": "a barrier inside or outside of the interval",
    "R83": "a rank that is late",
    "R91": "a host that cannot keep up",
}
"""What is known to make a figure wrong."""

LOOK_ALIKES: Mapping[str, str] = {
    "K01": "reads faster than copy and triad",
    "K02": "far below the advertised figure, with much that is resident and not read",
    "K03": "tables of which a row is read",
    "K04": "several tokens of one pass",
    "K06": "a device that no sheet describes",
    "K07": "a name that several cards bear",
    "K08": "a clock above the one that is printed",
    "K09": "a compute unit that does more than its sheet says",
    "K10": "a model that fits the cache",
    "K11": "a graph that rewrites its static outputs",
    "K12": "a pipelined kernel",
    "K13": "a peak that was itself measured",
    "K14": "a device that became faster since it was probed",
    "K15": "streaming stores",
    "K17": "a device without asynchrony",
    "K18": "a queue that is full",
    "K19": "a pass or two of look-ahead",
    "K21": "low utilization",
    "K22": "a wait in every pass, or in none",
    "K23": "contention from neighbours",
    "K24": "a tiny fixture",
    "K26": "unified memory whose driver tells nothing",
    "K27": "a sheet that nobody reaches",
}
"""What looks like a fault and is honest."""

ALSO: Mapping[str, tuple[str, ...]] = {
    "R16": ("R91",),
    "R24": ("X12", "Y25"),
    "R72": ("Y10", "Y22"),
    "K23": ("R63-bursts", "R63-neighbour", "R63-comes-and-goes", "R62-throttle"),
}
"""Programs that show it under another number."""

UNDECIDED: Mapping[str, str] = {
    "R16": "too slow, never too fast: no figure of it may be held against anybody",
    "R31": "a cache is as fast as it is: nothing follows of the memory, and no cheating either",
    "R33": "a cache is as fast as it is: nothing follows of the memory, and no cheating either",
    "R40": "counting fewer tokens than there are lowers the rate: nobody gains from it",
    "R62": "too slow, never too fast: it may take a verdict away, and that is all",
    "R63": "too slow, never too fast: it may take a verdict away, and that is all",
    "R71": "too slow, never too fast: it may take a verdict away, and that is all",
    "R72": "too slow, never too fast: it may take a verdict away, and that is all",
    "R82": "a barrier inside the interval makes it longer: nobody gains from it",
    "R83": "a late rank makes the common window longer: tokens over that window are what counts",
    "R91": "too slow, never too fast: no figure of it may be held against anybody",
    "R61": "up to 15 % under a power limit: only a budget within them is in doubt",
    "R64": "clocks of one machine that are wrong together need a clock outside; a parent's capacity lets pass what the "
    "slice could not do, and what exceeds the probe by far has no verdict",
}
"""Faults that no cheat of this corpus shows: no local check can convict them, or they convict nobody."""

OUT_OF_REACH: Mapping[str, str] = {
    "bytes and peak wrong in the same direction": "their ratio is right; only a trace of the pass tells (R37, R30)",
    "slips inside the margins": "GB for GiB is 7 %, scales are 12 %: an accusation needs more than a machine's noise",
    "another process": "a server's warm prefix, smaller model or own drafts: tokens are seen, its passes are not",
    "an adversary who knows this tool": "code that recognizes the look for its work can do the work for that look",
    "all clocks wrong together": "no clock inside the machine can tell (R64-host-clock)",
    "a lower precision inside the tolerance": "what the dtype explains is no difference; give a reference",
    "labels": "an eager run that replays a graph is as fast as it is",
    "why it is slow": "a low fraction is no fault",
    "hardware that moves fewer bytes than declared": "time and result are honest: measure with random data (R34)",
}
"""What no check inside one process can decide at all."""


def number_of(recipe_id: str) -> str:
    """What a program bears before the first hyphen: ``R01`` of ``R01-no-wait``."""
    return recipe_id.split("-", 1)[0]


def programs_of(number: str, recipes: Iterable[Recipe]) -> tuple[Recipe, ...]:
    """Every program that shows a fault or a look-alike."""
    also = ALSO.get(number, ())
    return tuple(recipe for recipe in recipes if number_of(recipe.id) == number or recipe.id in also)
