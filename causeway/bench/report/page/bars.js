// Bars: every workload with its devices and providers below each other, so that they compare at a glance.

const publishedMatches = (workload, published) =>
    workload.startsWith(published) && /^([ ,]|$)/.test(workload.slice(published.length));

// Workloads in the order measured, each with its marks by series; a published figure stands with the workload that its
// name begins, or by itself at the end.
function barGroups(marks) {
  const groups = new Map();
  const group = (workload) => {
    if (!groups.has(workload)) groups.set(workload, []);
    return groups.get(workload);
  };
  marks.forEach((mark, index) => {
    if (!mark.published) group(mark.workload).push(index);
  });
  const measured = [...groups.keys()];
  marks.forEach((mark, index) => {
    if (!mark.published) return;
    const host = measured.filter((workload) => publishedMatches(workload, mark.workload)).pop();
    group(host || mark.workload).push(index);
  });
  for (const indices of groups.values())
    indices.sort(
        (a, b) => seriesRank(marks[a]) - seriesRank(marks[b]) ||
            (marks[a].published && marks[b].published ? marks[a].device.localeCompare(marks[b].device) : 0));
  return [...groups];
}

// Headings of workloads. Where one is too long for `width`, what all of them end on is left out of it, comma by comma:
// a chart's title says most of that.
function headings(workloads, width) {
  const parts = workloads.map((workload) => workload.split(", "));
  const last = parts[0] || [];
  let common = 0;
  while (parts.length > 1 && common < last.length - 1 &&
         parts.every((p) => p.length > common + 1 && p[p.length - 1 - common] === last[last.length - 1 - common]))
    ++common;
  return workloads.map((workload, i) => {
    let text = workload;
    for (let cut = 1; cut <= common && textWidth(text, 13, 650) > width; ++cut)
      text = parts[i].slice(0, -cut).join(", ");
    return fitted(text, width, 13, 650);
  });
}

// Without a figure there is nothing to draw a bar to.
const finite = (value) => Number.isFinite(value) ? value : 0;

function drawBars(plot, width, marks, notes) {
  const groups = barGroups(marks);
  const narrow = width < 520;
  const unit = marks[0].unit;
  const bare = groups.length === 1;
  const anyPeak = marks.some((m) => m.peak);
  const value = (m) => (m.correct ? "" : "incorrect ") + formatFigure(m.value, unit);
  const noteWidth =
      Math.max(0, ...marks.map((m) => notes.keys(m).length && !m.published ? 4 + 8 * notes.keys(m).length : 0));
  const valueWidth = Math.max(...marks.map((m) => textWidth(value(m), 13, 600))) + noteWidth;
  const peakWidth = anyPeak ? 58 : 0;
  const alone = measuredIn(marks).length < 2;
  const labels = marks.map((m) => seriesLabel(m, alone));
  const wanted = Math.max(...labels.map((l, i) => textWidth(l) + (marks[i].published ? 12 : 0)));
  const labelWidth = narrow ? 0 : Math.min(wanted + 14, width * 0.38);
  const right = narrow ? 1 : valueWidth + peakWidth + 14;
  const left = labelWidth;
  const inner = Math.max(40, width - left - right);
  const ticks = ticksTo(scaleMaximum(marks), narrow ? 4 : 5);
  const x = (v) => left + inner * Math.min(1, Math.max(0, finite(v)) / ticks[ticks.length - 1]);
  const rowHeight = narrow ? 38 : 24;
  const headHeight = bare ? 4 : 30;
  const barHeight = narrow ? 11 : 13;
  const headed = !narrow && unit !== "s" && !unit.startsWith("$");
  const top = headed ? 20 : 0;
  const rows = groups.reduce((sum, [, indices]) => sum + indices.length, 0);
  const bottom = top + rows * rowHeight + groups.length * headHeight + (groups.length - 1) * 6 + 6;
  const height = bottom + 22;
  const svg = shape(
      plot, "svg",
      {viewBox: "0 0 " + width + " " + height, width, height, class: narrow ? "narrow" : null, "aria-hidden": "true"});
  plot.order = groups.flatMap(([, indices]) => indices);

  let lastEnd = -Infinity;
  for (const tick of ticks) {
    const at = Math.round(x(tick)) + 0.5;
    shape(svg, "line", {x1: at, x2: at, y1: top, y2: bottom, class: "gridline"});
    const label = tickLabel(tick, ticks, unit);
    const wide = textWidth(label, 12);
    const overRight = at + wide / 2 > width;
    const start = overRight ? width - wide : tick === 0 && narrow ? at : at - wide / 2;
    if (start < lastEnd + 8) continue;
    lastEnd = start + wide;
    shape(
        svg, "text", {
          x: overRight ? width : at,
          y: bottom + 16,
          class: "tick",
          "text-anchor": overRight ? "end" :
              tick === 0 && narrow ? "start" :
                                     "middle"
        },
        label);
  }
  if (headed) {
    shape(svg, "text", {x: width - peakWidth - noteWidth, y: 12, class: "tick", "text-anchor": "end"}, unit);
    if (anyPeak) shape(svg, "text", {x: width, y: 12, class: "tick", "text-anchor": "end"}, "of peak");
  }

  const measured =
      groups.filter(([, indices]) => indices.some((i) => !marks[i].published)).map(([workload]) => workload);
  const heads = new Map(headings(measured, width).map((text, i) => [measured[i], text]));
  let y = top;
  groups.forEach(([workload, indices], position) => {
    if (position) y += 6;
    if (!bare)
      shape(
          svg, "text", {x: 0, y: y + 20, class: "head"}, heads.get(workload) || fitted(workload, width, 13, 650));
    y += headHeight;
    if (!narrow)
      shape(
          svg, "line", {x1: left + 0.5, x2: left + 0.5, y1: y, y2: y + indices.length * rowHeight, class: "baseline"});
    for (const index of indices) {
      const mark = marks[index];
      const g = shape(svg, "g", {class: "mark", "data-mark": String(index), style: colour(mark)});
      shape(g, "rect", {x: -6, y, width: width + 12, height: rowHeight, rx: 3, class: "hit"});
      const barTop = narrow ? y + 21 : y + (rowHeight - barHeight) / 2;
      const middle = barTop + barHeight / 2;
      const textY = narrow ? y + 15 : y + rowHeight / 2 + 4.5;
      if (mark.peak) {
        shape(g, "rect", {x: left, y: barTop, width: x(mark.peak) - left, height: barHeight, class: "track"});
        shape(
            g, "line", {x1: x(mark.peak), x2: x(mark.peak), y1: barTop - 2, y2: barTop + barHeight + 2, class: "peak"});
      }
      const kind = !mark.correct ? "bar incorrect" : mark.published ? "bar published" : "bar";
      const beyond = isBeyond(mark, marks);
      const barWidth = beyond ? inner : Math.max(1, x(mark.value) - left);
      shape(g, "rect", {x: left, y: barTop, width: barWidth, height: barHeight, class: kind});
      // Longer than the chart is wide: cut open near its end.
      if (beyond) {
        const at = left + inner - 16, from = barTop - 2, to = barTop + barHeight + 2;
        shape(g, "polygon", {
          points: [[at, to], [at + 4, from], [at + 9, from], [at + 5, to]].map((p) => p.join(",")).join(" "),
          class: "break"
        });
      }
      if (!mark.published && mark.high > mark.low) whisker(g, x(mark.low), x(mark.high), middle);
      const numberEnd = width - peakWidth - noteWidth;
      const labelRoom = narrow ? numberEnd - valueWidth + noteWidth - 16 : left - 14;
      const label = fitted(labels[index], labelRoom - (mark.published ? 12 : 0));
      shape(g, "text", {x: 0, y: textY, class: mark.published ? "muted" : null}, label);
      if (mark.published) noteKeys(g, notes, mark, textWidth(label), textY);
      shape(
          g, "text", {
            x: numberEnd,
            y: textY,
            "text-anchor": "end",
            class: !mark.correct ? "struck" :
                mark.published   ? "muted" :
                                   "strong"
          },
          value(mark));
      if (!mark.published) noteKeys(g, notes, mark, numberEnd, textY);
      if (mark.peak && mark.correct)
        shape(g, "text", {x: width, y: textY, "text-anchor": "end", class: "muted"}, percent(mark.value / mark.peak));
      y += rowHeight;
    }
  });
}

// The casing sets the line off from the bar; below eight pixels it would be larger than what it sets off.
function whisker(parent, from, to, y) {
  const ends = {x1: from, x2: Math.max(to, from + 1.5), y1: y, y2: y};
  if (to - from >= 8) shape(parent, "line", {...ends, class: "casing"});
  shape(parent, "line", {...ends, class: "whisker"});
}

const kWorkloadsAtFirst = 12;

function barHeightEstimate(marks) { return marks.length * 26 + new Set(marks.map((m) => m.workload)).size * 34 + 50; }
