// The page: header, overview, a section for each benchmark, cost, history, and how it was measured.

const state = {
  hidden: new Set(),
  published: true
};
const shown = (device) => !state.hidden.has(device);
const visible = (mark) => mark.published ? state.published : shown(mark.device);
const plural = (count, one, many) => count.toLocaleString("en") + " " + (count === 1 ? one : many || one + "s");
const main = document.getElementById("content");

function listed(names) {
  return names.length < 2 ? names.join("") : names.slice(0, -1).join(", ") + " and " + names[names.length - 1];
}

function header() {
  const names = measuredDevices.map(shortDevice);
  const few = names.length > 4 ? [...names.slice(0, 3), plural(names.length - 3, "other device")] : names;
  document.getElementById("headline").textContent = names.length ?
      "What " + (names.length === 1 ? "the " : "") + listed(few) + " really " + (names.length === 1 ? "does" : "do") :
      "No measurements yet";
  const days = runs.map((run) => run.day).filter(Boolean).sort();
  const dates = !days.length            ? "Run causeway bench, then write this report again." :
      days[0] === days[days.length - 1] ? formatDay(days[0]) :
                                          formatDay(days[0]) + " to " + formatDay(days[days.length - 1]);
  const parts = [dates];
  if (runs.length) {
    parts.push(
        plural(runs.length, "run"), plural(data.rows.run.length, "measurement"),
        "newest commit " + shortCommit(runs[runs.length - 1].commit));
  }
  document.getElementById("dates").textContent = parts.join(" · ");
  if (names.length) document.title = "Causeway benchmark report: " + listed(few);
}

// How Causeway compares with the strongest other provider on each device of a chart.
function findingOf(marks) {
  const sentences = [];
  const alone = measuredIn(marks).length < 2;
  for (const device of measuredDevices) {
    const own = marks.filter((m) => !m.published && m.device === device && m.correct && m.value > 0);
    const ours = new Map(own.filter((m) => m.provider.startsWith("Causeway")).map((m) => [m.workload, m]));
    const others = new Map();
    for (const m of own) {
      if (m.provider.startsWith("Causeway") || !ours.has(m.workload)) continue;
      const ratio = lowerIsBetter(m.unit) ? m.value / ours.get(m.workload).value : ours.get(m.workload).value / m.value;
      others.set(m.provider, [...(others.get(m.provider) || []), ratio]);
    }
    let strongest = null;
    for (const [provider, ratios] of others) {
      const mean = Math.exp(ratios.reduce((sum, r) => sum + Math.log(r), 0) / ratios.length);
      if (!strongest || ratios.length > strongest.count || (ratios.length === strongest.count && mean < strongest.mean))
        strongest = {provider, mean, count: ratios.length};
    }
    if (!strongest) continue;
    sentences.push(
        "Causeway reaches " + Math.round(strongest.mean * 100) + " % of " + strongest.provider +
        (alone ? "" : " on " + shortDevice(device)) +
        (strongest.count > 1 ? " (geometric mean of " + strongest.count + ")" : ""));
  }
  return sentences.length ? sentences.join("; ") + "." : "";
}

function subtitleOf(marks, asBars = true) {
  const unit = marks[0].unit;
  const on = measuredIn(marks);
  const device = measuredDevices.length > 1 && on.length === 1 ? shortDevice(on[0]) + ". " : "";
  const bandwidth = marks[0].benchmark === "collectives" && unit === "GB/s" ? "Bus bandwidth, " : "";
  const text = device + bandwidth +
      (unit === "s"             ? "Time, lower is better." :
           unit.startsWith("$") ? "Dollars" + unit.slice(1) + ", lower is better." :
                                  unit + (lowerIsBetter(unit) ? ", lower is better." : ", higher is better."));
  const peaks =
      [...new Set(marks.filter((m) => m.peak).map((m) => formatPeak(m.peak) + " " + unit + " (" + m.peakSource + ")"))];
  const shortest = marks.some((m) => m.minimum) ? " The best of the samples, as the benchmark's convention is." : "";
  const beyond = marks.filter((m) => isBeyond(m, marks)).length;
  const cut = !beyond ? "" :
                        " " + plural(beyond, "published figure") + (beyond === 1 ? " is" : " are") +
          " far beyond the measured ones: " + (asBars ? "a bar that is cut open is longer than drawn." : "see the table.");
  return text + shortest + cut +
      (peaks.length ? " Peak: " + (peaks.length > 3 ? "see the table" : peaks.join("; ")) + "." : "");
}

function chartFigure(chart, title) {
  const marks = chart.marks.filter(visible);
  const lines = curveSeries(marks);
  const finding = findingOf(marks), subtitle = subtitleOf(marks, !lines);
  if (lines)
    return figureOf({
      title,
      finding,
      subtitle,
      marks,
      height: 360,
      draw: (plot, width, notes) => drawCurves(plot, width, marks, lines, notes)
    });
  const groups = barGroups(marks);
  if (groups.length <= kWorkloadsAtFirst)
    return figureOf({
      title,
      finding,
      subtitle,
      marks,
      height: barHeightEstimate(marks),
      draw: (plot, width, notes) => drawBars(plot, width, marks, notes)
    });
  const first = groups.slice(0, kWorkloadsAtFirst).flatMap(([, indices]) => indices).map((i) => marks[i]);
  const frame = element("div", {});
  const show = (some) => figureOf({
    title,
    finding,
    subtitle,
    marks: some,
    height: barHeightEstimate(some),
    draw: (plot, width, notes) => drawBars(plot, width, some, notes)
  });
  const more = element("button", {type: "button", class: "more"}, "Show all " + groups.length + " workloads");
  more.addEventListener("click", () => {
    const whole = show(marks);
    frame.replaceChildren(whole);
    whole.querySelector(".plot").focus();
  });
  frame.append(show(first), more);
  return frame;
}

// Charts of one section, by group, measured ones first.
function chartsInto(section, charts) {
  const groups = [...new Set(charts.map((chart) => chart.group))];
  const grid = element("div", {class: "figures"});
  for (const group of groups)
    for (const chart of charts.filter((c) => c.group === group))
      grid.append(
          chartFigure(
              chart,
              [group[0].toUpperCase() + group.slice(1), chart.dtype, chart.unit === kEnergy ? "energy" : ""]
                  .filter(Boolean)
                  .join(", ")));
  section.append(grid);
}

function aside(summary, fill) {
  const details = element("details", {class: "aside"}, element("summary", {}, summary));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) fill(details);
  });
  return details;
}

function sectionOf(id, title, lead) {
  const section = element("section", {id, "aria-labelledby": id + "-title"}, element("h2", {id: id + "-title"}, title));
  if (lead) section.append(element("p", {class: "lead"}, lead));
  return section;
}

function benchmarkSections() {
  const charts = buildCharts().filter((chart) => chart.marks.some(visible));
  const known = kBenchmarks.map(([id]) => id);
  const names = [
    ...kBenchmarks,
    ...[...new Set(charts.map((c) => c.benchmark))].filter((b) => !known.includes(b)).map((b) => [b, b, ""])
  ];
  const sections = [];
  for (const [id, title, lead] of names) {
    const own = charts.filter((c) => c.benchmark === id);
    if (!own.length) continue;
    const measured = own.filter((c) => c.marks.some((m) => !m.published && visible(m)));
    const only = own.filter((c) => !measured.includes(c));
    const section = sectionOf(id, title, measured.length ? lead : lead + " Not measured in these runs.");
    chartsInto(section, measured);
    if (only.length)
      section.append(aside(
          "Published elsewhere, not measured here (" + plural(only.length, "chart") + ")",
          (details) => chartsInto(details, only)));
    sections.push(section);
  }
  return sections;
}

// The best correct figure of a device in one benchmark and dtype.
function bestOf(marks) {
  let best = null;
  for (const m of marks)
    if (m.correct && Number.isFinite(m.value) && (!best || better(m.unit, m.value, best.value))) best = m;
  return best;
}

function overviewEntries(device) {
  const own = newestMarks.filter((m) => m.device === device);
  const entries = [];
  for (const [id, title] of kBenchmarks) {
    const here = own.filter((m) => m.benchmark === id);
    if (!here.length) continue;
    if (id === "startup") {
      const best = bestOf(here.filter((m) => m.provider.startsWith("Causeway"))) || bestOf(here);
      if (best) entries.push([title + ", " + best.workload, best]);
    } else if (id === "train") {
      const seen = new Set();
      for (const m of here) {
        const key = m.group + "|" + m.dtype;
        if (seen.has(key) || seen.size >= 2) continue;
        seen.add(key);
        const best = bestOf(here.filter((o) => o.group + "|" + o.dtype === key && o.unit === m.unit));
        if (best) entries.push([best.group + (best.dtype ? ", " + best.dtype : ""), best]);
      }
    } else if (id === "gemm") {
      const dtypes = [...new Set(here.map((m) => m.dtype))].slice(0, 3);
      for (const dtype of dtypes) {
        const best = bestOf(here.filter((m) => m.dtype === dtype));
        if (best) entries.push([title + (dtype ? ", " + dtype : ""), best]);
      }
    } else {
      const best = bestOf(here);
      if (best) entries.push([title + (best.dtype && id === "attention" ? ", " + best.dtype : ""), best]);
    }
  }
  return entries;
}

function card(device) {
  const run = [...runs].reverse().find((r) => r.device === device);
  const own = newestMarks.filter((m) => m.device === device);
  const article = element(
      "article", {class: "card"}, element("h3", {}, (run.count > 1 ? run.count + " × " : "") + device),
      element(
          "p", {class: "sub"},
          [run.architecture, formatDay(run.day), "commit " + shortCommit(run.commit)].filter(Boolean).join(" · ")));
  const list = element("dl", {});
  for (const [label, mark] of overviewEntries(device)) {
    const [number, unit] =
        mark.unit === "s" ? formatSeconds(mark.value).split(" ") : [formatFigure(mark.value, mark.unit), mark.unit];
    const row = element(
        "div", {}, element("dt", {}, label),
        element("dd", {class: "figure"}, number + " ", element("small", {}, unit)));
    if (mark.peak) {
      const meter = element("span", {class: "meter", "aria-hidden": "true"}, element("i", {}));
      meter.firstChild.style.width = Math.min(100, 100 * mark.value / mark.peak) + "%";
      meter.firstChild.style.background = "var(--s" + (seriesRank(mark) % 8) + ")";
      row.append(meter);
    }
    row.append(element(
        "dd", {class: "how"},
        (mark.peak ? percent(mark.value / mark.peak) + " of peak · " : "") + mark.provider +
            (label.includes(mark.workload) ? "" : " · " + mark.workload) + (mark.distrust.length ? " · " : ""),
        mark.distrust.length ? element("span", {class: "warn"}, mark.distrust[0]) : ""));
    list.append(row);
  }
  const doubtful = own.filter((m) => m.distrust.length).length, wrong = own.filter((m) => !m.correct).length;
  const status = element("p", {class: "status"}, plural(own.length, "figure"));
  if (doubtful) status.append(", ", element("span", {class: "warn"}, doubtful.toLocaleString("en") + " to distrust"));
  if (wrong) status.append(", ", element("span", {class: "bad"}, wrong.toLocaleString("en") + " incorrect"));
  const regressed = histories((d) => d === device).reduce((sum, h) => sum + h.regressions.length, 0);
  if (regressed) status.append(", ", element("span", {class: "bad"}, plural(regressed, "regression")));
  if (!doubtful && !wrong && !regressed) status.append(", none to distrust");
  article.append(list, status);
  return article;
}

function legend() {
  const list = element("ul", {class: "legend"});
  const entry = (draw, text) => {
    const svg = shape(null, "svg", {width: 96, height: 18, viewBox: "0 0 96 18", "aria-hidden": "true"});
    draw(svg);
    list.append(element("li", {}, svg, element("span", {}, text)));
  };
  entry((svg) => {
    const g = shape(svg, "g", {style: "--c: var(--s0)"});
    shape(g, "rect", {x: 0, y: 3, width: 56, height: 12, class: "bar"});
    whisker(g, 46, 66, 9);
  }, "Median, and the 5th to the 95th percentile of the samples");
  entry((svg) => {
    shape(svg, "rect", {x: 0, y: 3, width: 76, height: 12, class: "track"});
    shape(svg, "line", {x1: 76, x2: 76, y1: 1, y2: 17, class: "peak"});
    shape(svg, "rect", {x: 0, y: 3, width: 50, height: 12, class: "bar", style: "--c: var(--s0)"});
  }, "The device's peak, dense and for this dtype");
  entry(
      (svg) => shape(svg, "rect", {x: 0.5, y: 3.5, width: 56, height: 11, class: "bar published"}),
      "Published by others, not measured here");
  entry((svg) => {
    shape(svg, "text", {x: 0, y: 14, class: "strong"}, "712");
    shape(svg, "text", {x: 26, y: 9, class: "note"}, "1");
  }, "A reason to distrust the figure stands below the chart");
  entry(
      (svg) => shape(svg, "text", {x: 0, y: 14, class: "struck"}, "incorrect 712"),
      "The result was wrong: the figure counts for nothing");
  return list;
}

function overview() {
  const section = sectionOf(
      "overview", "Overview",
      runs.length ? "The best figure of each device in each benchmark, from its newest measurements." : "");
  const sentences = regressionSentences();
  if (sentences.length)
    section.append(element(
        "ul", {class: "sentences bad"}, ...sentences.slice(0, 5).map((s) => element("li", {}, s)),
        sentences.length > 5 ?
            element("li", {}, "and " + plural(sentences.length - 5, "other regression") + ", under History") :
            ""));
  section.append(element("div", {class: "cards"}, ...measuredDevices.filter(shown).map(card)));
  section.append(element("h3", {}, "How to read the charts"), legend());
  return section;
}

function filters() {
  const bar = element("div", {class: "filters", role: "group", "aria-label": "What is shown"}, "Show");
  const chip = (id, text, pressed, toggle) => {
    const button = element("button", {type: "button", id, "aria-pressed": String(pressed)}, text);
    button.addEventListener("click", () => {
      toggle();
      render();
      document.getElementById(id).focus();
    });
    bar.append(button);
  };
  if (measuredDevices.length > 1)
    measuredDevices.forEach((device, i) => chip("device-" + i, shortDevice(device), shown(device), () => {
                              if (!state.hidden.delete(device)) state.hidden.add(device);
                            }));
  if (publishedMarks.length)
    chip("published", "published results", state.published, () => {
      state.published = !state.published;
    });
  return bar.childElementCount ? bar : null;
}

function regressionSentences() {
  return histories(shown).flatMap(
      (entry) => entry.regressions.map(
          (r) => entry.case.workload + (entry.case.dtype ? ", " + entry.case.dtype : "") + ", " + entry.case.provider +
              " on " + shortDevice(entry.device) + ": " + regressionText(r.ratio) + " since commit " +
              shortCommit(r.commit)));
}

function historySection() {
  const list = histories(shown);
  if (!list.length) return null;
  const sentences = regressionSentences();
  const section = sectionOf(
      "history", "History",
      plural(list.length, "workload") + " measured more than once; those that changed most come first. " +
          "Axes do not begin at zero.");
  section.append(element(
      "ul", {class: "sentences " + (sentences.length ? "bad" : "good")},
      ...(sentences.length ? sentences : ["No regression."]).map((s) => element("li", {}, s))));
  const grid = element("div", {class: "histories"}, ...list.slice(0, 12).map(historyFigure));
  section.append(grid);
  if (list.length > 12) {
    const more = element("button", {type: "button", class: "more"}, "Show all " + list.length.toLocaleString("en"));
    more.addEventListener("click", () => {
      const rest = list.slice(12).map(historyFigure);
      grid.append(...rest);
      more.remove();
      rest[0].querySelector(".plot").focus();
    });
    section.append(more);
  }
  return section;
}

function methodSection() {
  const section = sectionOf(
      "method", "How it was measured",
      "Every run stored, newest first, with the command that repeats it." +
          (data.rows.shortened ? " Checks and details of older figures are left out here; the results store has them." :
                                 ""));
  const counts = new Map();
  for (const run of data.rows.run) counts.set(run, (counts.get(run) || 0) + 1);
  const rowsOf = (list) => list.map(
      (run) =>
          [run.started.replace("T", " ").replace("Z", ""), (run.count > 1 ? run.count + " × " : "") + run.device,
           run.architecture, element("span", {class: "code"}, shortCommit(run.commit)),
           element("span", {class: "code"}, run.command), (counts.get(run.index) || 0).toLocaleString("en")]);
  const heads = [["Started, UTC"], ["Device"], ["Architecture"], ["Commit"], ["Command"], ["Figures", "number"]];
  const list = [...runs].reverse().filter((run) => shown(run.device));
  const frame = element("div", {}, tableFrom("Runs", heads, rowsOf(list.slice(0, 10))));
  section.append(frame);
  if (list.length > 10) {
    const more = element("button", {type: "button", class: "more"}, "Show all " + plural(list.length, "run"));
    more.addEventListener(
        "click", () => frame.replaceChildren(tableFrom("Runs", heads, rowsOf(list))) || more.remove());
    section.append(more);
  }
  const state3 = (value, unit) => value === null ? "" : value.toLocaleString("en") + " " + unit;
  for (const device of measuredDevices.filter(shown)) {
    const run = list.find((r) => r.device === device && r.environment);
    if (!run || (!run.environment.length && !run.telemetry.length)) continue;
    section.append(aside("Newest run on " + device + ": environment, clocks, power, temperature", (details) => {
      if (run.telemetry.length)
        details.append(tableFrom(
            "Telemetry",
            [
              ["Moment"], ["Graphics clock", "number"], ["Memory clock", "number"], ["Power", "number"],
              ["Temperature", "number"], ["Throttled by"]
            ],
            run.telemetry.map(
                (t) =>
                    [t.moment, state3(t.graphics, "MHz"), state3(t.memory, "MHz"), state3(t.power, "W"),
                     state3(t.temperature, "°C"),
                     t.throttle.length ? element("span", {class: "warn"}, t.throttle.join(", ")) :
                                         "nothing reported"])));
      if (run.environment.length)
        details.append(
            tableFrom("Environment", [["What"], ["Value"]], run.environment.map(([key, value]) => [key, value])));
    }));
  }
  return section;
}

function navigation(sections) {
  const list = element("ul", {});
  for (const section of sections)
    list.append(element("li", {}, element("a", {href: "#" + section.id}, section.querySelector("h2").textContent)));
  document.getElementById("sections").replaceChildren(list);
  const links = new Map([...list.querySelectorAll("a")].map((a) => [a.getAttribute("href").slice(1), a]));
  navigation.spy && navigation.spy.disconnect();
  navigation.spy = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, {rootMargin: "-20% 0px -75% 0px"});
  for (const section of sections) navigation.spy.observe(section);
}

function render() {
  observer.disconnect();
  waiting.clear();
  const sections = [overview(), ...benchmarkSections()];
  if (measuredDevices.length || data.devices.some((d) => d.cost)) sections.push(costSection());
  const history = historySection();
  if (history) sections.push(history);
  if (runs.length) sections.push(methodSection());
  const bar = filters();
  main.replaceChildren(...(bar ? [element("div", {style: "padding-top: 24px"}, bar)] : []), ...sections);
  navigation(sections);
  for (const plot of waiting.keys()) {
    const box = plot.getBoundingClientRect();
    if (box.top > innerHeight) break;
    drawNow(plot);
  }
}

function csvText() {
  const heads = [
    "started",        "commit",        "device",   "architecture", "device_count",
    "benchmark",      "group",         "workload", "size",         "dtype",
    "provider",       "unit",          "figure",   "statistic",    "low",
    "high",           "mean",          "best",     "samples",      "peak",
    "peak_source",    "correct",       "check",    "distrust",     "published_source",
    "published_date", "published_tag", "note"
  ];
  const cell = (value) => {
    const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  const lines = [heads.join(",")];
  for (let row = 0; row < data.rows.run.length; ++row) {
    const m = measuredMark(row);
    lines.push([
      m.run.started,
      m.run.commit,
      m.device,
      m.run.architecture,
      m.run.count,
      m.benchmark,
      m.group,
      m.workload,
      m.size,
      m.dtype,
      m.provider,
      m.unit,
      m.value,
      m.minimum ? "minimum" : "median",
      m.low,
      m.high,
      m.mean,
      m.best,
      m.samples,
      m.peak,
      m.peakSource,
      m.correct,
      m.check,
      m.distrust.join(" "),
      "",
      "",
      "",
      ""
    ].map(cell).join(","));
  }
  for (const m of publishedMarks)
    lines.push([
      "", "", m.device, "", "", m.benchmark, m.group, m.workload, m.size, m.dtype, "",       m.unit, m.value, "",
      "", "", "",       "", "", "",          "",      "",         "",     "",      m.source, m.date, m.tag,   m.note
    ].map(cell).join(","));
  return lines.join("\r\n") + "\r\n";
}

document.getElementById("csv").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([csvText()], {type: "text/csv"}));
  const link = element("a", {href: address, download: "causeway-benchmarks.csv"});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
});

// The theme follows the system until the button is pressed; a browser may refuse to remember it.
const themeButton = document.getElementById("theme");
const darkNow = () => (document.documentElement.dataset.theme ||
                       (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
const nameTheme = () => {
  themeButton.textContent = darkNow() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", "Switch to the " + (darkNow() ? "light" : "dark") + " theme");
};
try {
  const chosen = localStorage.getItem("causeway-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch (refused) {
  document.documentElement.removeAttribute("data-theme");
}
themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = darkNow() ? "light" : "dark";
  nameTheme();
  try {
    localStorage.setItem("causeway-theme", document.documentElement.dataset.theme);
  } catch (refused) {
    return;
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
nameTheme();

header();
render();
if (/^#[\w-]+$/.test(location.hash)) {
  const target = document.getElementById(location.hash.slice(1));
  if (target) target.scrollIntoView();
}
document.documentElement.dataset.ready = String(Math.round(performance.now()));
