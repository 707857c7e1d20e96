// The attempts of a run: a lane for each place, a bar for each attempt. The story of a bar stands below it.
"use strict";

const BAR_STYLES = {
  done: { colour: "done" },
  cut: { colour: "cut", pattern: "rising" },
  error: { colour: "error", pattern: "cross" },
  helper: { colour: "helper", pattern: "level" },
  "under way": { colour: "active", pattern: "dots" },
};
const IDLE_STORY = "Point at a bar, or move with the arrow keys; + and − zoom, Escape shows everything.";

function paintBar(context, style, x, y, width, height) {
  const fill = colour(style.colour);
  context.fillStyle = style.pattern && width > 3 && height > 3 ? makePattern(context, style.pattern, fill, style.strength) : fill;
  context.fillRect(x, y, width, height);
}

// The bars of each lane by start, so that the bar below the pointer is found at once.
function sortIntoLanes(section) {
  const lanes = Array.from({ length: section.lanes }, () => ({ bars: [], from_s: [] }));
  section.lane.forEach((lane, bar) => {
    lanes[lane].bars.push(bar);
    lanes[lane].from_s.push(section.from_s[bar]);
  });
  return lanes;
}

function tellBar(section, bar) {
  const outcome = section.outcomes[section.outcome[bar]];
  const span = `${formatTime(section.from_s[bar])} to ${formatTime(section.to_s[bar])}`;
  const story = section.stories[section.story[bar]];
  if (story) return [...story];
  if (section.files[bar] > 1) return [`${section.files[bar].toLocaleString("en")} attempts, ${outcome}`, span];
  return [`an attempt, ${outcome}`, span];
}

function drawTimeline(section, group) {
  let lanes = sortIntoLanes(section);
  let chosen = -1;
  const height = () => Math.min(560, Math.max(120, section.lanes * 14)) + 34;
  const story = el("div", { className: "story", role: "status" });
  const host = el("div", {
    className: "chart",
    tabIndex: 0,
    role: "application",
    "aria-label": `${section.title}. ${section.summary} ${IDLE_STORY}`,
  });

  const tell = (lines) => {
    story.replaceChildren(
      ...lines.map((line, index) => el(index || lines.length === 1 ? "div" : "b", { textContent: line })),
    );
  };
  const tellAll = () => story.replaceChildren(
    el("div", { textContent: section.summary }), el("div", { className: "dim", textContent: IDLE_STORY }));
  tellAll();

  const paint = (chart) => {
    const context = chart.ctx;
    const { left, top, width, height: high } = chart.bbox;
    const laneHigh = high / section.lanes;
    const gap = laneHigh >= 6 ? Math.max(1, laneHigh * 0.15) : 0;
    const paints = section.outcomes.map((name) => {
      const style = BAR_STYLES[name];
      const fill = colour(style.colour);
      return { fill, pattern: style.pattern ? makePattern(context, style.pattern, fill) : fill };
    });
    context.save();
    context.beginPath();
    context.rect(left, top, width, high);
    context.clip();
    const { min, max } = chart.scales.x;
    const scale = width / (max - min);
    for (let bar = 0; bar < section.from_s.length; bar += 1) {
      if (section.to_s[bar] < min || section.from_s[bar] > max) continue;
      const x = left + (section.from_s[bar] - min) * scale;
      const long = Math.max(1, (section.to_s[bar] - section.from_s[bar]) * scale - (section.files[bar] > 1 ? 0 : 1));
      const y = top + section.lane[bar] * laneHigh + gap / 2;
      const { fill, pattern } = paints[section.outcome[bar]];
      context.fillStyle = long > 5 && laneHigh > 4 ? pattern : fill;
      context.fillRect(x, y, long, Math.max(1, laneHigh - gap));
    }
    if (chosen >= 0) {
      context.strokeStyle = colour("ink");
      context.lineWidth = 2 * devicePixelRatio;
      const x = left + (section.from_s[chosen] - min) * scale;
      const long = Math.max(3, (section.to_s[chosen] - section.from_s[chosen]) * scale);
      context.strokeRect(x, top + section.lane[chosen] * laneHigh, long, laneHigh);
    }
    context.restore();
  };

  const choose = (chart, bar) => {
    if (bar === chosen) return;
    chosen = bar;
    if (bar < 0) tellAll();
    else tell(tellBar(section, bar));
    chart.redraw(false);
  };

  const findBar = (chart) => {
    const { left, top } = chart.cursor;
    if (left < 0 || top < 0) return -1;
    const time_s = chart.posToVal(left, "x");
    const slack_s = 3 / (chart.bbox.width / devicePixelRatio) * (chart.scales.x.max - chart.scales.x.min);
    const lane = lanes[Math.min(section.lanes - 1, Math.floor(chart.posToVal(top, "y")))];
    if (!lane) return -1;
    const index = findLast(lane.from_s, time_s + slack_s);
    return index >= 0 && section.to_s[lane.bars[index]] >= time_s - slack_s ? lane.bars[index] : -1;
  };

  let chart = null;
  const create = () => {
    chart = makeChart(
      host,
      {
        height: height(),
        padding: [6, RIGHT, 0, 0],
        scales: {
          x: { time: false, range: (_, min, max) => [min ?? 0, max ?? section.end_s] },
          y: { range: () => [0, section.lanes], dir: -1 },
        },
        axes: [
          timeAxis(),
          makeAxis({ size: LEFT, grid: { show: false }, values: (_, splits) => splits.map((lane) => (Number.isInteger(lane) ? lane : null)) }),
        ],
        series: [{}, { paths: () => null, points: { show: false } }],
        hooks: {
          draw: [paint],
          setCursor: [(self) => self.cursor.event?.type?.startsWith("mouse") && choose(self, findBar(self))],
          setScale: [(self, key) => key === "x" && zoomAll(group, [self.scales.x.min, self.scales.x.max])],
        },
      },
      [[0, section.end_s], [0, section.lanes]],
      group,
    );
    joinZoom(chart, group, () => [0, section.end_s]);
  };

  host.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) {
      if (zoomByKey(chart, group, event.key, section.end_s)) event.preventDefault();
      return;
    }
    event.preventDefault();
    const lane = chosen < 0 ? 0 : section.lane[chosen];
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
      const { bars } = lanes[lane];
      const position = chosen < 0 ? -1 : bars.indexOf(chosen);
      choose(chart, bars[Math.min(bars.length - 1, Math.max(0, position + step))]);
    } else {
      const { bars, from_s } = lanes[Math.min(section.lanes - 1, Math.max(0, chosen < 0 ? 0 : lane + step))];
      const time_s = chosen < 0 ? 0 : section.from_s[chosen];
      choose(chart, bars[Math.max(0, findLast(from_s, time_s))]);
    }
  });

  const legend = makeLegend(
    section.outcomes
      .filter((_, code) => section.outcome.includes(code))
      .map((name) => ({ name, paint: (pen, wide, high) => paintBar(pen, BAR_STYLES[name], 0, 0, wide, high) })),
  );
  const element = el("div", {}, legend, host, story);
  element.start = create;
  element.update = (next) => {
    if (next.lanes !== section.lanes) return false;
    const zoomed = chart.scales.x.min > 0 || chart.scales.x.max < section.end_s;
    section = next;
    lanes = sortIntoLanes(section);
    chosen = -1;
    chart.setData([[0, section.end_s], [0, section.lanes]], false);
    if (!zoomed) zoomAll(group, [0, section.end_s]);
    else chart.redraw(false);
    return true;
  };
  return element;
}
