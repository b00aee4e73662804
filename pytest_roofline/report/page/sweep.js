// The probe: how fast sets of growing size are read, where the caches end, and where the tests stand in that.

function bandwidthPoint(row) {
  const size = row.traffic?.working_set_bytes ?? row.traffic?.bytes_per_pass ?? row.ceiling?.bytes_per_pass;
  return size > 0 && row.bytes_per_s > 0 ? { row, x: size, y: row.bytes_per_s } : null;
}

function describeBandwidthPoint({ row, x, y }) {
  return [
    el("strong", { class: "name" }, shortName(row)),
    el("span", { class: "row" }, verdictBadge(row.verdict), row.fraction != null && `${percent(row.fraction)} of the ceiling`),
    el("dl", {}, pair("Working set", bytes(x)), pair("Bandwidth", bytesPerSecond(y)), pair("Step", seconds(row.step_s))),
    el("span", { class: "hint" }, "click or Enter for details"),
  ];
}

function drawSweep(box, probe, points, ruler, all) {
  const sweep = (probe?.sweep ?? []).filter((point) => point[1] === "read" || !point[1]).sort((one, other) => one[0] - other[0]);
  const knee = probe?.cache_knee_bytes > 0 ? probe.cache_knee_bytes : null;
  const xs = spanOf([...sweep.map((point) => point[0]), ...all.map((point) => point.x), knee], 1.6, 30);
  const ys = spanOf([...sweep.map((point) => point[2]), ...all.map((point) => point.y), ruler], 1.5, 6);
  const shapes = [];
  const notes = [];
  const word = (text, more) => notes.push({ showarrow: false, text, font: { size: 11, color: colour("soft") }, ...more });
  if (knee) {
    shapes.push({ type: "rect", xref: "x", yref: "paper", x0: xs[0] / 10, x1: knee, y0: 0, y1: 1, line: { width: 0 }, fillcolor: colour("shade"), layer: "below" });
    shapes.push({ type: "line", xref: "x", yref: "paper", x0: knee, x1: knee, y0: 0, y1: 1, line: { color: colour("accent"), width: 1.5, dash: "dash" }, layer: "below" });
    word(`cache knee ${bytes(knee)}`, { x: Math.log10(knee), xanchor: "left", xshift: 5, yref: "paper", y: 0.01, yanchor: "bottom" });
  }
  if (ruler) {
    shapes.push({ type: "line", xref: "paper", yref: "y", x0: 0, x1: 1, y0: ruler, y1: ruler, line: { color: colour("roof"), width: 1.5, dash: "dot" }, layer: "below" });
    word(`memory ${bytesPerSecond(ruler)}`, { xref: "paper", x: 0.01, xanchor: "left", y: Math.log10(ruler), yanchor: "bottom" });
  }
  const traces = [{
    type: "scatter", mode: "lines+markers", hoverinfo: "skip", x: sweep.map((point) => point[0]), y: sweep.map((point) => point[2]),
    line: { color: colour("roof"), width: 2 }, marker: { size: 5, color: colour("roof") },
  }, ...verdictTraces(points, 9)];
  const drawn = layout({
    shapes, annotations: notes,
    xaxis: logAxis("working set", xs, "B"), yaxis: logAxis("bandwidth", ys, "B/s"),
  });
  return Plotly.react(box, traces, drawn, CONFIG);
}

const PATTERNS = ["read", "copy", "write", "triad", "cache"];

function probeFacts(probe) {
  const peaks = Object.entries(probe.peak_flops_per_s ?? {});
  return el("dl", { class: "facts" },
    PATTERNS.map((pattern) => probe[`${pattern}_bytes_per_s`] > 0 && pair(label(pattern), [
      bytesPerSecond(probe[`${pattern}_bytes_per_s`]),
      probe.kernels?.[pattern] && el("span", { class: "aside" }, ` ${probe.kernels[pattern]}`)])),
    pair("Cache knee", probe.cache_knee_bytes > 0 ? bytes(probe.cache_knee_bytes) : "none seen"),
    peaks.map(([dtype, peak]) => pair(`Peak ${dtype}`, flopsPerSecond(peak))),
    probe.link_bytes_per_s > 0 && pair("Link to the host", bytesPerSecond(probe.link_bytes_per_s)),
    probe.threads != null && pair("Threads", String(probe.threads)),
    probe.elapsed_s != null && pair("Measured in", seconds(probe.elapsed_s)),
    probe.is_trusted != null && pair("Trusted", probe.is_trusted ? "yes" : "no"));
}
