// Elements and texts. Everything that comes from the document is set as text, never as markup.
"use strict";

function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else if (name === "textContent") element.append(...keepOptions(value));
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

// A line may break after a hyphen, but not within the name of an option.
function keepOptions(text) {
  return `${text ?? ""}`.split(/((?<![\w-])--[a-z][a-z-]*)/).filter((piece) => piece)
    .map((piece) => piece.startsWith("--") ? el("span", { className: "option" }, piece) : piece);
}

function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// A colour of page.css, as it is in the present scheme.
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function formatSize(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(bytes) >= 1000 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${bytes.toFixed(unit && bytes < 99.95 ? 1 : 0)} ${units[unit]}`;
}

function formatTime(seconds) {
  if (seconds === 0) return "0";
  if (seconds < 0.9995) return `${+(seconds * 1000).toPrecision(3)}ms`;
  if (seconds < 60) return `${+seconds.toPrecision(3)}s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(whole / 3600)}h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
}

function formatShare(share) {
  return `${+(100 * share).toFixed(share > 0.985 && share < 1 ? 3 : 0)} %`;
}

// The index of the last value that is not above `wanted`; -1 if there is none. `values` are sorted.
function findLast(values, wanted) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
