// Charts that move: lines of the last minutes, drawn as SVG.

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [600, 160];
const SPAN_MIN = 60; // samples: one minute
const SPAN_MAX = 300;
const RATES = new Set(["submitted", "completed", "failed", "crashed"]);

export function startCharts(live) {
  const charts = [...document.querySelectorAll("[data-chart]")].map((figure) => new Chart(figure));
  if (!charts.length) return;
  const draw = () => charts.forEach((chart) => chart.draw(live.history));
  live.addEventListener("samples", draw);
  live.addEventListener("history", draw);
}

class Chart {
  constructor(figure) {
    this.figure = figure;
    this.svg = figure.querySelector("svg");
    this.empty = figure.querySelector(".empty");
    this.lines = [...figure.querySelectorAll("[data-line]")].map((item) => ({
      name: item.dataset.line,
      output: item.querySelector("output"),
      path: element("path", { class: `line ${item.dataset.line}`, fill: "none", "vector-effect": "non-scaling-stroke" }),
      area: element("path", { class: `area ${item.dataset.line}`, stroke: "none" }),
    }));
    this.grid = element("path", { class: "grid", fill: "none", "vector-effect": "non-scaling-stroke" });
    this.svg.append(this.grid, ...this.lines.map(({ area }) => area), ...this.lines.map(({ path }) => path));
    this.top = figure.querySelector(".top");
    this.past = figure.querySelector(".past");
  }

  draw(samples) {
    const recent = samples.slice(-SPAN_MAX - 1);
    if (recent.length < 2) return;
    this.empty.hidden = true;
    const series = this.lines.map(({ name }) => values(recent, name));
    const highest = Math.max(1, ...series.flat());
    const top = nice(highest);
    this.top.textContent = amount(top);
    const span = Math.max(SPAN_MIN, recent.length - 1);
    const step = WIDTH / (span - 1);
    this.past.textContent = span < 120 ? `${span} s ago` : `${Math.round(span / 60)} min ago`;
    const y = (value) => (HEIGHT - 4 - (value / top) * (HEIGHT - 12)).toFixed(1);
    this.grid.setAttribute("d", [0, 0.5, 1].map((part) => `M0 ${y(top * part)}H${WIDTH}`).join(""));
    series.forEach((points, index) => {
      const { path, area, output } = this.lines[index];
      const first = WIDTH - (points.length - 1) * step;
      const line = points.map((value, at) => `${at ? "L" : "M"}${(first + at * step).toFixed(1)} ${y(value)}`).join("");
      path.setAttribute("d", line);
      area.setAttribute("d", `${line}L${WIDTH} ${y(0)}L${first.toFixed(1)} ${y(0)}Z`);
      output.textContent = amount(points.at(-1));
    });
  }
}

/** Counters become rates, smoothed over three seconds. */
function values(samples, name) {
  if (!RATES.has(name)) return samples.slice(1).map((sample) => sample[name]);
  return samples.slice(1).map((sample, index) => {
    const before = samples[Math.max(0, index - 2)];
    const seconds = (sample.at - before.at) / 1000;
    return seconds > 0 ? Math.max(0, (sample[name] - before[name]) / seconds) : 0;
  });
}

/** The next round number. */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].find((factor) => factor * power >= value) * power;
}

function amount(value) {
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${Math.round(value / 1e3)} k`;
  return value >= 10 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
