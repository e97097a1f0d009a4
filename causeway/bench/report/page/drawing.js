// What all charts share: elements, text widths, axes, the frame of a figure with its readout, notes and table, keyboard
// movement between marks, and drawing only what is on screen.

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

function shape(parent, name, attributes, content) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== undefined)
      node.setAttribute(key, typeof value === "number" ? Math.round(value * 100) / 100 : value);
  if (content !== undefined) node.textContent = content;
  if (parent) parent.append(node);
  return node;
}

const ruler = document.createElement("canvas").getContext("2d");
const bodyFont = () => getComputedStyle(document.body).fontFamily;
function textWidth(text, size = 13, weight = 400) {
  ruler.font = weight + " " + size + "px " + textWidth.family;
  return ruler.measureText(text).width;
}
textWidth.family = bodyFont();

// The text cut to `width`, with an ellipsis where it was cut.
function fitted(text, width, size = 13, weight = 400) {
  if (textWidth(text, size, weight) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(text.slice(0, middle) + "…", size, weight) <= width)
      low = middle;
    else
      high = middle - 1;
  }
  return text.slice(0, low).trimEnd() + "…";
}

// Round axis values from 0 past `maximum`, about `count` of them.
function ticksTo(maximum, count) {
  if (!(maximum > 0)) return [0, 1];
  const raw = maximum / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let i = 0; i * step < maximum + step * 0.999; ++i) ticks.push(i * step);
  return ticks;
}

function tickLabel(value, ticks, unit) {
  const step = ticks[1] - ticks[0];
  const prefix = unit.startsWith("$") ? "$" : "";
  const decimals = Math.max(
      0,
      Math.min(
          6,
          -Math.floor(Math.log10(step) + 1e-9) + (/2\.5|25$/.test(String(+step.toPrecision(3))) && step < 10 ? 1 : 0)));
  return value === 0 ?
      prefix + "0" :
      prefix + value.toLocaleString("en", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
}

const colour = (mark) => mark.published ? null : "--c: var(--s" + (seriesRank(mark) % 8) + ")";

const kShapes = ["circle", "square", "triangle", "diamond", "cross", "down"];
const shapeOf = (mark) => kShapes[seriesRank(mark) % kShapes.length];

function dot(parent, kind, x, y, r, attributes) {
  const points = {
    square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    triangle: [[0, -1.15], [1.1, 0.85], [-1.1, 0.85]],
    down: [[0, 1.15], [1.1, -0.85], [-1.1, -0.85]],
    diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
    cross: [
      [-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4],
      [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]
    ],
  }[kind];
  if (!points) return shape(parent, "circle", {cx: x, cy: y, r, ...attributes});
  return shape(parent, "polygon", {
    points: points.map(([px, py]) => (x + px * r).toFixed(1) + "," + (y + py * r).toFixed(1)).join(" "),
    ...attributes
  });
}

// Footnotes of one chart: sentences of distrust and incorrect results by number, sources of published figures by
// letter.
class Notes {
  constructor(marks) {
    this.entries = new Map();
    let numbers = 0, letters = 0;
    const add = (text, kind) => {
      if (this.entries.has(text)) return;
      const key = kind === "source" ? String.fromCharCode(97 + (letters++ % 26)) : String(++numbers);
      this.entries.set(text, {key, kind});
    };
    for (const mark of marks)
      for (const [text, kind] of Notes.of(mark)) add(text, kind);
  }
  static of(mark) {
    const list = mark.distrust.map((sentence) => [sentence, "warn"]);
    if (!mark.correct)
      list.unshift(["Incorrect result, not to be used" + (mark.check ? ": " + mark.check : "") + ".", "bad"]);
    if (mark.published)
      list.push([
        "published, " + mark.source + ", " + mark.date + " (" + mark.tag + ")" + (mark.note ? ": " + mark.note : ""),
        "source"
      ]);
    return list;
  }
  keys(mark) { return Notes.of(mark).map(([text]) => this.entries.get(text)); }
  list() {
    const list = element("ul", {class: "notes"});
    for (const [text, {key, kind}] of this.entries)
      list.append(element("li", {class: kind}, element("span", {class: "key"}, key), text));
    return list.childElementCount ? list : null;
  }
}

// Figures draw when they come near the screen, and again when their width changes.
const waiting = new Map();
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries)
    if (entry.isIntersecting) drawNow(entry.target);
}, {rootMargin: "300px 0px"});

function drawNow(plot) {
  const draw = waiting.get(plot);
  if (!draw) return;
  const width = plot.clientWidth;
  if (!width || plot.drawnWidth === width) return;
  plot.drawnWidth = width;
  plot.style.minHeight = "";
  plot.replaceChildren();
  draw(plot, width);
}

function drawWhenSeen(plot, draw, estimatedHeight) {
  plot.style.minHeight = estimatedHeight + "px";
  waiting.set(plot, draw);
  observer.observe(plot);
}

function drawEverything() {
  for (const plot of waiting.keys()) drawNow(plot);
}

let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  requestAnimationFrame(() => {
    for (const plot of waiting.keys())
      if (plot.drawnWidth && plot.getBoundingClientRect().bottom > -300 &&
          plot.getBoundingClientRect().top < innerHeight + 300)
        drawNow(plot);
      else if (plot.drawnWidth)
        observer.unobserve(plot), observer.observe(plot);
  });
});
window.addEventListener("beforeprint", drawEverything);

// The frame of a chart. `draw(plot, width)` draws the marks and returns nothing; each mark's group carries data-mark,
// its index in `marks`.
function figureOf({title, subtitle, finding, marks, draw, height, hint, columns, say = describe}) {
  const figure = element("figure", {});
  const caption = element("figcaption", {}, element("h4", {}, title));
  if (finding) caption.append(element("p", {class: "finding"}, finding));
  if (subtitle) caption.append(element("p", {}, subtitle));
  const rest = hint || "Point at a mark, tap it, or use the arrow keys.";
  const plot = element("div", {
    class: "plot",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "chart",
    "aria-label": title + ". " + (finding ? finding + " " : "") + "Arrow keys move between " + marks.length +
        " marks; a table follows.",
  });
  const readout = element("p", {class: "readout", "aria-live": "polite"}, rest);
  figure.append(caption, plot, readout);
  const notes = new Notes(marks);
  const list = notes.list();
  if (list) figure.append(list);
  figure.append(tableOf(title, marks, columns));

  let current = -1;
  const select = (index) => {
    if (index === current) return;
    plot.querySelectorAll(".mark.on").forEach((node) => node.classList.remove("on"));
    current = index;
    if (index < 0) return void readout.replaceChildren(rest);
    plot.querySelectorAll('[data-mark="' + index + '"]').forEach((node) => node.classList.add("on"));
    const {head, body} = say(marks[index]);
    readout.replaceChildren(element("b", {}, head), " " + body);
  };
  const under = (event) => {
    const node = event.target.closest && event.target.closest("[data-mark]");
    if (node) select(Number(node.dataset.mark));
  };
  plot.addEventListener("pointermove", under);
  plot.addEventListener("pointerdown", under);
  plot.addEventListener("keydown", (event) => {
    const step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key];
    const drawn = plot.order || marks.map((_, i) => i);
    if (step) {
      const at = drawn.indexOf(current);
      select(drawn[at < 0 ? (step > 0 ? 0 : drawn.length - 1) : Math.max(0, Math.min(drawn.length - 1, at + step))]);
    } else if (event.key === "Home")
      select(drawn[0]);
    else if (event.key === "End")
      select(drawn[drawn.length - 1]);
    else if (event.key === "Escape")
      select(-1);
    else
      return;
    event.preventDefault();
  });
  drawWhenSeen(plot, (target, width) => {
    draw(target, width, notes);
    const chosen = current;
    current = -1;
    select(chosen);
  }, height);
  return figure;
}

const kColumns = [
  ["Workload", (m) => m.workload],
  ["By", (m) => m.published ? shortDevice(m.device) + ", published" : seriesLabel(m)],
  ["Figure", (m) => figureWithUnit(m.value, m.unit), "number"],
  [
    "5th to 95th percentile",
    (m) => m.published || m.low === m.high ? "" : formatFigure(m.low, m.unit) + " to " + formatFigure(m.high, m.unit),
    "number"
  ],
  ["Rounds vary by", (m) => m.variation > 0 ? (m.variation * 100).toFixed(2) + " %" : "", "number"],
  ["Of peak", (m) => m.peak ? percent(m.value / m.peak) : "", "number"],
  ["Samples", (m) => m.samples ? m.samples.toLocaleString("en") : "", "number"],
  ["Remarks", (m) => Notes.of(m).map(([text]) => text).join(" ")],
];

// A table of the same marks, filled when it is opened.
function tableOf(title, marks, columns = kColumns) {
  const details = element("details", {class: "data"}, element("summary", {}, "Table"));
  details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const used = columns.filter(([, get]) => marks.some((m) => get(m) !== ""));
    details.append(
        tableFrom(title, used.map(([name, , kind]) => [name, kind]), marks.map((m) => used.map(([, get], i) => {
          const text = get(m);
          return !m.correct && used[i][0] === "Figure" ? element("s", {}, text) : text;
        }))));
  });
  return details;
}

function tableFrom(caption, heads, rows) {
  const table = element(
      "table", {}, element("caption", {class: "spoken"}, caption),
      element(
          "thead", {},
          element("tr", {}, ...heads.map(([name, kind]) => element("th", {scope: "col", class: kind}, name)))));
  const body = element("tbody", {});
  for (const row of rows)
    body.append(element("tr", {}, ...row.map((cell, i) => element("td", {class: heads[i][1]}, cell))));
  table.append(body);
  return element("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": caption}, table);
}

// Superscript keys of a mark's notes after a text that ends at `x`; returns where they end.
function noteKeys(parent, notes, mark, x, y) {
  const keys = notes.keys(mark);
  if (!keys.length) return x;
  const label = shape(parent, "text", {x: x + 2, y: y - 4, class: "note " + keys[0].kind});
  keys.forEach(({key, kind}, i) => shape(label, "tspan", {class: "note " + kind}, (i ? "," : "") + key));
  return x + 2 + textWidth(keys.map(({key}) => key).join(","), 10.5, 650);
}
