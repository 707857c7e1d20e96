// Charts by uPlot: common axes, size, colours, and zoom that is the same in all charts over a run's time.
"use strict";

const FONT = "12px system-ui, sans-serif";
const LEFT = 72; // of all charts over a run's time, so that the same time is at the same place
const RIGHT = 40;
const LOW = 32;
const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power); // steps of bytes
const redraws = new Set(); // of all charts, for a change of the colour scheme

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const redraw of redraws) redraw();
});

function makeAxis(more) {
  return {
    font: FONT,
    stroke: () => colour("muted"),
    grid: { stroke: () => colour("grid"), width: 1 },
    ticks: { stroke: () => colour("grid"), width: 1, size: 4 },
    gap: 4,
    ...more,
  };
}

const timeAxis = () => makeAxis({ space: 70, size: LOW, values: (_, splits) => splits.map(formatTime) });

// Makes a chart in `host` that is as wide as it. `group`: charts that share cursor and zoom.
function makeChart(host, options, data, group) {
  const width = () => Math.max(240, host.clientWidth);
  const chart = new uPlot(
    {
      width: width(),
      legend: { show: false },
      ...options,
      cursor: {
        y: false,
        points: { show: false },
        drag: { x: true, y: false, setScale: true, dist: 5 },
        ...(group ? { sync: { key: group, scales: ["x", null], setSeries: false } } : {}),
        ...options.cursor,
      },
    },
    data,
    host,
  );
  new ResizeObserver(() => {
    if (host.isConnected && width() !== chart.width) chart.setSize({ width: width(), height: options.height });
  }).observe(host);
  redraws.add(() => chart.redraw(true, true));
  return chart;
}

// Keeps the times that charts show the same: a zoom of one is a zoom of all in its group.
const zoomGroups = new Map();

function joinZoom(chart, group, resetRange) {
  if (!zoomGroups.has(group)) zoomGroups.set(group, []);
  zoomGroups.get(group).push({ chart, resetRange });
  chart.over.addEventListener("dblclick", () => zoomAll(group, null));
}

function zoomAll(group, range) {
  for (const { chart, resetRange } of zoomGroups.get(group) ?? []) {
    const [min, max] = range ?? resetRange();
    if (chart.scales.x.min !== min || chart.scales.x.max !== max) chart.setScale("x", { min, max });
  }
}

// The arrows move the cursor, + and - zoom, Escape shows everything again.
function zoomByKey(chart, group, key, end_s) {
  const { min, max } = chart.scales.x;
  const middle = chart.cursor.left >= 0 ? chart.posToVal(chart.cursor.left, "x") : (min + max) / 2;
  const factor = { "+": 0.5, "=": 0.5, "-": 2 }[key];
  if (key === "Escape") zoomAll(group, null);
  else if (factor) {
    const from = Math.max(0, middle - (middle - min) * factor);
    const to = Math.min(end_s, middle + (max - middle) * factor);
    zoomAll(group, from <= 0 && to >= end_s ? null : [from, to]);
  } else return false;
  return true;
}

// A fill that can be told from others without its colour. Weak patterns do not shimmer in narrow columns.
function makePattern(context, kind, fill, strength = 0.75) {
  const size = Math.round(8 * devicePixelRatio);
  const tile = el("canvas", { width: size, height: size });
  const pen = tile.getContext("2d");
  pen.fillStyle = fill;
  pen.fillRect(0, 0, size, size);
  pen.globalAlpha = strength;
  pen.strokeStyle = colour("paper");
  pen.fillStyle = colour("paper");
  pen.lineWidth = size / 6;
  pen.beginPath();
  if (kind === "rising" || kind === "cross") {
    for (const shift of [-size, 0, size]) pen.moveTo(shift, size), pen.lineTo(shift + size, 0);
  }
  if (kind === "falling" || kind === "cross") {
    for (const shift of [-size, 0, size]) pen.moveTo(shift, 0), pen.lineTo(shift + size, size);
  }
  if (kind === "level") pen.moveTo(0, size / 2), pen.lineTo(size, size / 2);
  if (kind === "upright") pen.moveTo(size / 2, 0), pen.lineTo(size / 2, size);
  pen.stroke();
  if (kind === "dots") {
    pen.beginPath();
    pen.arc(size / 2, size / 2, size / 6, 0, 7);
    pen.fill();
  }
  return context.createPattern(tile, "repeat");
}

// A legend: a swatch in the same colour and pattern as in the chart, and a name.
function makeLegend(entries) {
  return el(
    "ul",
    { className: "legend" },
    ...entries.map(({ name, paint }) => {
      const swatch = el("canvas", { width: 28, height: 14 });
      const draw = () => {
        const pen = swatch.getContext("2d");
        pen.clearRect(0, 0, 28, 14);
        paint(pen, 28, 14);
      };
      draw();
      redraws.add(draw);
      return el("li", {}, swatch, el("span", { textContent: name }));
    }),
  );
}
