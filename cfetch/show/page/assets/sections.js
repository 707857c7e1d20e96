// One function for each kind of section: it takes the section and returns the element that shows it.
"use strict";

const LAYERS = [
  ["layer1", null], ["layer2", "rising"], ["layer3", "dots"], ["layer4", "level"],
  ["layer5", "falling"], ["layer6", "upright"], ["layer7", "cross"],
];
const FIRST_ROWS = 12; // of a table; the others on demand, so that no table scrolls within the page
const FEW_MORE = 3; // rows for which a button would save nothing
const CURVES = [["layer1", []], ["cut", [8, 4]], ["layer3", [2, 3]], ["layer4", [10, 3, 2, 3]], ["layer5", [1, 2]], ["layer6", [14, 4]]];

function drawVerdict({ text, lines = [] }) {
  return el("div", {}, el("p", { className: "verdict", textContent: text }),
    ...lines.map((line) => el("p", { className: "note", textContent: line })));
}

function drawCards({ cards }) {
  const show = (card) => el("dl", { className: card.minor ? "minor" : "card" },
    el("dt", { textContent: card.label }),
    el("dd", { className: `value ${card.tone ?? ""}`, textContent: card.value }),
    ...(card.note ? [el("dd", { className: "note", textContent: card.note })] : []));
  const minor = cards.filter((card) => card.minor).map(show);
  return el("div", {}, el("div", { className: "cards" }, ...cards.filter((card) => !card.minor).map(show)),
    ...(minor.length ? [el("div", { className: "minors" }, ...minor)] : []));
}

function drawLines({ lines }) {
  return el("div", {}, ...lines.map((line) => el("p", { textContent: line })));
}

// On one line: the beginning of the directories gives way, as their end and the name tell files apart.
function drawPath(text) {
  const end = text.lastIndexOf("/") + 1;
  const folder = el("span", { className: "folder" }, el("bdi", { dir: "ltr", textContent: text.slice(0, end) }));
  return el("span", { className: "path", title: text }, ...(end ? [folder] : []), el("bdi", { className: "name", dir: "ltr", textContent: text.slice(end) }));
}

function drawCell(cell, tag) {
  if (typeof cell === "string") return el(tag, { textContent: cell });
  const element = el(tag, { className: cell.tone ?? "" }, cell.path ? drawPath(cell.text) : el("span", { textContent: cell.text }));
  if (cell.bar !== undefined) {
    const bar = el("i", { className: "bar" });
    bar.style.width = `${Math.max(0.5, 100 * cell.bar)}%`;
    element.append(el("div", { className: "track" }, bar));
  }
  if (cell.line?.length) {
    const points = cell.line.map((value, index) => `${(100 * index) / Math.max(1, cell.line.length - 1)},${20 - 18 * value}`);
    const picture = svg("svg", { viewBox: "0 0 100 20", preserveAspectRatio: "none", class: "spark", "aria-hidden": "true" });
    picture.append(svg("polyline", { points: points.join(" ") }));
    element.append(picture);
  }
  return element;
}

// A command to copy: it is selected too, so that it can be copied where a page may not do so.
function drawCommand(text) {
  const code = el("code", { textContent: text });
  const button = el("button", { type: "button", textContent: "Copy" });
  button.addEventListener("click", () => {
    getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  });
  return el("div", { className: "command" }, code, button);
}

function drawTable({ title, columns, rows, folded, command, small }) {
  const isRight = columns.map((name) => name.startsWith(">"));
  const head = el("tr", {}, ...columns.map((name, index) =>
    el("th", { scope: "col", className: isRight[index] ? "right" : "", textContent: name.replace(/^>/, "") })));
  const body = rows.map((row) => el("tr", {}, ...row.map((cell, index) => {
    const element = drawCell(cell, index ? "td" : "th");
    if (!index) element.scope = "row";
    else element.dataset.label = columns[index].replace(/^>/, "");
    if (isRight[index]) element.classList.add("right");
    return element;
  })));
  const first = body.length <= FIRST_ROWS + FEW_MORE ? body.length : FIRST_ROWS;
  const table = el("table", { className: small ? "" : "stacks" }, el("thead", {}, head), el("tbody", {}, ...body.slice(0, first)));
  const scrolled = el("div", { className: "scrolled", tabIndex: 0, role: "region", "aria-label": title }, table);
  const more = body.slice(first);
  const element = el("div", {}, ...(command ? [drawCommand(command)] : []), scrolled);
  if (more.length) {
    const button = el("button", { type: "button", className: "more", textContent: `Show all ${body.length}` });
    button.addEventListener("click", () => {
      table.tBodies[0].append(...more);
      button.remove();
    });
    element.append(button);
  }
  if (!folded) return element;
  return el("details", {}, el("summary", { textContent: `${title} (${rows.length})` }), element);
}

// Cumulative rates, so that each layer stands on the ones before it; the highest is drawn first.
function stack(section) {
  const times = section.active.map((_, bin) => bin * section.width_s);
  const sums = new Array(times.length).fill(0);
  const stacked = section.layers.map((layer) => layer.rates_bps.map((rate, bin) => (sums[bin] += rate)));
  return [times, ...stacked.reverse(), section.active];
}

function drawThroughput(section, group) {
  const host = el("div", { className: "chart", tabIndex: 0, role: "img", "aria-label": `${section.title}. ${section.summary}` });
  const story = el("div", { className: "story", role: "status" });
  const styleOf = (layer) => LAYERS[layer % LAYERS.length];
  const layersDown = () => section.layers.map((_, index) => section.layers.length - 1 - index);

  const paintMoments = (chart) => {
    const { left, top, width } = chart.bbox;
    chart.ctx.save();
    chart.ctx.fillStyle = colour("ink");
    for (const { t_s } of section.moments) {
      const x = chart.valToPos(t_s, "x", true);
      if (x < left || x > left + width) continue;
      const size = 5 * devicePixelRatio;
      chart.ctx.beginPath();
      chart.ctx.moveTo(x - size, top - 2 * size);
      chart.ctx.lineTo(x + size, top - 2 * size);
      chart.ctx.lineTo(x, top);
      chart.ctx.fill();
    }
    chart.ctx.restore();
  };

  const tell = (chart) => {
    const bin = chart.cursor.idx;
    if (bin === null || bin === undefined) {
      story.replaceChildren(el("div", { textContent: section.summary }));
      return;
    }
    const time_s = section.active.length ? (bin + 0.5) * section.width_s : 0;
    const rates = section.layers.map((layer) => layer.rates_bps[bin]);
    const total = rates.reduce((sum, rate) => sum + rate, 0);
    const named = section.layers.map((layer, index) => `${layer.name} ${formatSize(rates[index])}/s`);
    const near_s = 8 / chart.over.clientWidth * (chart.scales.x.max - chart.scales.x.min);
    const moments = section.moments.filter((moment) => Math.abs(moment.t_s - time_s) <= near_s).slice(0, 4);
    story.replaceChildren(
      el("b", { textContent: `${formatTime(time_s)}: ${formatSize(total)}/s, ${section.active[bin].toFixed(1)} attempts at a time` }),
      el("div", { textContent: section.layers.length > 1 ? named.join(" · ") : named.join("") }),
      ...moments.map((moment) => el("div", { textContent: `▼ ${formatTime(moment.t_s)} ${moment.text}` })),
    );
  };

  let chart = null;
  const create = () => {
    chart = makeChart(
      host,
      {
        height: 240,
        padding: [18, 0, 0, 0],
        scales: {
          x: { time: false, range: (_, min, max) => [min ?? 0, max ?? section.end_s] },
          y: { range: (_, __, max) => [0, (max || 1) * 1.08] },
          places: { range: (_, __, max) => [0, Math.max(1, max * 1.3)] },
        },
        axes: [
          timeAxis(),
          makeAxis({ size: LEFT, incrs: POWERS_OF_TWO, values: (_, splits) => splits.map((rate) => `${formatSize(rate)}/s`) }),
          makeAxis({ scale: "places", side: 1, size: RIGHT, grid: { show: false }, values: (_, splits) => splits.map((places) => (Number.isInteger(places) ? places : null)) }),
        ],
        series: [
          {},
          ...layersDown().map((layer) => ({
            fill: (self) => {
              const [name, pattern] = styleOf(layer);
              return pattern ? makePattern(self.ctx, pattern, colour(name), 0.3) : colour(name);
            },
            stroke: () => colour(styleOf(layer)[0]),
            width: 1,
            paths: uPlot.paths.stepped({ align: 1 }),
            points: { show: false },
          })),
          { scale: "places", stroke: () => colour("ink"), width: 1.5, dash: [6, 4], points: { show: false } },
        ],
        hooks: {
          draw: [paintMoments],
          setCursor: [tell],
          setScale: [(self, key) => key === "x" && zoomAll(group, [self.scales.x.min, self.scales.x.max])],
        },
      },
      stack(section),
      group,
    );
    joinZoom(chart, group, () => [0, section.end_s]);
    tell(chart);
  };
  host.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const bin = Math.min(section.active.length - 1, Math.max(0, (chart.cursor.idx ?? -1) + step));
      chart.setCursor({ left: chart.valToPos(chart.data[0][bin], "x"), top: 10 });
    }
    if (step || zoomByKey(chart, group, event.key, section.end_s)) event.preventDefault();
  });

  const legend = makeLegend([
    ...section.layers.map((layer, index) => ({
      name: layer.name,
      paint: (pen, wide, high) => {
        const [name, pattern] = styleOf(index);
        paintBar(pen, { colour: name, pattern, strength: 0.3 }, 0, 0, wide, high);
      },
    })),
    {
      name: "attempts at a time",
      paint: (pen, wide, high) => {
        pen.strokeStyle = colour("ink");
        pen.setLineDash([6, 4]);
        pen.beginPath();
        pen.moveTo(0, high / 2);
        pen.lineTo(wide, high / 2);
        pen.stroke();
      },
    },
  ]);
  const moments = section.moments.map((moment) => [formatTime(moment.t_s), moment.text]);
  const events = moments.length ? [drawTable({ title: "Events", columns: [">after", "event"], rows: moments, folded: true })] : [];
  const element = el("div", {}, legend, host, story, ...events);
  element.start = create;
  element.update = (next) => {
    if (next.layers.length !== section.layers.length || next.moments.length !== section.moments.length) return false;
    section = next;
    chart.setData(stack(section), false);
    chart.redraw(true, true);
    return true;
  };
  return element;
}

// The lower half of the files is linear and as high as a decade. Above it, 90, 99 and 99.9 % are equally far apart:
// a reader looks for the usual time, and for the slowest files.
const HALF = Math.log10(2);
const NINES = {
  distr: 100,
  fwd: (share) => (share <= 0.5 ? 2 * share : 1 - Math.log10(1 - Math.min(share, 0.9999999)) - HALF),
  bwd: (place) => (place <= 1 ? place / 2 : 1 - 10 ** (1 - HALF - place)),
  range: (_, __, max) => [0, 1 - (1 - Math.min(max ?? 0.99, 0.9999999)) / 1.5],
};
const SHARES = [0, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.99999];

// Times for a logarithmic axis: as many of each decade as there is room for; even steps where it spans less than one.
function chooseTimes(min, max, most) {
  const steps = [1, 2, 5].flatMap((digit) => Array.from({ length: 14 }, (_, power) => digit * 10 ** (power - 5)));
  if (max / min > 8) {
    for (const digits of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      const times = Array.from({ length: 14 }, (_, power) => digits.map((digit) => +`${digit}e${power - 5}`)).flat()
        .filter((time_s) => time_s >= min && time_s <= max);
      if (times.length <= most) return times;
      if (digits.length === 1) return times.filter((_, index) => index % Math.ceil(times.length / most) === 0);
    }
  }
  const step = steps.sort((a, b) => a - b).find((each) => (max - min) / each <= most) ?? max - min;
  const first = Math.ceil(min / step);
  return Array.from({ length: Math.floor(max / step) - first + 1 }, (_, index) => +((first + index) * step).toPrecision(6));
}

function drawFileTimes(section) {
  const host = el("div", { className: "chart", tabIndex: 0, role: "img", "aria-label": `${section.title}. ${section.summary}` });
  const story = el("div", { className: "story", role: "status" });
  const shareAt = (curve, time_s) => {
    const index = findLast(curve.times_s, time_s);
    return index < 0 ? 0 : index === curve.times_s.length - 1 ? 1 : curve.shares[index];
  };
  const tell = (chart) => {
    if (!(chart.cursor.left >= 0)) {
      story.replaceChildren(...section.summary.split("; ").map((line) => el("div", { textContent: line })));
      return;
    }
    const time_s = chart.posToVal(chart.cursor.left, "x");
    story.replaceChildren(
      el("b", { textContent: `within ${formatTime(time_s)}` }),
      ...section.curves.map((curve) => el("div", { textContent: `${curve.name}: ${formatShare(shareAt(curve, time_s))} of the files` })),
    );
  };
  // From the fastest tenth on: a few files that took no time would fill half of a logarithmic axis.
  const first_s = () => Math.max(1e-4, Math.min(...section.curves.map(({ times_s, shares }) => times_s[Math.max(0, shares.findIndex((share) => share >= 0.1))])));
  const data = () => uPlot.join(section.curves.map((curve) => [
    curve.times_s.map((time_s) => Math.max(time_s, 1e-4)),
    curve.shares,
  ]).map(([times, shares]) => {
    const last = new Map(times.map((time_s, index) => [time_s, shares[index]])); // of equal times the highest share
    return [[...last.keys()], [...last.values()]];
  }));
  let chart = null;
  const create = () => {
    chart = makeChart(
      host,
      {
        height: 280,
        scales: { x: { time: false, distr: 3, range: (_, min, max) => [Math.max(min || 0, first_s()) / 1.15, (max || 1) * 1.15] }, y: NINES },
        padding: [14, RIGHT, 0, 0],
        axes: [
          makeAxis({
            size: LOW,
            filter: (_, splits) => splits,
            splits: (self, __, min, max) => chooseTimes(min, max, Math.max(4, Math.floor((self.bbox?.width || 600) / devicePixelRatio / 52))),
            values: (_, splits) => splits.map(formatTime),
          }),
          makeAxis({ size: LEFT, filter: (_, splits) => splits, splits: (_, __, ___, max) => SHARES.filter((share) => share <= max && (share !== 0.75 || max < 0.9995)), values: (_, splits) => splits.map(formatShare) }),
        ],
        series: [{}, ...section.curves.map((_, index) => {
          const [name, dash] = CURVES[index % CURVES.length];
          return { stroke: () => colour(name), dash, width: 2, spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } };
        })],
        cursor: { drag: { x: true, y: false } },
        hooks: { setCursor: [tell] },
      },
      data(),
    );
    tell(chart);
  };
  host.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 8, ArrowLeft: -8 }[event.key];
    if (!step) return;
    event.preventDefault();
    const left = Math.min(chart.over.clientWidth, Math.max(0, (chart.cursor.left ?? 0) + step));
    chart.setCursor({ left, top: 10 });
  });
  const legend = makeLegend(section.curves.map((curve, index) => ({
    name: curve.name,
    paint: (pen, wide, high) => {
      const [name, dash] = CURVES[index % CURVES.length];
      pen.strokeStyle = colour(name);
      pen.lineWidth = 2.5;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(0, high / 2);
      pen.lineTo(wide, high / 2);
      pen.stroke();
    },
  })));
  const element = el("div", {}, legend, host, story);
  element.start = create;
  element.update = (next) => {
    if (next.curves.length !== section.curves.length) return false;
    section = next;
    chart.setData(data());
    tell(chart);
    return true;
  };
  return element;
}

// Ratios on a logarithmic axis: twice as long is as far from the mark as half as long.
function drawDots({ rows, mark, mark_name, series = [] }) {
  const values = rows.flatMap(({ dots }) => dots.flatMap(({ value, low, high }) => [low ?? value, high ?? value]));
  const least = Math.max(1e-3, Math.min(mark, ...values)) / 1.08;
  const most = Math.max(mark, ...values) * 1.08;
  const share = (value) => (100 * Math.log(Math.max(value, least) / least)) / Math.log(most / least);
  const place = (value) => `${share(value)}%`;
  const ticks = chooseTimes(least, most, 6);
  const at = (className, value, more = {}) => {
    const element = el("i", { className, ...more });
    element.style.left = place(value);
    return element;
  };
  const drawTrack = (dots, tone) => {
    const track = el("div", { className: "dots-track" }, at("dots-mark", mark));
    for (const { value, low, high, text, series: kind = 0 } of dots) {
      if (low !== undefined) {
        const span = at(`dots-span kind-${kind}`, low);
        span.style.width = `${share(high ?? value) - share(low)}%`;
        track.append(span);
      }
      track.append(at(`dot kind-${kind} ${tone ?? ""}`, value, { title: [series[kind], text ?? String(value)].filter(Boolean).join(" ") }));
    }
    return track;
  };
  const lines = rows.map(({ name, dots, tone }) => {
    const numbers = dots.map(({ text, value }) => text ?? value.toFixed(2));
    return el("tr", {}, el("th", { scope: "row", textContent: name }), el("td", { className: "wide" }, drawTrack(dots, tone)),
      ...(series.length ? series.map((_, kind) => numbers[dots.findIndex((dot) => (dot.series ?? 0) === kind)] ?? "") : [numbers[0] ?? ""])
        .map((text) => el("td", { className: "right", textContent: text })));
  });
  const axis = el("div", { className: "dots-axis" }, ...ticks.map((tick) => at("tick", tick, { textContent: String(+tick.toPrecision(3)) })));
  // a cell for the numbers, else the axis of a narrow page is wider than its tracks
  const head = el("tr", {}, el("td"), el("td", { className: "wide" }, axis), ...(series.length ? series.map((name) => el("th", { className: "right", scope: "col", textContent: name })) : [el("td", { className: "right" })]));
  const legend = series.map((name, kind) => el("li", {}, el("i", { className: `dot still kind-${kind}` }), el("span", { textContent: name })));
  return el("div", {},
    el("ul", { className: "legend" }, ...legend, el("li", {}, el("i", { className: "dots-mark still" }), el("span", { textContent: mark_name }))),
    el("table", { className: "dots" }, el("thead", {}, head), el("tbody", {}, ...lines)));
}

const DRAWERS = {
  verdict: drawVerdict,
  cards: drawCards,
  lines: drawLines,
  table: drawTable,
  timeline: drawTimeline,
  throughput: drawThroughput,
  "file times": drawFileTimes,
  dots: drawDots,
};
