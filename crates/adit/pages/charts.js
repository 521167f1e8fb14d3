// Small charts as SVG, drawn by hand, and figures as people read them.

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const PREFIXES = ["", "k", "M", "G", "T"];

function scaled(value) {
  let power = 0;
  while (value >= 1000 && power < PREFIXES.length - 1) { value /= 1000; power += 1; }
  const digits = power === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return [value.toFixed(digits), PREFIXES[power]];
}

/** Bits per second. */
export const bits = (value) => { const [n, prefix] = scaled(value); return `${n} ${prefix}b/s`; };
/** Packets per second. */
export const packets = (value) => { const [n, prefix] = scaled(value); return `${n} ${prefix}pkt/s`; };
/** Octets. */
export const octets = (value) => { const [n, prefix] = scaled(value); return `${n} ${prefix}B`; };
/** A count, with its digits in groups. */
export const count = (value) => Number(value).toLocaleString("en-US");

/** A time as days, hours, minutes or seconds. */
export function span(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** A share of 100 as a bar. */
export function bar(percent, label) {
  const part = Math.max(0, Math.min(100, percent));
  return svg("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "rail", width: 100, height: 6, rx: 2 }),
    svg("rect", { class: part >= 90 ? "part high" : "part", width: part, height: 6, rx: 2 }));
}

/** The next round number. */
function ceiling(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? 10 * power;
}

/** A chart of two directions over the last points. */
export class RateChart {
  constructor(label, points) {
    this.points = points;
    this.series = { up: [], down: [] };
    this.element = svg("svg", { class: "chart", role: "img", "aria-label": label });
    this.label = label;
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  /** Adds a point of each direction. */
  add(up, down) {
    for (const [name, value] of [["up", up], ["down", down]]) {
      this.series[name].push(value);
      if (this.series[name].length > this.points) this.series[name].shift();
    }
    this.draw();
  }

  draw() {
    const width = this.element.clientWidth || 600, height = this.element.clientHeight || 190;
    const left = 74, bottom = 20, top = 8, inner = width - left - 4, tall = height - bottom - top;
    const highest = ceiling(Math.max(1000, ...this.series.up, ...this.series.down));
    const y = (value) => top + tall * (1 - value / highest);
    const x = (index, length) => left + inner * (1 - (length - 1 - index) / (this.points - 1));
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const parts = [];
    for (const part of [0, 0.5, 1]) {
      parts.push(svg("line", { class: "grid", x1: left, x2: width - 4, y1: y(highest * part), y2: y(highest * part) }));
      parts.push(svg("text", { x: left - 8, y: y(highest * part) + 4, "text-anchor": "end" }, bits(highest * part)));
    }
    parts.push(svg("text", { x: left, y: height - 4 }, `${this.points} s ago`));
    parts.push(svg("text", { x: width - 4, y: height - 4, "text-anchor": "end" }, "now"));
    for (const name of ["down", "up"]) {
      const values = this.series[name];
      if (values.length === 0) continue;
      const path = values.map((value, index) => `${x(index, values.length).toFixed(1)},${y(value).toFixed(1)}`).join(" L");
      parts.push(svg("path", { class: `area ${name}`, d: `M${x(0, values.length)},${y(0)} L${path} L${x(values.length - 1, values.length)},${y(0)} Z` }));
      parts.push(svg("path", { class: `line ${name}`, d: `M${path}` }));
    }
    this.element.replaceChildren(...parts);
    const last = (name) => this.series[name].at(-1) ?? 0;
    this.element.setAttribute("aria-label", `${this.label}: uplink ${bits(last("up"))}, downlink ${bits(last("down"))}`);
  }
}
