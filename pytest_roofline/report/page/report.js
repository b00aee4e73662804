// The page of a run: unpacks its data, builds the sections, and keeps table, charts, panel and address in step.

function stateOf(data) {
  const rows = data.rows.map((row, number) => ({
    ...row, number, anchor: `result-${number + 1}`, deviceId: data.devices[row.device]?.id ?? "",
    findings: row.findings ?? [], title: `${row.test} ${row.label ?? ""}`,
  }));
  const state = {
    rows, words: "", verdicts: new Set(), device: null, sort: { column: COLUMNS[0], isUp: true }, open: null, clear: null,
    matches(row) {
      if (state.verdicts.size && !state.verdicts.has(known(row.verdict))) return false;
      if (!state.words) return true;
      const text = `${row.title} ${row.deviceId} ${row.verdict} ${row.reason ?? ""}`.toLowerCase();
      return state.words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
    },
    visible() {
      const { column, isUp } = state.sort;
      const compare = (one, other) => {
        const [left, right] = [column.key(one), column.key(other)];
        if (left == null || right == null) return (left == null) - (right == null) || one.number - other.number;
        const order = typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right;
        return (isUp ? order : -order) || one.number - other.number;
      };
      return rows.filter(state.matches).sort(compare);
    },
  };
  return state;
}

// What a reader wants to know first, in one sentence.
function headline(data, rows) {
  const verdicts = new Map();
  for (const row of rows) verdicts.set(row.test, row.test_verdict);
  const counts = new Map();
  for (const verdict of verdicts.values()) counts.set(verdict, (counts.get(verdict) ?? 0) + 1);
  const total = verdicts.size;
  if (!total) return "No roofline tests";
  const bad = GRAVITY.slice(0, 3).filter((verdict) => counts.get(verdict));
  if (!bad.length) return counts.get("not measured") === total ? "Nothing was measured" : `All ${counted(total, "test")} passed`.replace("All 1\u00a0test", "The one test");
  return `${bad.map((verdict) => `${counts.get(verdict)} ${verdict}`).join(", ")} of ${counted(total, "test")}`;
}

function notices(data, rows) {
  const notices = [];
  if (data.end == null && rows.length) notices.push("This run did not come to its end: the tests below are those that were written before it stopped.");
  if (!rows.length) notices.push("The file holds no results: no test that uses the roofline fixture ran, or the run ended before the first of them.");
  else if (rows.every((row) => row.mode === "off")) notices.push("The run used --roofline=off: every step ran once, and nothing was measured.");
  return notices.map((text) => el("p", { class: "notice" }, text));
}

function masthead(data, rows) {
  const run = data.run ?? {};
  const { id, branch, is_dirty: isDirty } = run.commit ?? {};
  const when = typeof run.started_at === "string" && run.started_at.replace("T", " ").replace("+00:00", " UTC");
  const parts = [
    data.devices.map((device) => device.name ?? device.id).filter(Boolean).slice(0, 3).join(", "),
    when, id && `${String(id).slice(0, 10)}${branch ? ` on ${branch}` : ""}${isDirty ? ", with changes" : ""}`, run.version && `pytest-roofline ${run.version}`,
  ].filter(Boolean);
  return el("header", { class: "masthead" },
    el("p", { class: "brand" }, brandMark(), "roofline report"),
    el("h1", {}, headline(data, rows)),
    parts.length > 0 && el("p", { class: "about" }, parts.map((part) => el("bdi", {}, clipped(part, 120)))));
}

function brandMark() {
  return svg("svg", { viewBox: "0 0 24 24", width: 22, height: 22, "aria-hidden": "true" },
    svg("path", { d: "M3 20 12 7h9", fill: "none", stroke: "currentColor", "stroke-width": 2.4, "stroke-linecap": "round", "stroke-linejoin": "round" }),
    svg("circle", { cx: 14.5, cy: 13.5, r: 2.4, fill: "currentColor" }));
}

function card(title, aside, ...content) {
  return el("section", { class: "card" }, el("header", {}, el("h2", {}, title), aside), ...content);
}

function chartBox(words) {
  const box = el("div", { class: "chart", tabindex: 0, role: "group", "aria-roledescription": "chart", "aria-label": words });
  return { box, frame: el("div", { class: "frame" }, box) };
}

const KEYS = "Arrow keys walk through the points, Enter opens one.";

function dataTable(words, columns, makeRows) {
  const holder = el("div");
  return el("details", { ontoggle: (event) => { if (event.target.open) replace(holder, table(words, columns, makeRows())); } }, el("summary", {}, words), holder);
}

async function main() {
  const page = document.getElementById("page");
  const data = await readData();
  const state = stateOf(data);
  const { rows } = state;
  const probeOf = (device) => [...data.probes].reverse().find((probe) => probe.device === device);
  const perDevice = data.devices.map((device, index) => rows.filter((row) => row.device === index));
  state.device = perDevice.reduce((best, own, index) => own.length > (perDevice[best]?.length ?? -1) ? index : best, 0);

  const counts = new Map();
  for (const row of rows) counts.set(known(row.verdict), (counts.get(known(row.verdict)) ?? 0) + 1);
  const filter = verdictFilter(state, counts, changed);
  const results = resultsTable(state, () => {});
  const search = el("input", { type: "search", placeholder: "Filter by test, device, reason", "aria-label": "Filter results", oninput: () => { state.words = search.value.trim(); changed(); } });
  state.clear = () => { state.words = search.value = ""; state.verdicts.clear(); changed(); search.focus(); };
  state.open = (row) => { history.replaceState(null, "", `#${row.anchor}`); return panel.show(row); };

  const picker = data.devices.length > 1 && el("label", { class: "picker" }, el("span", {}, "Device"),
    el("select", { onchange: (event) => { state.device = Number(event.target.value); drawCharts(); } },
      data.devices.map((device, index) => el("option", { value: index, selected: index === state.device }, clipped(`${device.id ?? ""} ${device.name ?? ""}`, 60)))));
  const roof = chartBox(`Roofline: rate over arithmetic intensity. ${KEYS}`);
  const sweep = chartBox(`Bandwidth over working set: the probe's sweep and the tests. ${KEYS}`);
  const roofSigns = el("div");
  const sweepSigns = el("div");
  const roofNote = el("p", { class: "note" });
  const probeAside = el("div", { class: "beside" });

  const hint = el("p", { class: "aside wideonly" }, "Drag to zoom, double-click to go back");
  const roofCard = card("Roofline", [hint, picker], roof.frame, roofSigns, roofNote,
    dataTable("Points as a table", [{ name: "Test" }, { name: "Verdict" }, ...["Intensity", "Achieved", "Ceiling", "Of the ceiling"].map((name) => ({ name, isFigure: true }))],
      () => roofPoints().map((point) => [shortName(point.row), point.row.verdict, intensity(point.x), flopsPerSecond(point.y), flopsPerSecond(point.allowed), percent(point.row.fraction)])));
  const sweepCard = card("Memory", null, el("div", { class: "split" }, el("div", {}, sweep.frame, sweepSigns), probeAside),
    dataTable("Sweep as a table", [{ name: "Working set" }, { name: "Pattern" }, { name: "Bandwidth", isFigure: true }],
      () => (probeOf(state.device)?.sweep ?? []).map(([size, pattern, speed]) => [bytes(size), pattern, bytesPerSecond(speed)])));
  const tableCard = card("Results", el("div", { class: "controls" }, results.said, search), results.element);

  const ownRows = () => rows.filter((row) => row.device === state.device && row.verdict !== "not measured");
  const roofPoints = () => ownRows().filter(state.matches).map(roofPoint).filter(Boolean).map((point) => ({ ...point, open: () => state.open(point.row) }));
  const bandwidthPoints = () => ownRows().filter(state.matches).map(bandwidthPoint).filter(Boolean).map((point) => ({ ...point, open: () => state.open(point.row) }));
  const panel = detailsPanel({
    devices: data.devices, thinned: data.thinned, open: state.open, closed: () => history.replaceState(null, "", location.pathname + location.search),
    neighbours(row) {
      const seen = state.visible();
      const index = seen.indexOf(row);
      return { previous: seen[index - 1], next: index < 0 ? null : seen[index + 1], words: index < 0 ? "" : `${index + 1} of ${seen.length}` };
    },
  });

  replace(page,
    el("a", { class: "skip", href: "#results" }, "Skip to the results"),
    el("div", { class: "wrap" }, masthead(data, rows),
      el("main", {}, notices(data, rows), rows.length > 0 && filter.element, rows.length > 0 && roofCard, rows.length > 0 && sweepCard,
        el("div", { id: "results", tabindex: -1 }, rows.length > 0 && tableCard), aboutRun(data)),
      el("footer", {}, `Made by pytest-roofline ${data.version}. Charts: plotly.js (MIT licence).`)));
  results.draw();
  filter.draw();
  page.removeAttribute("aria-busy");

  if (rows.length) await loadCharts();
  async function drawCharts() {
    if (!window.Plotly) return;
    const probe = probeOf(state.device);
    const own = ownRows();
    const found = roofOf(data.devices[state.device], probe, own);
    await drawRoofCard(found, own);
    await drawSweepCard(probe, found);
  }

  async function drawRoofCard(found, own) {
    const points = roofPoints();
    const placed = own.map(roofPoint).filter(Boolean);
    const isEmpty = !placed.length;
    roofCard.classList.toggle("without-chart", isEmpty);
    replace(roofNote, isEmpty
      ? (own.length ? "No test has a place on the roofline: the arithmetic of their passes is not known. The chart of memory below has them." : "Nothing was measured on this device.")
      : own.length > placed.length && `${counted(own.length - placed.length, "result")} without known arithmetic ${own.length - placed.length === 1 ? "has" : "have"} no place here; the chart of memory has those with known bytes.`);
    if (isEmpty) return;
    await drawRoof(roof.box, points, found, placed);
    walkable(roof.box, points, describeRoofPoint);
    replace(roofSigns, legend([
      found.measured && [lineSign("roof"), `memory ${bytesPerSecond(found.measured)}, ${found.isProbed ? "as probed" : "as the tests' ceilings have it"}`],
      found.sheet && [lineSign("sheet"), `${found.sheetWords} ${bytesPerSecond(found.sheet)}`],
      points.length <= MOST_STEMS && [lineSign("stem"), "up to the test's own ceiling"],
      ...VERDICTS.filter((verdict) => points.some((point) => known(point.row.verdict) === verdict)).map((verdict) => [mark(verdict), verdict]),
    ]));
  }

  async function drawSweepCard(probe, found) {
    const points = bandwidthPoints();
    const placed = ownRows().map(bandwidthPoint).filter(Boolean);
    const hasSweep = (probe?.sweep ?? []).length > 0;
    const isEmpty = !hasSweep && !placed.length;
    sweepCard.classList.toggle("without-chart", isEmpty);
    replace(probeAside, probe ? [el("h3", {}, "Probe"), probeFacts(probe), lines([...(probe.doubts ?? []), ...(probe.notes ?? [])])]
      : el("p", { class: "note" }, isEmpty ? "There is no probe of this device in the file, and no test whose bytes are known." : "There is no probe of this device in the file: the line is the ceiling of the tests."));
    if (isEmpty) return;
    await drawSweep(sweep.box, probe, points, found.measured, placed);
    walkable(sweep.box, points, describeBandwidthPoint);
    replace(sweepSigns, legend([
      hasSweep && [lineSign("roof"), "probe, reading"], probe?.cache_knee_bytes > 0 && [lineSign("shade"), "caches help up to the knee"],
      ...VERDICTS.filter((verdict) => points.some((point) => known(point.row.verdict) === verdict)).map((verdict) => [mark(verdict), verdict]),
    ]));
  }

  let waiting = 0;
  function changed() {
    results.draw();
    filter.draw();
    clearTimeout(waiting);
    waiting = setTimeout(drawCharts, 120);
  }

  function follow() {
    const row = rows.find((one) => `#${one.anchor}` === location.hash);
    if (row && row !== panel.current) panel.show(row);
  }
  await drawCharts();
  for (const query of ["(prefers-color-scheme: dark)", "(pointer: coarse)"]) {
    matchMedia(query).addEventListener("change", () => { drawCharts(); panel.redraw(); });
  }
  addEventListener("hashchange", follow);
  follow();
  document.documentElement.dataset.ready = "yes";
}

function commitWords({ id, branch, is_dirty: isDirty, source }) {
  return [`${id}${branch ? ` on ${branch}` : ""}`, isDirty && "with changes", source && source !== "git" && `says ${source}`].filter(Boolean).join(", ");
}

function aboutRun(data) {
  const { commit, version, arguments: given, ...run } = data.run;
  const libraries = Object.entries(data.libraries).map(([name, version]) => `${name} ${version}`);
  const told = facts({ "pytest-roofline": version, ...run, arguments: Array.isArray(given) ? given.join(" ") : given, commit: commit?.id && commitWords(commit), ...(data.end ?? {}), libraries });
  return [
    data.devices.length > 0 && card(data.devices.length > 1 ? "Devices" : "Device", null, el("div", { class: "devices" }, data.devices.map((device) => el("div", {}, facts(device))))),
    told && card("Run", null, told),
  ];
}

main().catch((error) => {
  const page = document.getElementById("page");
  page.removeAttribute("aria-busy");
  replace(page, el("div", { class: "wrap" }, el("p", { class: "notice" }, window.DecompressionStream
    ? `This page could not be shown: ${error}` : "This browser is too old for this page: it cannot unpack gzip (Chrome 80, Firefox 113, Safari 16.4 can).")));
  console.error(error);
});
