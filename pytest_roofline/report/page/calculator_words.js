// Figures and sentences for people: three significant digits and decimal prefixes, as the command line prints them.
"use strict";

const words = (() => {
  const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

  function threeDigits(value) {
    if (Math.abs(value) >= 99.95) return value.toFixed(0);
    return value.toFixed(Math.abs(value) >= 9.995 ? 1 : 2);
  }

  function scaled(value, unit) {
    // 999.5 of one prefix prints as 1.00 of the next one, never as a four-digit number.
    const found = PREFIXES.find(([size]) => Math.abs(value) >= size * 0.9995);
    return found ? `${threeDigits(value / found[0])} ${found[1]}${unit}` : `${value.toFixed(0)} ${unit}`;
  }

  const bytes = (value) => (value < 999.5 ? `${value.toFixed(0)} bytes` : scaled(value, "B"));
  const bandwidth = (value) => scaled(value, "B/s");
  const flops = (value) => scaled(value, "FLOP");
  const flopRate = (value) => scaled(value, "FLOP/s");
  const whole = (value) => Math.round(value).toLocaleString("en-US");

  function seconds(value) {
    if (value >= 0.9995) return `${threeDigits(value)} s`;
    for (const [size, unit] of [[1e-3, "ms"], [1e-6, "µs"]]) {
      if (value >= size * 0.9995) return `${threeDigits(value / size)} ${unit}`;
    }
    return `${(value / 1e-9).toFixed(0)} ns`;
  }

  function rate(value) {
    if (value >= 999.5) return whole(value);
    return value > 0 && value < 0.0995 ? String(Number(value.toPrecision(2))) : threeDigits(value);
  }

  function intensity(value) {
    return value >= 999.5 ? whole(value) : String(Number(value.toPrecision(3)));
  }

  // Parameters: 8.03B, 671B, 1.04T.
  function count(value) {
    const found = [[1e12, "T"], [1e9, "B"], [1e6, "M"]].find(([size]) => value >= size * 0.9995);
    return found ? `${Number((value / found[0]).toPrecision(3))}${found[1]}` : whole(value);
  }

  // Axes: 0.1, 1, 10, 100, 1k ...
  function short(value) {
    const found = PREFIXES.find(([size]) => value >= size * 0.9995);
    return found ? `${Number((value / found[0]).toPrecision(3))}${found[1]}` : String(Number(value.toPrecision(3)));
  }

  const BOUNDS = {
    memory: ["Memory-bound", "reading weights and KV cache sets the pace"],
    compute: ["Compute-bound", "arithmetic sets the pace"],
    link: ["Link-bound", "the link sets the pace"],
    capacity: ["Does not fit", "the rate is that of a device with room for it"],
  };

  function boundOf(found) {
    const [head, tail] = BOUNDS[found.bound];
    if (found.bound === "link") {
      return [head, found.step_floor_s === found.link_s
        ? "exchanging hidden states between devices sets the pace" : "the path to offloaded weights sets the pace"];
    }
    return [head, tail];
  }

  // What has to be known beside the figures.
  function notes(table, settings, found) {
    const { device, inventory } = found;
    const { model, store } = inventory;
    const said = [...model.notes];
    const ranks = settings.ranks;
    if (found.fits === false) {
      said.push(`Does not fit: ${bytes(found.memory_needed_bytes)} needed${ranks > 1 ? " on each device" : ""}, `
        + `${bytes(device.memory_bytes)} there.`);
    } else if (found.fits && !found.fits_as_printed) {
      const gb = Number((device.memory_bytes / 1e9).toPrecision(4));
      said.push(`Fits only because the ${gb} GB of a card are ${gb} GiB: nothing is left for activations.`);
    }
    if (model.is_rule) {
      said.push("By the rule of thumb: every parameter counts as read. A model's name, config or file gives the exact "
        + "count.");
    } else if (store.lookup_bytes) {
      said.push(`${bytes(store.lookup_bytes)} of tables are looked up by row: they take memory and are not read whole.`);
    }
    if (store.experts.length && settings.batch * found.positions > 1) {
      said.push("The experts of a batch are the expectation for tokens that route uniformly; tokens that are alike "
        + "read fewer.");
    }
    if (model.max_context !== null && Math.max(settings.context, settings.prompt) > model.max_context) {
      said.push(`Beyond the ${whole(model.max_context)} tokens that this model was made for.`);
    }
    if (found.peak_flops_per_s === null) {
      said.push(`No peak for ${store.compute_dtype} is known of ${device.name}: compute bounds nothing here, and there is `
        + "no floor for the time to the first token.");
    } else if (found.peak_dtype !== store.compute_dtype) {
      said.push(`Products run in ${found.peak_dtype}: ${device.name} `
        + `${store.compute_dtype in device.dense_peaks ? "is faster in it than in" : "has no peak for"} `
        + `${store.compute_dtype}.`);
    }
    if (store.prediction_bytes && !table.draft?.is_own) {
      said.push(`${bytes(store.prediction_bytes)} of multi-token-prediction layers are left out of the weights and the `
        + "memory needed: engines load them only to draft.");
    }
    if (table.draft !== null) {
      said.push(`${table.draft.model.model} drafts ${table.draft.tokens} before each pass: `
        + `${bytes(found.draft_bytes_per_pass)} more are read.`);
    } else if (settings.tokens_per_pass > 1) {
      said.push("The reads of whatever drafts the further tokens of a pass are not counted.");
    }
    if (ranks > 1) said.push(...ofRanks(table, ranks, found));
    if (device.memory_bytes === null) {
      said.push("The size of the memory is not known: whether this fits is not said.");
    } else {
      said.push("Memory needed is weights and caches alone: activations and the runtime come on top."
        + `${device.is_unified_memory ? " The memory is shared with the system." : ""}`);
    }
    return [...new Set(said)];
  }

  function ofRanks(table, ranks, found) {
    const { device, inventory } = found;
    const said = [`Bytes, FLOPs and memory are those of one of ${ranks} devices (tensor parallel).`];
    for (const cache of inventory.model.caches) {
      if (!cache.elements_per_token || cache.kv_heads === null) continue;
      if (cache.kv_heads === 1) said.push(`${cache.name}: what is cached serves all heads, so every rank reads all of it.`);
      else if (cache.kv_heads % ranks) {
        said.push(`${cache.name}: ${cache.kv_heads} KV heads on ${ranks} ranks: the fullest keeps and reads `
          + `${Math.ceil(cache.kv_heads / ranks)} of them.`);
      }
    }
    if (!inventory.model.reductions) said.push("Layers and width are not known: collectives are not counted.");
    else if (device.link_bytes_per_s === null) {
      said.push(`No link between devices is known of ${device.name}: bytes of collectives take no time.`);
    }
    if (inventory.model.reductions && !table.link_latency_s) said.push("No latency per all-reduce is counted.");
    return said;
  }

  // One sentence for those who do not see the picture.
  function summary(settings, found) {
    const fits = { true: "fits", false: "does not fit", null: "memory size not known" }[found.fits];
    return `${found.device.name}, batch ${whole(settings.batch)}, context ${whole(settings.context)}: at most `
      + `${rate(found.ceiling_tokens_per_s)} tokens per second, ${rate(found.ceiling_tokens_per_s_per_user)} per user; `
      + `${boundOf(found)[0].toLowerCase()}, ${fits}.`;
  }

  return { bytes, bandwidth, flops, flopRate, seconds, rate, intensity, short, whole, count, boundOf, notes, summary };
})();

if (typeof module !== "undefined") module.exports = words;
