// One result's samples in the order they were taken, against the memory bandwidth that was probed before and after each.

function samplesChart(row) {
  const { samples } = row;
  const steps = samples?.step_s ?? [];
  if (!steps.some(isNumber)) return null;
  const moved = row.traffic?.bytes_per_pass ?? row.ceiling?.bytes_per_pass;
  const before = samples.ruler_before_bytes_per_s ?? [];
  const after = samples.ruler_after_bytes_per_s ?? [];
  const hasRuler = moved > 0 && [...before, ...after].some(isNumber);
  const reached = steps.map((step) => moved > 0 && step > 0 ? moved / step : null);
  const box = el("div", {
    class: "chart small", role: "img",
    "aria-label": `${counted(steps.length, "sample")}, pass time from ${seconds(Math.min(...steps.filter(isNumber)))} to ${seconds(Math.max(...steps.filter(isNumber)))}`,
  });
  const draw = () => {
    const held = steps.map((step, index) => samples.throttled?.[index] ? "circle-open" : "circle");
    const style = (name, symbol) => ({ size: 7, color: colour(name), symbol, line: { width: 1.5, color: colour(name) } });
    const traces = [];
    const more = {};
    if (hasRuler) {
      const gap = steps.length > 60 ? 0 : 0.22;
      const xs = steps.flatMap((step, index) => [index + 1 - gap, index + 1 + gap]);
      traces.push({
        type: "scatter", mode: "lines+markers", hoverinfo: "none", x: xs, y: steps.flatMap((step, index) => [before[index], after[index]]),
        connectgaps: true, line: { color: colour("roof"), width: 1.5 }, marker: style("roof", "line-ew-open"),
      }, {
        type: "scatter", mode: "markers", hoverinfo: "none", x: steps.map((step, index) => index + 1), y: reached,
        marker: style("accent", held),
      });
      const largest = Math.max(...[...before, ...after, ...reached].filter(isNumber));
      const [size, prefix] = PREFIXES.find(([one]) => largest >= one) ?? [1, ""];
      for (const trace of traces) trace.y = trace.y.map((value) => isNumber(value) ? value / size : null);
      more.yaxis = axis(`${prefix}B/s`, { domain: [0.46, 1], rangemode: "tozero", nticks: 5 });
    }
    const [scale, unit] = unitOf(Math.max(...steps.filter(isNumber)));
    traces.push({
      type: "scatter", mode: "lines+markers", hoverinfo: "none", x: steps.map((step, index) => index + 1),
      y: steps.map((step) => isNumber(step) ? step / scale : null), yaxis: hasRuler ? "y2" : "y",
      line: { color: colour("stem"), width: 1 }, marker: style("accent", held),
    });
    more[hasRuler ? "yaxis2" : "yaxis"] = axis(`pass (${unit})`, { domain: [0, hasRuler ? 0.36 : 1], rangemode: "tozero", nticks: 4 });
    more.xaxis = axis("sample", { anchor: hasRuler ? "y2" : "y", zeroline: false, tick0: 1, dtick: Math.ceil(steps.length / 12), tickformat: "d", range: [0.4, steps.length + 0.6] });
    return Plotly.react(box, traces, layout({ ...more, dragmode: false, hovermode: "x" }), CONFIG);
  };
  return {
    box,
    signs: legend([
      hasRuler && [lineSign("roof"), "memory, probed before and after"],
      [lineSign("dot"), hasRuler ? "this test" : "time of a pass"],
      samples.throttled && [lineSign("hollow"), "throttled"],
    ]),
    draw: async () => {
      await draw();
      box.on("plotly_hover", (event) => {
        const index = Math.round(event.points[0].x) - 1;
        if (!(index in steps)) return;
        const frame = box.getBoundingClientRect();
        tip.show({ x: frame.left + frame.width / 2, y: event.event?.clientY ?? frame.top }, [
          el("strong", {}, `Sample ${index + 1}`),
          el("dl", {}, sampleColumns(row).map(([name, words]) => pair(words, figure(name, samples[name][index]))),
            reached[index] && pair("Bandwidth", bytesPerSecond(reached[index]))),
        ]);
      });
      box.on("plotly_unhover", () => tip.hide());
    },
    redraw: draw,
  };
}

function unitOf(largest) {
  if (largest >= 1) return [1, "s"];
  if (largest >= 1e-3) return [1e-3, "ms"];
  return largest >= 1e-6 ? [1e-6, "\u00b5s"] : [1e-9, "ns"];
}

const SAMPLE_COLUMNS = [
  ["step_s", "Pass"], ["passes", "Passes"], ["fraction", "Of the ceiling"], ["ruler_before_bytes_per_s", "Memory before"],
  ["ruler_after_bytes_per_s", "Memory after"], ["closed_step_s", "Pass, closed"], ["fixed_s", "Per block"], ["context", "Context"],
  ["compute_clock_share", "Clock"], ["memory_clock_share", "Memory clock"], ["held_share", "Held by quota"],
  ["neighbours_share", "Used by others"], ["steal_share", "Stolen"], ["throttled", "Throttled"],
];

function sampleColumns(row) {
  return SAMPLE_COLUMNS.filter(([name]) => row.samples?.[name]);
}

function samplesTable(row) {
  const columns = sampleColumns(row);
  return table("Samples", [{ name: "Sample" }, ...columns.map(([, words]) => ({ name: words, isFigure: true }))],
    row.samples.step_s.map((step, index) => [String(index + 1), ...columns.map(([name]) => figure(name, row.samples[name][index]))]));
}
