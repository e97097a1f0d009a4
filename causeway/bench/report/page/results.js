"use strict";
// The page's data, as the program wrote it, made into marks: one for each figure that a chart can show.

window.addEventListener("error", (event) => {
  document.documentElement.dataset.error = event.message + " (line " + event.lineno + ")";
});

const data = JSON.parse(document.getElementById("data").textContent);
const word = (index) => data.strings[index];
const words = (indices) => (indices || []).map(word);
const pairs = (indices) => {
  const list = [];
  for (let i = 0; i + 1 < (indices || []).length; i += 2) list.push([word(indices[i]), word(indices[i + 1])]);
  return list;
};

// Columns come as they are, or as runs of equal values.
for (const table of [data.cases, data.rows])
  for (const [name, column] of Object.entries(table)) {
    if (!column.runs) continue;
    const values = [];
    for (let i = 0; i < column.runs.length; i += 2)
      for (let n = 0; n < column.runs[i + 1]; ++n) values.push(column.runs[i]);
    table[name] = values;
  }

// Runs, oldest first.
const runs = data.runs.map(
    (run, index) => ({
      index,
      started: run.started,
      day: run.started.slice(0, 10),
      command: word(run.command),
      commit: word(run.commit),
      device: word(run.device),
      architecture: word(run.architecture),
      count: run.count,
      environment: run.environment && pairs(run.environment),
      telemetry: (run.telemetry || []).map(([moment, graphics, memory, power, temperature, throttle]) => ({
                                             moment: word(moment),
                                             graphics,
                                             memory,
                                             power,
                                             temperature,
                                             throttle: words(throttle),
                                           })),
    }));

const devices = new Map(data.devices.map((device) => [device.name, device]));
const measuredDevices = data.devices.filter((device) => device.measured).map((device) => device.name);

function shortDevice(name) {
  return name.replace(/^(NVIDIA|AMD Instinct|AMD|Intel\(R\)|Intel)\s+/, "")
      .replace(/\s+\d+-Core Processor$/, "")
      .replace(/\((R|TM)\)/g, "");
}

const cases = data.cases.benchmark.map((_, i) => {
  const c = data.cases;
  const entry = {
    benchmark: word(c.benchmark[i]),
    group: word(c.group[i]),
    workload: word(c.workload[i]),
    size: c.size[i],
    dtype: word(c.dtype[i]),
    provider: word(c.provider[i]),
    unit: word(c.unit[i]),
    scale: c.scale[i],
    minimum: c.minimum[i] === 1,
    peak: c.peak[i],
    peakSource: word(c.peakSource[i]),
  };
  entry.key = [entry.benchmark, entry.group, entry.workload, entry.dtype, entry.provider].join("|");
  return entry;
});

const incorrectRows = new Set(data.rows.incorrect);

// The mark of one stored measurement. `value` is the quoted figure in `unit`; low and high enclose the 5th to the 95th
// percentile of the samples, as figures.
function measuredMark(row) {
  const rows = data.rows;
  const c = cases[rows.case[row]];
  const run = runs[rows.run[row]];
  const median = rows.median[row];
  const seconds = (deviation) => median === null || deviation === null ? median : median * (1 + deviation / 10000);
  const figure = (time) => time === null ? NaN : c.unit === "s" ? time : time > 0 ? c.scale / time : NaN;
  const ends = [figure(seconds(rows.p5[row])), figure(seconds(rows.p95[row]))];
  return {
    ...c,
    row,
    run,
    device: run.device,
    published: false,
    value: figure(c.minimum ? seconds(rows.minimum[row]) : median),
    median: figure(median),
    mean: figure(seconds(rows.mean[row])),
    best: figure(seconds(rows.minimum[row])),
    low: Math.min(...ends),
    high: Math.max(...ends),
    samples: rows.samples[row],
    variation: rows.variation[row] / 10000,
    correct: !incorrectRows.has(row),
    distrust: words(rows.distrust[row]),
    check: row in rows.check ? word(rows.check[row]) : "",
    details: pairs(rows.details[row]),
    joules: row in rows.energy ? rows.energy[row] : null,
    series: run.device + "|" + c.provider,
  };
}

// What a token cost in energy, as a mark of its own beside the mark of its speed.
function energyMark(mark) {
  const value = mark.joules;
  return {
    ...mark,
    unit: kEnergy,
    value,
    median: value,
    mean: value,
    best: value,
    low: value,
    high: value,
    minimum: false,
    peak: null,
    samples: 0,
    variation: 0,
    distrust: [],
    details: [],
    check: "",
    basis: "Of the device alone, over all the steps that were timed.",
  };
}

const publishedMarks = data.published.map((p) => {
  const [device, benchmark, group, workload, dtype, size, value, unit, source, date, tag, note] =
      p.map((field, i) => i === 5 || i === 6 ? field : word(field));
  return {
    device,
    benchmark,
    group,
    workload,
    dtype,
    size,
    value,
    unit,
    source,
    date,
    tag,
    note,
    published: true,
    provider: "",
    low: value,
    high: value,
    correct: true,
    distrust: [],
    details: [],
    peak: null,
    series: device + "|" + source,
  };
});

// The newest row of every workload on every device, and all rows of it, oldest first.
const historyRows = new Map();
for (let row = 0; row < data.rows.run.length; ++row) {
  const c = cases[data.rows.case[row]];
  const key = [runs[data.rows.run[row]].device, c.key].join("|");
  const rows = historyRows.get(key);
  if (rows)
    rows.push(row);
  else
    historyRows.set(key, [row]);
}
const newestMarks = [...historyRows.values()].map((rows) => measuredMark(rows[rows.length - 1]));

// Series in one order everywhere, so that a colour means one thing: by device, Causeway first.
const providerOrder = (name) => name.startsWith("Causeway") ? "0" + name : "1" + name;
const measuredSeries = [...new Map(newestMarks.map((m) => [m.series, m])).values()].sort(
    (a, b) => measuredDevices.indexOf(a.device) - measuredDevices.indexOf(b.device) ||
        providerOrder(a.provider).localeCompare(providerOrder(b.provider)));
const seriesIndex = new Map(measuredSeries.map((m, i) => [m.series, i]));
const seriesRank = (mark) => mark.published ? 1000 : seriesIndex.get(mark.series);

// The largest value that a chart's scale has to hold. A published figure of a far faster device would leave the measured
// ones no room: it does not stretch the scale beyond four times theirs.
const kStretch = 4;
const topOf = (mark) => Math.max(...[mark.value, mark.high, mark.peak].filter(Number.isFinite), 0);
function reachOf(marks) {
  const measured = Math.max(0, ...marks.filter((m) => !m.published).map(topOf));
  return measured > 0 ? measured * kStretch : Infinity;
}
const isBeyond = (mark, marks) => mark.published && topOf(mark) > reachOf(marks);
const scaleMaximum = (marks) => Math.max(0, ...marks.map(topOf).filter((top) => top <= reachOf(marks)));

const kEnergy = "J per token";
const lowerIsBetter = (unit) => unit === "s" || unit === kEnergy || unit.startsWith("$");
const better = (unit, a, b) => lowerIsBetter(unit) ? a < b : a > b;

const kBenchmarks = [
  ["gemm", "GEMM", "Where nearly all the time of training goes: one matrix times another."],
  ["copy", "Memory", "How fast the device's own memory is read and written."],
  ["attention", "Attention", "The other large part of a transformer's work."],
  ["collectives", "Collectives", "Devices exchanging tensors, as data-parallel training does after every step."],
  ["train", "Training", "Whole training steps of real models: what all the parts add up to."],
  ["startup", "Startup", "From starting the program to the end of the first training step."],
];

// Publications and measurements write types differently.
const kTypes = {f8e4m3: "fp8", f16: "fp16", f32: "fp32"};
const sameType = (a, b) => (kTypes[a] || a) === (kTypes[b] || b);

// Charts: what shares a benchmark, a group, a dtype and a unit. Published figures without a dtype join each of the
// group's charts.
function buildCharts() {
  const charts = new Map();
  const chartOf = (m, dtype) => {
    const key = [m.benchmark, m.group, dtype, m.unit].join("|");
    if (!charts.has(key))
      charts.set(key, {key, benchmark: m.benchmark, group: m.group, dtype, unit: m.unit, marks: []});
    return charts.get(key);
  };
  for (const mark of newestMarks) chartOf(mark, mark.dtype).marks.push(mark);
  for (const mark of newestMarks.filter((m) => m.joules && m.correct).map(energyMark))
    chartOf(mark, mark.dtype).marks.push(mark);
  const measured = [...charts.values()];
  for (const mark of publishedMarks) {
    const joined = measured.filter(
        (c) => c.benchmark === mark.benchmark && c.group === mark.group && c.unit === mark.unit &&
            (sameType(c.dtype, mark.dtype) || mark.dtype === ""));
    for (const chart of joined.length ? joined : [chartOf(mark, mark.dtype)]) chart.marks.push(mark);
  }
  return [...charts.values()];
}

// Numbers as a reader wants them.
function formatNumber(value) {
  if (!Number.isFinite(value)) return "n/a";
  const size = Math.abs(value);
  const decimals = size >= 100 || size === 0 ? 0 :
      size >= 10                             ? 1 :
      size >= 1                              ? 2 :
                                               Math.min(6, 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
}

function formatSeconds(value) {
  if (!Number.isFinite(value)) return "n/a";
  if (value >= 1) return formatNumber(value) + " s";
  return value >= 1e-3 ? formatNumber(value * 1e3) + " ms" : formatNumber(value * 1e6) + " µs";
}

function formatFigure(value, unit) {
  if (unit === "s") return formatSeconds(value);
  if (unit.startsWith("$"))
    return "$" +
        (value >= 1                              ? value.toFixed(2) :
             Number(value.toPrecision(3)) < 1e-4 ? value.toExponential(2) :
                                                   value.toFixed(Math.min(7, 2 - Math.floor(Math.log10(value)))));
  return formatNumber(value);
}

const figureWithUnit = (value, unit) => unit === "s" ? formatSeconds(value) :
    unit.startsWith("$")                             ? formatFigure(value, unit) + unit.slice(1) :
                                                       formatNumber(value) + " " + unit;

function formatBytes(value) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (value >= 1024 && i + 1 < names.length) value /= 1024, ++i;
  return (value % 1 ? value.toFixed(1) : value) + " " + names[i];
}

const formatSize = (value, unit) => unit === "GB/s" ? formatBytes(value) : value.toLocaleString("en");
const formatPeak = (value) => value.toLocaleString("en", {maximumFractionDigits: value >= 10 ? 1 : 3});
const measuredIn = (marks) => [...new Set(marks.filter((m) => !m.published).map((m) => m.device))];
const percent = (ratio) => (ratio * 100).toFixed(ratio < 0.1 ? 1 : 0) + " %";
const formatDay = (day) => {
  const date = new Date(day + "T00:00:00Z");
  return Number.isNaN(date.getTime()) ?
      day :
      date.toLocaleDateString("en-GB", {day: "numeric", month: "long", year: "numeric", timeZone: "UTC"});
};
const shortCommit = (commit) => commit.replace(/^([0-9a-f]{10})[0-9a-f]{2,}/, "$1");

// `alone`: every measured mark beside it is of the same device.
function seriesLabel(mark, alone = false) {
  if (mark.published) return shortDevice(mark.device) + ", published";
  return measuredDevices.length > 1 && !alone ? mark.provider + ", " + shortDevice(mark.device) : mark.provider;
}

// Everything there is to say about a mark, as sentences.
function describe(mark) {
  const parts = [];
  const figure = figureWithUnit(mark.value, mark.unit);
  if (mark.published) {
    parts.push("Published, " + mark.source + ", " + mark.date + " (" + mark.tag + ").");
    if (mark.note) parts.push(mark.note[0].toUpperCase() + mark.note.slice(1) + ".");
  } else {
    if (mark.samples)
      parts.push(
          (mark.minimum ? "Best" : "Median") + " of " + mark.samples.toLocaleString("en") +
          (mark.samples === 1 ? " sample" :
                                " samples, 5th to 95th percentile " + formatFigure(mark.low, mark.unit) + " to " +
                   formatFigure(mark.high, mark.unit) +
                   (mark.variation > 0 ? ", rounds vary by " + (mark.variation * 100).toFixed(2) + " %" : "")) +
          ".");
    if (mark.peak)
      parts.push(
          percent(mark.value / mark.peak) + " of the peak of " + formatPeak(mark.peak) + " " + mark.unit + " (" +
          mark.peakSource + ").");
    if (!mark.correct)
      parts.push("Incorrect result" + (mark.check ? ": " + mark.check : "") + ".");
    else if (mark.check)
      parts.push("Checked: " + mark.check + ".");
    for (const sentence of mark.distrust) parts.push(sentence);
    for (const [key, value] of mark.details) parts.push(key + ": " + value + ".");
    if (mark.run) parts.push(formatDay(mark.run.day) + ", commit " + shortCommit(mark.run.commit) + ".");
  }
  if (mark.basis) parts.push(mark.basis);
  const name =
      [mark.published ? shortDevice(mark.device) : seriesLabel(mark), mark.workload, mark.dtype].filter(Boolean);
  return {head: name.join(", ") + ": " + figure, body: parts.join(" ")};
}
