// The page: controls, what they are set to (also in the link's fragment), and what is shown of the prediction.
"use strict";

(() => {
  const table = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const model = table.model;
  const longest = Math.min(2 ** 24, Math.max(131072, model.max_context ?? 0));

  // -- what can be set --------------------------------------------------------------------------------------------

  // 1, 2, 3, 4, 6, 8, 12 ... up to `last`.
  function doublings(first, last) {
    const found = [];
    for (let value = first; value <= last; value *= 2) {
      found.push(value);
      if (value > 1 && value * 1.5 <= last) found.push(value * 1.5);
    }
    return found;
  }

  const mostDrafted = table.draft === null ? table.most_tokens_per_pass : table.draft.tokens + 1;
  const NUMBERS = {
    ranks: { name: "Tensor parallel", unit: "devices", least: 1, most: 4096, stops: [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 72] },
    batch: { name: "Batch", unit: "sequences", least: 1, most: 2 ** 20, stops: doublings(1, 4096) },
    context: { name: "Context", unit: "tokens", least: 0, most: 2 ** 30, stops: [0, ...doublings(128, longest)] },
    prompt: { name: "Prompt", unit: "tokens, 0: none", least: 0, most: 2 ** 30, stops: [0, ...doublings(128, longest)] },
    tokens_per_pass: {
      name: "Tokens per pass", unit: "accepted, per user", least: 1, most: mostDrafted, isReal: true,
      stops: Array.from({ length: 71 }, (_, index) => 1 + index / 10).filter((stop) => stop <= mostDrafted),
    },
    offload: {
      name: "Weights on the host", unit: "share, 0 to 1", least: 0, most: 1, isReal: true,
      stops: Array.from({ length: 21 }, (_, index) => index / 20),
    },
  };
  const LISTS = ["device", "weights", "kv"];
  const start = Object.freeze({ ...table.start });
  const settings = { ...start };

  // The number that a text stands for, 128K too, or null.
  function numberIn(text, { least, most, isReal }) {
    const found = /^([0-9]+(?:[,_][0-9]{3})*|[0-9]*\.?[0-9]+(?:e-?[0-9]+)?|[0-9]+\.)\s*([kK]i?)?$/.exec(text.trim());
    if (!found) return null;
    const value = Number(found[1].replace(/[,_]/g, "")) * (found[2] ? 1024 : 1);
    return value >= least && value <= most && (isReal || Number.isInteger(value)) ? value : null;
  }

  const shown = (value) => (Number.isInteger(value) ? words.whole(value) : String(value));

  function nearest(stops, value) {
    return stops.reduce((best, stop, index) => (Math.abs(stop - value) < Math.abs(stops[best] - value) ? index : best), 0);
  }

  function makeNumber(holder) {
    const key = holder.dataset.number;
    const about = NUMBERS[key];
    const label = Object.assign(document.createElement("label"), { htmlFor: key, textContent: about.name });
    const unit = Object.assign(document.createElement("span"), { className: "unit", textContent: about.unit });
    const field = Object.assign(document.createElement("input"), {
      type: "text", id: key, inputMode: about.isReal ? "decimal" : "numeric", maxLength: 18, spellcheck: false,
    });
    unit.id = `${key}-unit`;
    field.setAttribute("aria-describedby", unit.id);
    const slider = Object.assign(document.createElement("input"), {
      type: "range", id: `${key}-slider`, min: 0, max: about.stops.length - 1, step: 1,
    });
    slider.setAttribute("aria-label", `${about.name}, slider`);
    holder.append(label, unit, field, slider);
    field.addEventListener("input", () => {
      const value = numberIn(field.value, about);
      field.setAttribute("aria-invalid", String(value === null));
      if (value === null) {
        complain(`${about.name}: a ${about.isReal ? "" : "whole "}number from ${shown(about.least)} to `
          + `${shown(about.most)} is needed; the figures are those of ${shown(settings[key])}.`);
        return;
      }
      settings[key] = value;
      update(field);
    });
    field.addEventListener("change", () => { if (numberIn(field.value, about) !== null) showSettings(); });
    slider.addEventListener("input", () => {
      settings[key] = about.stops[Number(slider.value)];
      update(slider);
    });
  }

  function makeList(key, labelOf) {
    const list = byId(key);
    const groups = new Map();
    for (const entry of table[key === "device" ? "devices" : key]) {
      if (!groups.has(entry.group)) {
        const group = Object.assign(document.createElement("optgroup"), { label: entry.group });
        groups.set(entry.group, group);
        list.append(group);
      }
      groups.get(entry.group).append(new Option(labelOf(entry), entry.key));
    }
    list.disabled = list.options.length < 2;
    list.addEventListener("change", () => {
      settings[key] = list.value;
      update(list);
    });
  }

  // `source` is being typed into or drawn: its own text is left alone.
  function showSettings(source) {
    for (const key of LISTS) if (byId(key) !== source) byId(key).value = settings[key];
    for (const [key, about] of Object.entries(NUMBERS)) {
      const field = byId(key), slider = byId(`${key}-slider`);
      if (field !== source) {
        field.value = shown(settings[key]);
        field.removeAttribute("aria-invalid");
      }
      if (slider !== source) slider.value = String(nearest(about.stops, settings[key]));
      slider.setAttribute("aria-valuetext", `${shown(settings[key])} ${about.unit}`);
      slider.style.setProperty("--filled", `${100 * Number(slider.value) / (about.stops.length - 1 || 1)}%`);
    }
    byId("is_overlapped").checked = settings.is_overlapped;
    byId("is_overlapped").disabled = settings.offload === 0;
  }

  // -- the link ---------------------------------------------------------------------------------------------------

  function fragment() {
    const changed = Object.keys(start).filter((key) => settings[key] !== start[key]);
    return changed.length ? `#${new URLSearchParams(changed.map((key) => [key, String(settings[key])]))}` : "";
  }

  function writeLink() {
    try {
      history.replaceState(null, "", fragment() || location.pathname + location.search);
    } catch { /* A page inside of another one may not change its address. */ }
  }

  // The settings of the link; what is none of this page's is left out and named.
  function readLink() {
    Object.assign(settings, start);
    const strange = [];
    for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
      let value = null;
      if (LISTS.includes(key)) {
        value = table[key === "device" ? "devices" : key].some((entry) => entry.key === text) ? text : null;
      } else if (key in NUMBERS) value = numberIn(text, NUMBERS[key]);
      else if (key === "is_overlapped") value = { true: true, false: false }[text] ?? null;
      if (value === null) strange.push(`${key}=${text}`.slice(0, 80)); else settings[key] = value;
    }
    return strange;
  }

  // -- what is shown ----------------------------------------------------------------------------------------------

  function complain(text) {
    const message = byId("message");
    message.hidden = text === "";
    if (message.textContent !== text) message.textContent = text;
  }

  let announcing = 0;
  function announce(text) {
    clearTimeout(announcing);
    announcing = setTimeout(() => { byId("live").textContent = text; }, 500);
  }

  function update(source, said = "") {
    showSettings(source);
    writeLink();
    showCommand();
    let found;
    try {
      found = arithmetic.predict(table, settings);
    } catch (error) {
      byId("result").classList.add("stale");
      complain(error.message);
      return;
    }
    byId("result").classList.remove("stale");
    complain(said);
    showFigures(found);
    showBars(found);
    showDivision(found);
    showWords(found);
    draw(found);
    announce(words.summary(settings, found));
  }

  function showFigures(found) {
    const [low, high] = found.expected_tokens_per_s;
    const figures = { ...found, expected_low: low, expected_high: high };
    for (const output of document.querySelectorAll("[data-figure]")) {
      const value = figures[output.dataset.figure];
      output.dataset.value = String(value);
      if (!output.dataset.as) continue;
      output.textContent = value === null ? output.dataset.none ?? "not known" : words[output.dataset.as](value);
    }
    const [head, tail] = words.boundOf(found);
    byId("bound").textContent = words.boundOf({ ...found, bound: found.step_bound })[0];
    byId("bound-badge").className = `badge bound-${found.step_bound}`;
    byId("fits").textContent = { true: "Fits", false: "Does not fit", null: "Memory not known" }[found.fits];
    byId("fits-badge").className = `badge fits-${found.fits}`;
    byId("bound-hint").textContent = found.bound === "capacity" ? `${head.toLowerCase()}: ${tail}` : tail;
    byId("expected-hint").textContent = `${table.expected_shares.map((share) => `${Math.round(100 * share)}`).join(" to ")}`
      + " % of the ceiling: what well-made engines reach";
    byId("ttft-hint").textContent = found.ttft_floor_s === null
      ? (settings.prompt ? "no peak is known" : "set a prompt")
      : `rule of thumb; counted exactly at least ${words.seconds(found.prefill_floor_s)}`;
  }

  // A bar of parts, each [class, amount], in a width that stands for `whole`.
  function fill(bar, parts, whole) {
    bar.replaceChildren(...parts.filter(([, amount]) => amount > 0).map(([name, amount]) => {
      const part = document.createElement("span");
      part.className = name;
      part.style.width = `${100 * amount / whole}%`;
      return part;
    }));
  }

  function showBars(found) {
    fill(byId("bytes-bar"), [
      ["weights", found.weight_bytes_per_pass], ["kv", found.kv_bytes_per_pass], ["draft", found.draft_bytes_per_pass],
    ], found.bytes_per_pass);
    byId("draft-part").hidden = table.draft === null;
    const there = found.device.memory_bytes;
    const widest = Math.max(found.memory_needed_bytes, there ?? 0);
    const bar = byId("memory-bar");
    fill(bar, [["weights", found.memory_weight_bytes], ["kv", found.memory_cache_bytes]], widest);
    bar.classList.toggle("too-large", found.fits === false);
    if (there !== null && found.fits === false) {
      const edge = document.createElement("i");
      edge.style.left = `${100 * there / widest}%`;
      bar.append(edge);
    }
    byId("memory-of").textContent = there === null ? "needed" : `of ${words.bytes(there)}`
      + `${settings.ranks > 1 ? ` on each of ${words.whole(settings.ranks)}` : ""}`;
    byId("room").textContent = roomLeft(found);
  }

  function roomLeft(found) {
    if (found.device.memory_bytes === null) return "The size of the memory is not known.";
    const room = arithmetic.room(table, settings);
    const kept = Math.max(settings.context, settings.prompt);
    const said = [];
    if (room.batch !== null && room.batch < 2 ** 20) said.push(`a batch of ${words.whole(room.batch)} at this context`);
    if (room.context !== null && room.context < 2 ** 24) said.push(`${words.whole(room.context)} tokens at this batch`);
    if (said.length) return `${found.fits ? "Room for" : "Would fit:"} ${said.join(", or ")}${kept ? "" : " (no context is set)"}.`;
    if (found.fits) return "The caches of this workload take next to nothing.";
    return room.ranks === null || room.ranks <= settings.ranks ? "Not even one sequence fits."
      : `Fits on ${room.ranks} such devices (tensor parallel).`;
  }

  function showDivision(found) {
    const { device } = found;
    const own = found.bytes_per_pass - found.spill_bytes_per_pass;
    const rows = [["Memory", `${words.bytes(own)} / ${words.bandwidth(device.bandwidth_bytes_per_s)}`, found.memory_s, "memory"]];
    if (settings.offload > 0) {
      rows.push(["Host link", `${words.bytes(found.spill_bytes_per_pass)} / ${words.bandwidth(device.spill_bytes_per_s)}`,
        found.spill_s, "link"]);
    }
    rows.push(["Compute", found.peak_flops_per_s === null ? `${words.flops(found.flops_per_pass)}, no peak known`
      : `${words.flops(found.flops_per_pass)} / ${words.flopRate(found.peak_flops_per_s)}`, found.compute_s, "compute"]);
    if (settings.ranks > 1) {
      const link = device.link_bytes_per_s === null ? "rate not known" : words.bandwidth(device.link_bytes_per_s);
      rows.push(["Between devices", `${words.bytes(found.link_bytes_per_pass)} / ${link}`, found.link_s, "link"]);
    }
    byId("division").replaceChildren(...rows.map(([name, division, taken, kind]) => {
      const row = document.createElement("tr");
      const head = Object.assign(document.createElement("th"), { scope: "row", textContent: name });
      const bar = Object.assign(document.createElement("div"), { className: "bar thin" });
      fill(bar, [[`time-${kind}`, taken]], Math.max(found.step_floor_s, taken));
      row.append(head, ...[division, words.seconds(taken)].map((text) => (
        Object.assign(document.createElement("td"), { textContent: text }))));
      row.append(document.createElement("td"));
      row.lastChild.append(bar);
      return row;
    }));
  }

  function showWords(found) {
    byId("notes").replaceChildren(...words.notes(table, settings, found).map((text) => (
      Object.assign(document.createElement("li"), { textContent: text }))));
    const { device } = found;
    const told = (number) => (number === null ? null : table.words[number]);
    const sources = [
      ["Model", model.source], ["Bandwidth", told(device.bandwidth_source)], ["Peak", told(found.peak_source)],
      ["Memory", told(device.memory_source)],
      ["Link", settings.ranks > 1 ? told(device.link_source) : null],
      ["Host link", settings.offload > 0 ? told(device.spill_source) : null],
    ];
    byId("sources").replaceChildren(...sources.filter(([, text]) => text !== null).flatMap(([name, text]) => [
      Object.assign(document.createElement("dt"), { textContent: name }),
      Object.assign(document.createElement("dd"), { textContent: text }),
    ]));
  }

  function showCommand() {
    const chosen = (list, key) => table[list].find((entry) => entry.key === key).arguments;
    const parts = ["roofline", "predict", ...table.arguments, ...chosen("devices", settings.device),
      ...chosen("weights", settings.weights), ...chosen("kv", settings.kv),
      "--batch", settings.batch, "--context", settings.context];
    if (settings.prompt) parts.push("--prompt", settings.prompt);
    const accepted = table.draft === null ? 1 : table.draft.tokens + 1;
    if (settings.tokens_per_pass !== accepted) parts.push("--tokens-per-pass", settings.tokens_per_pass);
    if (settings.ranks > 1) parts.push("--tp", settings.ranks);
    if (settings.offload > 0) parts.push("--offload", settings.offload, ...(settings.is_overlapped ? ["--overlap"] : []));
    byId("command").textContent = parts.join(" ");
  }

  function draw(found) {
    const others = picture.BATCHES.map((batch) => [batch, arithmetic.predict(table, { ...settings, batch })]);
    picture.drawRoofline(byId("roofline"), table, settings, found, others, (batch) => {
      settings.batch = batch;
      update(null);
    });
    byId("roofline-text").textContent = `Roofline in log-log: ${words.summary(settings, found)} `
      + `${words.intensity(found.arithmetic_intensity)} FLOP per byte`
      + `${found.ridge_point === null ? "." : `, ridge point ${words.intensity(found.ridge_point)}.`}`;
    const over = document.querySelector("[name=over]:checked").value;
    const values = [];
    const last = over === "batch" ? Math.max(4096, settings.batch) : Math.max(longest, settings.context);
    for (let value = over === "batch" ? 1 : 256; value < last * 1.09; value *= 2 ** 0.125) values.push(Math.min(last, Math.round(value)));
    const points = [...new Set(values)].map((value) => [value, arithmetic.predict(table, { ...settings, [over]: value })]);
    picture.drawCurve(byId("curve"), over, settings[over], points, found);
    const ends = [points[0], points[points.length - 1]].map(([value, one]) => (
      `${words.rate(one.ceiling_tokens_per_s)} at ${words.whole(value)}`));
    byId("curve-text").textContent = `Ceiling in tokens per second over ${over}: ${ends.join(", ")}.`;
  }

  // -- copying ----------------------------------------------------------------------------------------------------

  async function copy(button, text) {
    const before = button.dataset.label ?? button.textContent;
    button.dataset.label = before;
    let isDone = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      isDone = copiedBySelection(text);
    }
    button.textContent = isDone ? "Copied" : "Not allowed here";
    announce(button.textContent);
    setTimeout(() => { button.textContent = before; }, 1600);
  }

  // For browsers that keep the clipboard from pages opened as files.
  function copiedBySelection(text) {
    const field = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone;
  }

  // -- to begin with ----------------------------------------------------------------------------------------------

  document.querySelectorAll("[data-number]").forEach(makeNumber);
  makeList("device", (entry) => `${entry.label} · ${words.bandwidth(entry.bandwidth_bytes_per_s)}`);
  makeList("weights", (entry) => `${entry.key || !entry.label ? entry.label || entry.weights : `${entry.label}: ${entry.weights}`} · ${words.bytes(entry.total_bytes)}`);
  makeList("kv", (entry) => (entry.key || table.kv.length < 2 ? entry.label : `${entry.label}: ${entry.name}`));
  byId("is_overlapped").addEventListener("change", (event) => {
    settings.is_overlapped = event.target.checked;
    update(event.target);
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("reset").addEventListener("click", () => {
    Object.assign(settings, start);
    update(null);
  });
  byId("copy-link").addEventListener("click", (event) => copy(event.target, location.href.split("#")[0] + fragment()));
  byId("copy-command").addEventListener("click", (event) => copy(event.target, byId("command").textContent));
  // Not by its fragment: that one holds the settings.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("headline").focus();
    byId("headline").scrollIntoView();
  });
  document.querySelectorAll("[name=over]").forEach((choice) => choice.addEventListener("change", () => update(null)));

  function open() {
    const strange = readLink();
    update(null, strange.length ? `Left out of the link, because this page does not have it: ${strange.join(", ")}` : "");
  }
  window.addEventListener("hashchange", open);
  let width = 0;
  new ResizeObserver(() => {
    const now = byId("roofline").parentElement.clientWidth;
    if (now === width) return;
    width = now;
    if (!byId("result").classList.contains("stale")) draw(arithmetic.predict(table, settings));
  }).observe(byId("roofline").parentElement);

  const active = model.active_parameters < model.parameters ? `, ${words.count(model.active_parameters)} active per token` : "";
  byId("model-about").textContent = `${words.count(model.parameters)} parameters${active}`
    + `${model.max_context === null ? "" : `, made for ${words.whole(model.max_context)} tokens`}`;
  byId("foot").textContent = `pytest-roofline ${table.version}: a ceiling is arithmetic, no measurement. Nothing is sent anywhere.`;
  open();
})();
