// Shows the document: a heading for each part, and its sections. A run under way sends the document again.
"use strict";

function showSection(section, group) {
  const body = DRAWERS[section.kind](section, group);
  const note = el("p", { className: "note", textContent: section.note ?? "" });
  const heading = section.folded || section.kind === "verdict" ? [] : [el("h3", { textContent: section.title }), ...(section.note ? [note] : [])];
  const element = el("section", { className: `is-${section.kind.replace(" ", "-")} ${section.kind === "verdict" ? section.tone ?? "" : ""}`.trim() }, ...heading, body);
  element.start = body.start;
  element.update = (next) => {
    if (next.kind !== section.kind || !body.update?.(next)) return false;
    note.textContent = next.note ?? "";
    section = next;
    return true;
  };
  return element;
}

function showPart(part, index) {
  const sections = part.sections.map((section) => showSection(section, `part ${index}`));
  const note = part.note ? [el("p", { className: "note", textContent: part.note })] : [];
  const heading = el("h2", { className: index ? "" : "unseen", textContent: part.title }); // the page's title is above it
  return el("article", { id: `part-${index}` }, heading, ...note, ...sections);
}

function startCharts(root) {
  for (const section of root.querySelectorAll("section")) section.start?.();
}

function showPage(page) {
  document.title = page.title;
  const links = page.parts.map((part, index) => el("a", { href: `#part-${index}`, textContent: part.title }));
  document.getElementById("head").replaceChildren(
    el("h1", { textContent: page.title }),
    ...(page.note ? [el("p", { className: "note", textContent: page.note })] : []),
    el("nav", { "aria-label": "Parts" }, ...links),
  );
  const main = document.getElementById("main");
  main.replaceChildren(...page.parts.map(showPart));
  startCharts(main);
  document.getElementById("foot").textContent = `Made by cfetch ${page.version}. Charts: uPlot by Leon Sorokin, MIT licence.`;
}

// Replaces what has changed. A chart takes new data and keeps its zoom; folded tables stay as they were opened.
function updatePage(before, page) {
  const fits = before && page.parts.length === before.parts.length
    && page.parts.every((part, index) => part.sections.length === before.parts[index].sections.length);
  if (!fits) return showPage(page);
  page.parts.forEach((part, index) => {
    const sections = document.querySelectorAll(`#part-${index} > section`);
    part.sections.forEach((section, number) => {
      const old = sections[number];
      if (old.update(section)) return;
      const isOpen = old.querySelector("details")?.open;
      const element = showSection(section, `part ${index}`);
      if (isOpen) element.querySelector("details").open = true;
      old.replaceWith(element);
      element.start?.();
    });
  });
  return undefined;
}

const recorded = JSON.parse(document.getElementById("document").textContent);
if (recorded) showPage(recorded);
