// Curves over a size: a logarithmic axis of sizes, a linear one of figures from 0, the band from the 5th to the 95th
// percentile, labels at the ends of the lines.

// What a workload is besides its sizes: "all_reduce 16 MiB in place" and "all_reduce 32 MiB in place" are one line.
const variantOf = (mark) => mark.workload.replace(", " + mark.group, "")
                                    .replace(/(\d)[x×^*](?=\d)/g, "$1 ")
                                    .replace(/\d[\d.,]*\s*([KMGT]i?B|B|[kM])?(?![A-Za-z])/g, "")
                                    .replace(/\s+/g, " ")
                                    .trim();

// Whether these marks make curves: three sizes or more on some line, and no line with two figures at one size.
function curveSeries(marks) {
  if (marks.some((m) => !m.published && !(m.size > 0))) return null;
  const alone = measuredIn(marks).length < 2;
  const variants = new Set(marks.filter((m) => !m.published).map((m) => variantOf(m)));
  const lines = new Map();
  for (let index = 0; index < marks.length; ++index) {
    const mark = marks[index];
    if (!(mark.size > 0)) return null;
    const variant = variants.size > 1 && !mark.published ? variantOf(mark) : "";
    const key = mark.series + "|" + variant;
    if (!lines.has(key)) lines.set(key, {key, variant, first: mark, indices: []});
    const line = lines.get(key);
    if (line.indices.some((i) => marks[i].size === mark.size)) return null;
    line.indices.push(index);
  }
  if (![...lines.values()].some((line) => line.indices.length >= 3)) return null;
  for (const line of lines.values()) {
    line.indices.sort((a, b) => marks[a].size - marks[b].size);
    line.label = seriesLabel(line.first, alone) + (line.variant ? ", " + line.variant : "");
    // Lines of one series have its colour; which of them it is shows in their weight.
    line.second = line.variant && [...variants].indexOf(line.variant) > 0;
  }
  return [...lines.values()].sort((a, b) => seriesRank(a.first) - seriesRank(b.first));
}

function drawCurves(plot, width, marks, all, notes) {
  const lines = all.filter((line) => !line.indices.some((i) => isBeyond(marks[i], marks)));
  const narrow = width < 520;
  const unit = marks[0].unit;
  const keyed = narrow || lines.length > 12;
  const labelWidth = keyed ?
      10 :
      Math.min(
          width * 0.34,
          Math.max(...lines.map((l) => l.first.published ? textWidth(l.label) + 14 : textWidth(l.label, 13, 600))) +
              18);
  const drawn = marks.filter((m) => !isBeyond(m, marks));
  const maximum = Math.max(...drawn.map((m) => Math.max(finite(m.value), finite(m.high))));
  const peaks = [...new Map(marks.filter((m) => m.peak).map((m) => [m.device + m.peak, m])).values()].filter(
      (m) => m.peak < maximum * 4);
  const ticks = ticksTo(Math.max(maximum, ...peaks.map((m) => m.peak)), 5);
  const left = Math.max(...ticks.map((t) => textWidth(tickLabel(t, ticks, unit), 12))) + 10;
  const inner = width - left - labelWidth;
  const keyRows = keyed ? keyLayout(lines, width) : [];
  const top = 16 + (keyed ? keyRows.length ? keyRows[keyRows.length - 1].y + 26 : 0 : 6);
  const plotHeight = narrow ? 220 : 300;
  const bottom = top + plotHeight;
  const height = bottom + 24;
  const sizes = [...new Set(marks.map((m) => m.size))].sort((a, b) => a - b);
  const low = Math.log2(sizes[0]), span = Math.max(1e-9, Math.log2(sizes[sizes.length - 1]) - low);
  const x = (size) => left + 8 + (inner - 16) * (Math.log2(size) - low) / span;
  const y = (v) => bottom - plotHeight * finite(v) / ticks[ticks.length - 1];
  const svg = shape(plot, "svg", {viewBox: "0 0 " + width + " " + height, width, height, "aria-hidden": "true"});
  plot.order = lines.flatMap((line) => line.indices);

  for (const {line, x: keyX, y: keyY, text} of keyRows) {
    const g = shape(svg, "g", {style: colour(line.first)});
    shape(g, "line", {
      x1: keyX,
      x2: keyX + 22,
      y1: keyY + 8,
      y2: keyY + 8,
      class: "line" + (line.first.published ? " published" : line.second ? " second" : "")
    });
    dot(g, line.first.published ? "circle" : shapeOf(line.first), keyX + 11, keyY + 8, 4,
        {class: "dot" + (line.first.published ? " published" : line.second ? " second" : "")});
    shape(g, "text", {x: keyX + 28, y: keyY + 12.5, class: line.first.published ? "muted" : null}, text);
    if (line.first.published) noteKeys(g, notes, line.first, keyX + 28 + textWidth(text), keyY + 12.5);
  }
  ticks.forEach((tick, i) => {
    const at = Math.round(y(tick)) + 0.5;
    shape(svg, "line", {x1: left, x2: left + inner, y1: at, y2: at, class: i ? "gridline" : "baseline"});
    shape(svg, "text", {x: left - 8, y: at + 4, class: "tick", "text-anchor": "end"}, tickLabel(tick, ticks, unit));
  });
  shape(svg, "text", {x: 0, y: top - 10, class: "tick"}, unit);
  let lastEnd = -Infinity;
  for (const size of sizes) {
    const label = formatSize(size, unit);
    const half = textWidth(label, 12) / 2;
    const at = Math.max(half, Math.min(width - half, x(size)));
    shape(svg, "line", {x1: x(size), x2: x(size), y1: bottom, y2: bottom + 4, class: "baseline"});
    if (at - half < lastEnd + 10) continue;
    shape(svg, "text", {x: at, y: bottom + 18, class: "tick", "text-anchor": "middle"}, label);
    lastEnd = at + half;
  }
  for (const mark of peaks) {
    const at = Math.round(y(mark.peak)) + 0.5;
    shape(svg, "line", {x1: left, x2: left + inner, y1: at, y2: at, class: "peak-line"});
    shape(
        svg, "text", {x: left + 4, y: at - top < 14 ? at + 14 : at - 5, class: "tick"},
        "peak " + formatPeak(mark.peak) + (measuredIn(marks).length > 1 ? ", " + shortDevice(mark.device) : ""));
  }

  for (const line of [...lines].reverse()) {
    const published = line.first.published;
    const g = shape(svg, "g", {style: colour(line.first)});
    const points = line.indices.map((i) => marks[i]).filter((m) => m.correct && Number.isFinite(m.value));
    if (!published && points.length > 1 && points.some((m) => m.high > m.low)) {
      const there = points.map((m) => x(m.size).toFixed(1) + "," + y(m.high).toFixed(1));
      const back = points.map((m) => x(m.size).toFixed(1) + "," + y(m.low).toFixed(1)).reverse();
      shape(g, "polygon", {points: [...there, ...back].join(" "), class: "spread"});
    }
    if (points.length > 1)
      shape(g, "polyline", {
        points: points.map((m) => x(m.size).toFixed(1) + "," + y(m.value).toFixed(1)).join(" "),
        class: "line" + (published ? " published" : line.second ? " second" : "")
      });
    for (const index of line.indices) {
      const mark = marks[index];
      const m = shape(g, "g", {class: "mark", "data-mark": String(index)});
      shape(m, "circle", {cx: x(mark.size), cy: y(mark.value), r: 11, class: "hit"});
      const kind = "dot" + (published ? " published" : !mark.correct ? " incorrect" : line.second ? " second" : "");
      dot(m, published ? "circle" : shapeOf(mark), x(mark.size), y(mark.value), published ? 3.5 : 4.5, {class: kind});
      if (!published && notes.keys(mark).length) {
        // The last one's stand before it: behind it is the line's label.
        const wide = 6 * notes.keys(mark).length;
        const last = !keyed && index === line.indices[line.indices.length - 1];
        noteKeys(m, notes, mark, x(mark.size) + (last ? -wide - 9 : 4), y(mark.value) - 4);
      }
    }
  }
  if (!keyed)
    endLabels(svg, marks, lines, notes, {x: left + inner, room: labelWidth, y, top, bottom, at: (m) => x(m.size)});
}

// `text` in two lines at most, broken between words; the last one cut where it is too long.
function inLines(text, width, size, weight) {
  if (textWidth(text, size, weight) <= width) return [text];
  const words = text.split(" ");
  let count = words.length - 1;
  while (count > 1 && textWidth(words.slice(0, count).join(" "), size, weight) > width) --count;
  if (count < 1) return [fitted(text, width, size, weight)];
  return [words.slice(0, count).join(" "), words.slice(count).join(" ")].map(
      (part) => fitted(part, width, size, weight));
}

// Labels beside the last points, moved apart until none overlaps.
function endLabels(svg, marks, lines, notes, frame) {
  const step = 17;
  const labels = lines
                     .map((line) => {
                       const published = line.first.published;
                       const last = marks[line.indices[line.indices.length - 1]];
                       const texts = inLines(
                           line.label, frame.room - (published ? 28 : 14), 13, published ? 400 : 600);
                       return {line, last, texts, wanted: frame.y(last.value), y: frame.y(last.value)};
                     })
                     .sort((a, b) => a.wanted - b.wanted);
  for (let pass = 0; pass < 60; ++pass)
    for (let i = 1; i < labels.length; ++i) {
      const apart = step * (labels[i].texts.length + labels[i - 1].texts.length) / 2;
      const overlap = apart - (labels[i].y - labels[i - 1].y);
      if (overlap > 0) labels[i].y += overlap / 2, labels[i - 1].y -= overlap / 2;
    }
  const lowest = labels[labels.length - 1];
  const shift = Math.max(0, lowest.y + step * (lowest.texts.length - 1) / 2 - frame.bottom);
  for (const label of labels) label.y -= shift;
  for (const {line, last, texts, wanted, y} of labels) {
    const from = frame.at(last) + 7;
    if (Math.abs(y - wanted) > 3 || frame.x - from > 14)
      shape(svg, "path", {
        d: "M" + from.toFixed(1) + " " + wanted.toFixed(1) + "L" + (frame.x + 8).toFixed(1) + " " + y.toFixed(1),
        class: "leader"
      });
    const g = shape(svg, "g", {style: colour(line.first)});
    const first = y + 4.5 - step * (texts.length - 1) / 2;
    texts.forEach((text, i) => shape(
                      g, "text",
                      {x: frame.x + 12, y: first + i * step, class: line.first.published ? "muted" : "strong"}, text));
    const end = texts[texts.length - 1];
    if (line.first.published)
      noteKeys(g, notes, line.first, frame.x + 12 + textWidth(end), first + (texts.length - 1) * step);
  }
}

// Where the entries of a key go when labels do not fit beside the lines.
function keyLayout(lines, width) {
  const rows = [];
  let x = 0, y = 0;
  for (const line of lines) {
    const text = fitted(line.label, width - 48);
    const wide = 28 + textWidth(text) + (line.first.published ? 26 : 16);
    if (x > 0 && x + wide > width) x = 0, y += 22;
    rows.push({line, x, y, text});
    x += wide;
  }
  return rows;
}
