// The arithmetic of `roofline predict`, on the table that Python filled in; a pure function of table and settings.
// Bytes, seconds, FLOP; bytes and FLOPs of a pass are those of one device. Sources of the formulas: the Python modules
// inventory.py and prediction.py, which this follows line by line.
"use strict";

const arithmetic = (() => {
  // -- weights and caches of one model: { model, store, kvBytes } -------------------------------------------------

  const expectedShare = (share, tokens) => (tokens === 1 ? share : 1 - Math.pow(1 - share, tokens));

  const weightBytes = (inventory, tokens) => inventory.store.experts.reduce(
    (total, [bytes, share]) => total + bytes * expectedShare(share, tokens), inventory.store.dense_bytes);

  const leastWeightBytes = (inventory) => weightBytes(inventory, 1) - inventory.store.image_bytes;

  // What no correct implementation can avoid: one token's experts, no image, narrow states.
  function atLeast(inventory) {
    const { model, store } = inventory;
    const plain = model.plain_bytes_per_element;
    const caches = model.caches.filter((cache) => !cache.needs_image).map((cache) => (
      { ...cache, state_bytes_per_element: Math.min(stateBytes(cache, plain), plain) }));
    return {
      ...inventory,
      model: { ...model, caches, flops_per_token: model.flops_per_token - model.image_flops },
      store: { ...store, dense_bytes: leastWeightBytes(inventory), image_bytes: 0, experts: [] },
    };
  }

  const stateBytes = (cache, plain) => cache.state_bytes_per_element ?? plain;

  // Heads are whole: the fullest rank keeps ceil(heads / ranks) of them.
  const shareOfRank = (cache, ranks) => (
    cache.kv_heads === null ? 1 / ranks : Math.ceil(cache.kv_heads / ranks) / cache.kv_heads);

  function positionsRead(cache, context) {
    if (cache.fixed_tokens !== null) return cache.fixed_tokens;
    const since = cache.chunk === null ? context : context % cache.chunk;
    return Math.min(since, cache.window ?? Infinity, cache.selected ?? Infinity);
  }

  function positionsKept(cache, context) {
    if (cache.fixed_tokens !== null) return cache.fixed_tokens;
    return Math.min(context, cache.window ?? Infinity, cache.chunk ?? Infinity);
  }

  const bytesPerToken = (cache, inventory) => cache.elements_per_token * (cache.bytes_per_element ?? inventory.kvBytes);

  function cachedBytes(inventory, positions, statePasses, context, ranks) {
    let total = 0;
    for (const cache of inventory.model.caches) {
      const cached = positions(cache, context) * bytesPerToken(cache, inventory);
      const state = statePasses * cache.state_elements * stateBytes(cache, inventory.model.plain_bytes_per_element);
      total += cache.layers * (cached * shareOfRank(cache, ranks) + state / ranks);
    }
    return total;
  }

  // A state is read and written by each pass.
  const kvRead = (inventory, context, ranks) => cachedBytes(inventory, positionsRead, 2, context, ranks);
  const kvKept = (inventory, context, ranks) => cachedBytes(inventory, positionsKept, 1, context, ranks);

  const kvBytesPerToken = (inventory) => inventory.model.caches.reduce(
    (total, cache) => total + (cache.fixed_tokens === null ? cache.layers * bytesPerToken(cache, inventory) : 0), 0);

  function flopsPerPass(inventory, tokens, context) {
    const attention = inventory.model.caches.reduce(
      (total, cache) => total + cache.layers * cache.flops_per_position * positionsRead(cache, context), 0);
    return tokens * (inventory.model.flops_per_token + attention);
  }

  // sum(min(i, reach) for i in 1 .. tokens)
  function ramp(tokens, reach) {
    const rising = Math.min(tokens, reach);
    return rising * (rising + 1) / 2 + (tokens - rising) * reach;
  }

  function causalPositions(cache, tokens) {
    if (cache.fixed_tokens !== null) return cache.fixed_tokens * tokens;
    if (cache.chunk === null) return ramp(tokens, Math.min(tokens, cache.window ?? Infinity, cache.selected ?? Infinity));
    const reach = Math.min(cache.window ?? cache.chunk, cache.chunk);
    return Math.floor(tokens / cache.chunk) * ramp(cache.chunk, reach) + ramp(tokens % cache.chunk, reach);
  }

  // The head for the last token alone, attention causal.
  function prefillFlops(inventory, tokens) {
    const { flops_per_token: flops, head_flops: head, caches } = inventory.model;
    const attention = caches.reduce(
      (total, cache) => total + cache.layers * cache.flops_per_position * causalPositions(cache, tokens), 0);
    return tokens * (flops - head) + head + attention;
  }

  // -- what is asked ----------------------------------------------------------------------------------------------

  const withKey = (list, key) => list.find((entry) => entry.key === key);

  // The records of one question: device, model and draft in the chosen formats. Throws an Error that a person can read.
  function scenarioOf(table, settings) {
    const device = withKey(table.devices, settings.device);
    const store = withKey(table.weights, settings.weights);
    const kv = withKey(table.kv, settings.kv);
    const draft = table.draft === null ? null : {
      ...table.draft,
      inventory: { model: table.draft.model, store: store.draft, kvBytes: kv.draft_bytes_per_element },
    };
    if (settings.offload > 0 && device.spill_bytes_per_s === null) {
      throw new Error(`The path from the host to ${device.name} is not known: no weights can be offloaded`);
    }
    if (draft !== null && settings.tokens_per_pass > draft.tokens + 1) {
      throw new Error(`${draft.tokens} drafted tokens and one of the model's own make at most ${draft.tokens + 1} `
        + "tokens per pass");
    }
    return {
      table, settings, device, draft, ranks: settings.ranks,
      inventory: { model: table.model, store, kvBytes: kv.bytes_per_element },
      positions: draft === null ? Math.max(1, settings.tokens_per_pass) : draft.tokens + 1,
      keptContext: Math.max(settings.context, settings.prompt),
    };
  }

  function draftBytes(scenario, inventory, ranks) {
    const { batch, context } = scenario.settings;
    return scenario.draft.tokens
      * (weightBytes(inventory, batch) / ranks + batch * kvRead(inventory, context, ranks));
  }

  const draftFlops = (scenario, inventory) => (
    scenario.draft.tokens * flopsPerPass(inventory, scenario.settings.batch, scenario.settings.context));

  // Bytes that one rank sends (a ring all-reduce), and the seconds that takes.
  function collectives({ table, device, inventory, ranks }, tokens) {
    const calls = inventory.model.reductions;
    if (ranks === 1 || !calls) return [0, 0];
    const bytes = calls * (2 * (ranks - 1) / ranks) * tokens * inventory.model.hidden * table.exchanged_bytes;
    return [bytes, (device.link_bytes_per_s ? bytes / device.link_bytes_per_s : 0) + calls * table.link_latency_s];
  }

  // The floor of a pass, and what sets it.
  function stepOf({ device, settings }, weights, others, computeS, linkS) {
    const memoryS = (weights * (1 - settings.offload) + others) / device.bandwidth_bytes_per_s;
    const spillS = settings.offload > 0 ? weights * settings.offload / device.spill_bytes_per_s : 0;
    const movedS = settings.is_overlapped ? Math.max(memoryS, spillS) : memoryS + spillS;
    let bound = spillS > memoryS ? "link" : "memory";
    if (computeS > movedS) bound = "compute";
    if (linkS > Math.max(movedS, computeS)) bound = "link";
    return { memoryS, spillS, stepS: Math.max(movedS, computeS, linkS), bound };
  }

  // The least bytes of a pass, the largest peak of any dtype, no collectives.
  function limitOf(scenario) {
    const { device, draft, ranks, settings } = scenario;
    const least = atLeast(scenario.inventory);
    const weights = weightBytes(least, 1);
    let others = settings.batch * kvRead(least, settings.context, 1);
    let flops = flopsPerPass(least, settings.batch * scenario.positions, settings.context);
    if (draft !== null) {
      const drafting = atLeast(draft.inventory);
      others += draftBytes(scenario, drafting, 1);
      flops += draftFlops(scenario, drafting);
    }
    const peak = device.largest_peak_flops_per_s;
    const computeS = peak === null ? 0 : flops / ranks / peak;
    return {
      leastBytes: (weights + others) / ranks,
      stepS: stepOf(scenario, weights / ranks, others / ranks, computeS, 0).stepS,
    };
  }

  // Memory of one device: its part of all weights but spilled ones, and the caches.
  function neededBytes({ inventory, draft, ranks, settings, keptContext }) {
    let weights = inventory.store.total_bytes * (1 - settings.offload);
    let kept = kvKept(inventory, keptContext, ranks);
    if (draft !== null) {
      weights += draft.is_own ? inventory.store.prediction_bytes : draft.inventory.store.total_bytes;
      kept += kvKept(draft.inventory, keptContext, ranks);
    }
    return { weights: weights / ranks, caches: settings.batch * kept };
  }

  // The printed size of a card may count as GiB.
  function holds(device, bytes) {
    if (device.memory_bytes === null) return null;
    return bytes <= Math.max(device.memory_bytes, device.most_memory_bytes || 0);
  }

  // The prediction, with the keys of `roofline predict --json`.
  function predict(table, settings) {
    const scenario = scenarioOf(table, settings);
    const { device, draft, inventory, ranks, positions } = scenario;
    const { batch, context, prompt, tokens_per_pass: accepted } = settings;
    const tokens = batch * positions;
    const drafted = draft === null ? 0 : draftBytes(scenario, draft.inventory, ranks);
    const flops = (flopsPerPass(inventory, tokens, context)
      + (draft === null ? 0 : draftFlops(scenario, draft.inventory))) / ranks;
    const weights = weightBytes(inventory, tokens) / ranks;
    const kv = batch * kvRead(inventory, context, ranks);
    const [peak, peakSource, peakDtype] = device.peaks[inventory.store.compute_dtype] ?? [null, null, null];
    const computeS = peak === null ? 0 : flops / peak;
    const [linkBytes, linkS] = collectives(scenario, tokens);
    const step = stepOf(scenario, weights, kv + drafted, computeS, linkS);
    const limit = limitOf(scenario);
    const needed = neededBytes(scenario);
    const neededTotal = needed.weights + needed.caches;
    const fits = holds(device, neededTotal);
    const bytes = weights + kv + drafted;
    const ceiling = batch * accepted / step.stepS;
    const prefill = prompt > 0 ? prefillFlops(inventory, prompt) / ranks : null;
    const read = leastWeightBytes(inventory) / ranks;
    return {
      weight_bytes_total: inventory.store.total_bytes,
      weight_bytes_per_pass: weights,
      kv_bytes_per_token: kvBytesPerToken(inventory),
      kv_bytes_per_pass: kv,
      draft_bytes_per_pass: drafted,
      bytes_per_pass: bytes,
      spill_bytes_per_pass: weights * settings.offload,
      link_bytes_per_pass: linkBytes,
      least_bytes_per_pass: limit.leastBytes,
      flops_per_pass: flops,
      arithmetic_intensity: flops / bytes,
      ridge_point: peak === null ? null : peak / device.bandwidth_bytes_per_s,
      memory_s: step.memoryS,
      spill_s: step.spillS,
      compute_s: computeS,
      link_s: linkS,
      step_floor_s: step.stepS,
      bound: fits === false ? "capacity" : step.bound,
      step_bound: step.bound,
      memory_needed_bytes: neededTotal,
      memory_weight_bytes: needed.weights,
      memory_cache_bytes: needed.caches,
      fits,
      fits_as_printed: device.memory_bytes === null ? null : neededTotal <= device.memory_bytes,
      ceiling_tokens_per_s: ceiling,
      ceiling_tokens_per_s_per_user: accepted / step.stepS,
      expected_tokens_per_s: table.expected_shares.map((share) => share * ceiling),
      limit_tokens_per_s: batch * accepted / limit.stepS,
      peak_flops_per_s: peak,
      peak_source: peakSource,
      peak_dtype: peakDtype,
      ttft_floor_s: prefill === null || peak === null
        ? null : 2 * inventory.model.active_parameters * prompt / (peak * ranks),
      prefill_flops: prefill,
      prefill_floor_s: prefill === null || peak === null ? null : stepOf(scenario, read, 0, prefill / peak, 0).stepS,
      device, inventory, positions,
    };
  }

  // -- what would fit ---------------------------------------------------------------------------------------------

  // The largest whole number from `low` that fits; null where not even that does. What is too much stays too much.
  function largest(fits, low, high) {
    if (!fits(low)) return null;
    while (low < high) {
      const middle = low + Math.ceil((high - low) / 2);
      if (fits(middle)) low = middle; else high = middle - 1;
    }
    return low;
  }

  // The most sequences and the longest context that fit, all else as it is; null where none does.
  function room(table, settings) {
    const fit = (change) => {
      const scenario = scenarioOf(table, { ...settings, ...change });
      const needed = neededBytes(scenario);
      return holds(scenario.device, needed.weights + needed.caches) === true;
    };
    return {
      batch: largest((batch) => fit({ batch }), 1, 2 ** 20),
      context: largest((context) => fit({ context, prompt: 0 }), 0, 2 ** 24),
      ranks: [1, 2, 4, 8, 16, 32, 64].find((ranks) => fit({ ranks })) ?? null,
    };
  }

  return { predict, room, kvBytesPerToken };
})();

if (typeof module !== "undefined") module.exports = arithmetic;
