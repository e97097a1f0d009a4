// The same workload over commits: one small chart each, regressions marked.

const regressionsOf = (device, key) =>
    data.regressions.filter((r) => r.key === key && (!r.device || r.device === device));

const regressionText = (ratio) => ratio > 1 ? ((ratio - 1) * 100).toFixed(1) + " % slower" : "worse";

// Workloads measured more than once, those with regressions first, then by how much they changed.
function histories(shown) {
  const list = [];
  for (const [id, rows] of historyRows) {
    if (rows.length < 2) continue;
    const c = cases[data.rows.case[rows[rows.length - 1]]];
    const device = runs[data.rows.run[rows[0]]].device;
    if (!shown(device)) continue;
    const marks =
        regressionsOf(device, c.key).filter((r) => rows.some((row) => runs[data.rows.run[row]].commit === r.commit));
    const first = data.rows.median[rows[0]], last = data.rows.median[rows[rows.length - 1]];
    const change = first > 0 && last > 0 ? Math.abs(Math.log(last / first)) : 0;
    list.push({id, rows, case: c, device, regressions: marks, change});
  }
  return list.sort((a, b) => b.regressions.length - a.regressions.length || b.change - a.change);
}

function historyFigure(entry) {
  const marks = entry.rows.map(measuredMark);
  const found = new Map();
  for (const regression of entry.regressions) {
    const index = marks.findIndex((m) => m.run.commit === regression.commit);
    if (index >= 0) {
      found.set(index, regression);
      marks[index].regression = "regression, " + regressionText(regression.ratio);
    }
  }
  const c = entry.case;
  const benchmark = kBenchmarks.find(([id]) => id === c.benchmark);
  return figureOf({
    title: c.workload + (c.dtype ? ", " + c.dtype : ""),
    subtitle: [
      benchmark ? benchmark[1] : c.benchmark, c.workload.includes(c.group) ? "" : c.group,
      seriesLabel(marks[marks.length - 1]), c.unit
    ].filter(Boolean)
                  .join(", ") +
        (lowerIsBetter(c.unit) ? ", lower is better" : ""),
    say: (m) => ({
      head: figureWithUnit(m.value, m.unit),
      body: [m.run.day, shortCommit(m.run.commit), m.correct ? "" : "incorrect result", m.regression, ...m.distrust]
                .filter(Boolean)
                .join(", "),
    }),
    marks,
    height: 130,
    hint: " ",
    draw: (plot, width) => drawHistory(plot, width, marks, found),
    columns: [
      ["Commit", (m) => shortCommit(m.run.commit)],
      ["Date", (m) => m.run.day],
      ["Regression", (m) => m.regression || ""],
      ...kColumns.filter(([name]) => name !== "Workload" && name !== "By"),
    ],
  });
}

function drawHistory(plot, width, marks, regressions) {
  const unit = marks[0].unit;
  const values = marks.flatMap((m) => [m.low, m.high, m.value]).filter(Number.isFinite);
  let low = Math.min(...values), high = Math.max(...values);
  // At least a tenth of the figure, so that noise does not fill the chart.
  const pad = Math.max((high - low) * 0.12, high * 0.05 - (high - low) / 2, high * 1e-6);
  low = Math.max(0, low - pad);
  high += pad;
  const height = 116, top = 16, bottom = 92;
  const last = marks[marks.length - 1];
  const right = textWidth(formatFigure(last.value, unit), 13, 600) + 14;
  const x = (i) => 6 + (width - right - 12) * (marks.length > 1 ? i / (marks.length - 1) : 0.5);
  const y = (v) => bottom - (bottom - top) * ((Number.isFinite(v) ? v : low) - low) / (high - low || 1);
  const svg = shape(plot, "svg", {viewBox: "0 0 " + width + " " + height, width, height, "aria-hidden": "true"});
  const g = shape(svg, "g", {style: colour(last)});
  shape(svg, "line", {x1: 0, x2: width - right, y1: bottom + 0.5, y2: bottom + 0.5, class: "gridline"});
  const there = marks.map((m, i) => x(i).toFixed(1) + "," + y(m.high).toFixed(1));
  const back = marks.map((m, i) => x(i).toFixed(1) + "," + y(m.low).toFixed(1)).reverse();
  shape(g, "polygon", {points: [...there, ...back].join(" "), class: "spread"});
  shape(
      g, "polyline",
      {points: marks.map((m, i) => x(i).toFixed(1) + "," + y(m.value).toFixed(1)).join(" "), class: "line"});
  const radius = marks.length > 60 ? 1.4 : marks.length > 12 ? 2.2 : 3.4;
  marks.forEach((mark, i) => {
    const m = shape(g, "g", {class: "mark", "data-mark": String(i)});
    const reach = Math.max(3, (width - right) / marks.length / 2);
    shape(m, "rect", {x: x(i) - reach, y: top - 14, width: reach * 2, height: bottom - top + 14, class: "hit"});
    shape(m, "circle", {
      cx: x(i),
      cy: y(mark.value),
      r: radius,
      class: "dot" + (radius < 3 ? " small" : "") + (mark.correct ? "" : " incorrect")
    });
  });
  for (const [i, regression] of regressions) {
    const above = y(Math.max(marks[i].high || 0, marks[i].value)) - 9;
    const text = regressionText(regression.ratio);
    const atRight = x(i) + 10 + textWidth(text, 12, 600) > width - right;
    dot(svg, "down", x(i), above, 5, {class: "regression"});
    shape(
        svg, "text", {
          x: x(i) + (atRight ? -9 : 9),
          y: above + 4,
          class: "struck",
          style: "text-decoration: none",
          "text-anchor": atRight ? "end" : "start"
        },
        text);
  }
  shape(
      svg, "text", {x: x(marks.length - 1) + 9, y: y(last.value) + 4.5, class: "strong"},
      formatFigure(last.value, unit));
  shape(svg, "text", {x: 0, y: height - 6, class: "tick"}, marks[0].run.day);
  if (width > 260)
    shape(svg, "text", {x: width - right, y: height - 6, class: "tick", "text-anchor": "end"}, last.run.day);
}
