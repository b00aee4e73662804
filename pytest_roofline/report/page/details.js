// Everything about one result, in a panel over the page: native dialog, so that focus stays in it and Escape closes it.

const PARTS = [
  ["weights", "Weights"], ["kv", "KV cache"], ["rest", "Other reads"], ["written", "Written"], ["extra", "Extra: a better pass has none"],
];

// The bytes of a pass by what they are, and what is moved on top of them.
function trafficParts(traffic) {
  const total = traffic.bytes_per_pass ?? 0;
  const kv = traffic.kv_bytes_per_pass ?? 0;
  const written = Math.min(traffic.written_bytes_per_pass ?? 0, total);
  const weights = traffic.weight_bytes_per_pass ?? 0;
  const rest = Math.max(0, total - weights - kv - written);
  return { weights, kv, rest: rest > total * 1e-6 ? rest : 0, written, extra: traffic.extra_bytes_per_pass ?? 0 };
}

function trafficBar(traffic) {
  const parts = trafficParts(traffic);
  const all = Object.values(parts).reduce((sum, part) => sum + part, 0);
  if (!(all > 0)) return null;
  const isBare = !parts.weights && !parts.kv;
  const found = PARTS.filter(([name]) => parts[name] > 0).map(([name, words]) => [name, isBare && name === "rest" ? "Reads" : words]);
  const bar = el("div", {
    class: "traffic", role: "img",
    "aria-label": `Bytes of a pass: ${found.map(([name, words]) => `${words} ${bytes(parts[name])}`).join(", ")}`,
  }, found.map(([name]) => {
    const segment = el("span", { class: `part ${name}` });
    segment.style.flexGrow = String(parts[name] / all);
    return segment;
  }));
  const named = (Array.isArray(traffic.extra) ? traffic.extra : []).filter((entry) => Array.isArray(entry) && isNumber(entry[1]));
  return [
    bar,
    table("Bytes of a pass", [{ name: "What" }, { name: "Bytes", isFigure: true }, { name: "Share", isFigure: true }], [
      ...found.map(([name, words]) => [el("span", { class: "key" }, el("span", { class: `swatch ${name}`, "aria-hidden": "true" }), words), bytes(parts[name]), percent(parts[name] / all)]),
      ...named.map(([words, size]) => [el("span", { class: "key inner" }, words), bytes(size), percent(size / all)]),
    ], "compact"),
    el("p", { class: "note" }, [
      `${bytes(traffic.bytes_per_pass)} per pass, ${traffic.source ?? "of unknown source"}`,
      traffic.least_bytes_per_pass != null && traffic.least_bytes_per_pass !== traffic.bytes_per_pass && `at least ${bytes(traffic.least_bytes_per_pass)}`,
      traffic.flops_per_pass > 0 && `${flops(traffic.flops_per_pass)} per pass`,
      traffic.dtype, traffic.batch != null && `batch ${traffic.batch}`, traffic.context > 0 && `context ${traffic.context.toLocaleString("en-US")}`,
    ].filter(Boolean).join(" \u00b7 ")),
  ];
}

function keyFigures(row) {
  const entries = [
    ["Of the ceiling", row.fraction != null && percent(row.fraction), row.fraction_low != null && row.fraction_high > row.fraction_low && `${percent(row.fraction_low)} to ${percent(row.fraction_high)}`],
    ["Asked for", row.at_least != null ? `\u2265 ${percent(row.at_least)}` : row.at_most != null && `\u2264 ${percent(row.at_most)}`, row.at_least != null && row.at_most != null && `\u2264 ${percent(row.at_most)}`],
    ["Tokens per second", row.tokens_per_s != null && rate(row.tokens_per_s), row.ceiling?.batch > 1 && row.tokens_per_s_per_user != null && `${rate(row.tokens_per_s_per_user)} per user`],
    ["Pass", row.step_s != null && seconds(row.step_s), row.ceiling?.step_floor_s > 0 && `floor ${seconds(row.ceiling.step_floor_s)}`],
    ["Bandwidth", row.bytes_per_s != null && bytesPerSecond(row.bytes_per_s), row.ceiling?.bandwidth_bytes_per_s > 0 && `of ${bytesPerSecond(row.ceiling.bandwidth_bytes_per_s)}`],
    ["MBU", row.mbu != null && percent(row.mbu), "of the datasheet"],
    ["TTFT", row.ttft_s != null && seconds(row.ttft_s)],
    ["Passes timed", row.passes > 0 && row.passes.toLocaleString("en-US"), row.elapsed_s > 0 && `in ${seconds(row.elapsed_s)}`],
  ].filter(([, value]) => value);
  return entries.length ? el("dl", { class: "figures" }, entries.map(([name, value, aside]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value), aside && el("dd", { class: "aside" }, aside)))) : null;
}

const SEVERITIES = ["bogus", "inconclusive"];

function findingsList(row) {
  const weight = ({ severity }) => SEVERITIES.includes(severity) ? SEVERITIES.indexOf(severity) : SEVERITIES.length;
  return [...row.findings].sort((one, other) => weight(one) - weight(other)).map((finding) => {
    const [first, ...rest] = String(finding.message ?? "").split("\n");
    return el("article", { class: `finding ${SEVERITIES.includes(finding.severity) ? finding.severity : "remark"}` },
      el("header", {}, el("span", { class: "severity" }, finding.severity ?? "note"), el("code", {}, finding.check ?? "")),
      el("p", { class: "message" }, first),
      rest.length > 0 && el("pre", {}, rest.join("\n")),
      finding.remedy && el("p", {}, el("strong", {}, "What to do: "), finding.remedy),
      facts(finding.figures ?? {}));
  });
}

const hasValue = (value) => value != null && value !== "" && !(Array.isArray(value) && !value.length);

// What both readings have side by side, and what was seen in between.
function conditionsTable({ before, during, after, ...others }) {
  const ends = [["Before", before], ["After", after]].filter(([, reading]) => reading && typeof reading === "object");
  const names = [...new Set(ends.flatMap(([, reading]) => Object.keys(reading)))].filter((name) =>
    ends.some(([, reading]) => hasValue(reading[name])));
  return [
    names.length > 0 && table("Conditions", [{ name: "Reading" }, ...ends.map(([name]) => ({ name, isFigure: true }))],
      names.map((name) => [label(name), ...ends.map(([, reading]) => hasValue(reading[name]) ? figure(name, reading[name]) : NOTHING)]), "compact"),
    during && typeof during === "object" && [el("h4", {}, "During the measurement"), facts(during)],
    facts(others),
  ];
}

function facts(record) {
  const entries = Object.entries(record).filter(([, value]) => hasValue(value));
  return entries.length ? el("dl", { class: "facts" }, entries.map(([name, value]) => pair(label(name),
    Array.isArray(value) && value.some((one) => typeof one === "string" && one.length > 40) ? el("ul", {}, value.map((one) => el("li", {}, figure(name, one))))
      : value && typeof value === "object" && !Array.isArray(value) ? facts(value) ?? NOTHING : figure(name, value)))) : null;
}

// Without what is said of a spill where nothing is spilled.
function ceilingFacts(ceiling) {
  const isSpilled = ceiling.spill_bytes_per_pass > 0;
  return Object.fromEntries(Object.entries(ceiling).filter(([name]) => isSpilled || !(name.startsWith("spill") || name === "is_overlapped")));
}

function section(title, ...content) {
  return content.flat(Infinity).some(Boolean) ? el("section", {}, el("h3", {}, title), ...content) : null;
}

const lines = (texts) => Array.isArray(texts) && texts.length ? el("ul", { class: "lines" }, texts.map((text) => el("li", {}, text))) : null;

// `context`: { devices, probes, open(row), neighbours(row), closed() }
function detailsPanel(context) {
  const title = el("h2", { tabindex: -1, id: "panel-title" });
  const body = el("div", { class: "body" });
  const place = el("span", { class: "place" });
  const step = (by) => { const next = context.neighbours(current)[by]; if (next) context.open(next); };
  const back = el("button", { type: "button", class: "icon", "aria-label": "Previous result", onclick: () => step("previous") }, "\u2039");
  const forth = el("button", { type: "button", class: "icon", "aria-label": "Next result", onclick: () => step("next") }, "\u203a");
  const dialog = el("dialog", { class: "panel", "aria-labelledby": "panel-title", onclose: () => { current = null; chart = null; tip.hide(); context.closed(); } },
    el("header", {}, el("div", { class: "walk" }, back, forth, place),
      el("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => dialog.close() }, "\u2715")),
    title, body);
  let current = null;
  let chart = null;
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);

  async function show(row) {
    current = row;
    const { file, name, part } = nameParts(row);
    const { previous, next, words } = context.neighbours(row);
    back.disabled = !previous;
    forth.disabled = !next;
    replace(place, words);
    replace(title, el("bdi", {}, clipped(name, 400)), part && el("bdi", { class: "part" }, clipped(part, 200)));
    if (chart && window.Plotly) Plotly.purge(chart.box);
    chart = samplesChart(row);
    const device = context.devices[row.device];
    const told = new Set((row.findings ?? []).map((finding) => String(finding.message ?? "").split("\n")[0]));
    const ending = row.reason || row.message || "";
    const reason = told.has(ending.split("\n")[0].replace(/^\w+: /, "").replace(/ \[[\w-]+\]$/, "")) ? "" : ending;
    replace(body,
      el("p", { class: "lead" }, verdictBadge(row.verdict), row.kind && el("span", {}, row.kind), device && el("bdi", {}, device.name ?? device.id),
        file && el("bdi", { class: "file" }, file)),
      reason && el("pre", { class: `reason ${CLASSES[known(row.verdict)]}` }, reason),
      row.verdict === "not measured" && el("p", { class: "note" }, row.mode === "off" ? "The run used --roofline=off: the step ran once and nothing was measured." : "Nothing was measured here."),
      keyFigures(row),
      section(row.findings.length ? `Findings (${row.findings.length})` : "Findings", row.findings.length ? findingsList(row) : row.kind && el("p", { class: "note" }, "The checks noticed nothing.")),
      chart && section("Samples", chart.signs, chart.box, el("details", {}, el("summary", {}, "Samples as a table"), samplesTable(row)),
        context.thinned != null && el("p", { class: "note" }, `At most ${context.thinned} samples are kept here; the file of results has all of them.`)),
      row.traffic && section("Traffic", trafficBar(row.traffic), lines(row.traffic.notes)),
      row.ceiling && section("Ceiling", facts(ceilingFacts(row.ceiling))),
      row.limit && section("Largest credible bandwidth", facts(row.limit)),
      (row.claim || row.window) && section("Claim and window", row.claim && facts(row.claim), row.window && facts(row.window)),
      row.compiled && section("Compiled meanwhile", facts(row.compiled)),
      row.stream && section("Requests", facts(row.stream)),
      row.conditions && section("Conditions", conditionsTable(row.conditions)),
      section("Attempts", row.attempts?.length && el("ol", {}, row.attempts.map((attempt) => el("li", {}, attempt.verdict ?? "", attempt.message ? `: ${attempt.message}` : "")))),
      section("Allowed", row.allowed?.length && lines(row.allowed)),
      section("Notes", lines(row.notes)),
      section("Not checked", lines(row.not_checked)),
      section("Test", facts({ id: row.test, outcome: row.outcome, duration_s: row.duration_s, worker: row.worker, mode: row.mode, verdict: row.test_verdict, file: row.file, line: row.line })),
      device && section("Device", facts(device)));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    title.focus();
    const drawn = chart;
    if (!drawn) return;
    await loadCharts();
    if (drawn === chart) await drawn.draw();
  }
  return { show, close: () => dialog.close(), redraw: () => chart?.redraw(), get current() { return current; } };
}
