// What a dollar buys: dollars per million tokens, and the best figures per dollar an hour.

const dollarsOf = (device) => devices.get(device) && devices.get(device).cost;

function costMarks(marks, unit, convert, workload) {
  return marks.filter((m) => m.correct && visible(m) && dollarsOf(m.device) && m.value > 0).map((m) => {
    const cost = dollarsOf(m.device);
    const ends = [convert(m.low, cost.dollars), convert(m.high, cost.dollars)];
    return {
      ...m,
      unit,
      workload: workload(m),
      value: convert(m.value, cost.dollars),
      low: Math.min(...ends),
      high: Math.max(...ends),
      peak: null,
      details: [],
      check: "",
      basis: "From " + figureWithUnit(m.value, m.unit) + " (" + m.workload + ") and $" + cost.dollars + " per hour, " +
          cost.source + ", " + cost.date + ".",
    };
  });
}

function barsFigure(title, marks) {
  return figureOf({
    title,
    subtitle: subtitleOf(marks),
    marks,
    height: barHeightEstimate(marks),
    draw: (plot, width, notes) => drawBars(plot, width, marks, notes)
  });
}

function costSection() {
  const section = sectionOf(
      "cost", "Cost",
      "What a dollar buys, from the hourly costs in " + data.costsFile +
          ". Edit a copy of it to use prices of your own.");
  const missing = measuredDevices.filter((d) => shown(d) && devices.get(d).missing);
  if (missing.length)
    section.append(element("ul", {class: "sentences warn"}, ...missing.map((d) => {
      const sentence = devices.get(d).missing;
      return element("li", {}, sentence[0].toUpperCase() + sentence.slice(1) + ".");
    })));
  const tokens =
      [...newestMarks, ...publishedMarks].filter((m) => m.benchmark === "train" && m.unit === "tokens/s per device");
  const price = costMarks(
      tokens, "$ per million tokens", (rate, dollars) => dollars / 3600 / rate * 1e6,
      (m) => m.workload + (m.dtype ? ", " + m.dtype : ""));
  const grid = element("div", {class: "figures"}), published = [];
  for (const group of new Set(price.map((m) => m.group))) {
    const marks = price.filter((m) => m.group === group);
    if (marks.some((m) => !m.published))
      grid.append(barsFigure("Training " + group, marks));
    else
      published.push(() => barsFigure("Training " + group, marks));
  }
  for (const [id, title] of kBenchmarks.filter(
           ([benchmark]) => ["gemm", "copy", "attention", "collectives"].includes(benchmark))) {
    const best = [];
    const all = [...newestMarks, ...publishedMarks].filter((m) => m.benchmark === id && m.unit !== "s");
    const dtypeOf = (m) => id === "gemm" || id === "attention" ? m.dtype : "";
    const kindOf = (m) => [m.device, dtypeOf(m), m.unit, m.published].join("|");
    for (const kind of new Set(all.map(kindOf))) {
      const mark = bestOf(all.filter((m) => kindOf(m) === kind));
      if (mark) best.push(mark);
    }
    for (const unit of new Set(best.map((m) => m.unit))) {
      const marks = costMarks(
          best.filter((m) => m.unit === unit), unit + " per $/h", (rate, dollars) => rate / dollars,
          (m) => [dtypeOf(m), "best figure"].filter(Boolean).join(", "));
      const make = () => barsFigure(title + " per dollar", marks);
      if (marks.some((m) => !m.published))
        grid.append(make());
      else if (marks.length)
        published.push(make);
    }
  }
  section.append(grid);
  if (published.length)
    section.append(aside(
        "From published results only (" + plural(published.length, "chart") + ")",
        (details) => details.append(element("div", {class: "figures"}, ...published.map((make) => make())))));
  const priced = data.devices.filter((d) => d.cost && (d.measured ? shown(d.name) : state.published));
  if (priced.length)
    section.append(
        element("h3", {}, "Hourly costs"),
        tableFrom(
            "Hourly costs", [["Device"], ["Dollars per hour", "number"], ["Covers"], ["Source"], ["Date"]],
            priced.map(
                (d) =>
                    [shortDevice(d.name) + (d.measured ? "" : ", published"), "$" + d.cost.dollars.toFixed(2),
                     d.cost.basis, d.cost.source + " (" + d.cost.tag + ")", d.cost.date])));
  return section;
}
