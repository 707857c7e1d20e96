// A run under way: its server sends live numbers each second, and the whole document every few seconds.
"use strict";

function followRun() {
  let shown = null;
  const line = el("p", { className: "live", role: "status" });
  const notes = el("ul", { className: "notes" });
  document.body.insertBefore(el("div", { className: "live-box" }, line, notes), document.getElementById("main"));
  line.textContent = "connecting …";
  const events = new EventSource(`events${location.search}`);
  let isOver = false;
  events.addEventListener("live", (event) => {
    const live = JSON.parse(event.data);
    isOver = live.state === "finished";
    line.textContent = live.text;
    notes.replaceChildren(...live.notes.map((note) => el("li", { textContent: note })));
  });
  events.addEventListener("page", (event) => {
    const page = JSON.parse(event.data);
    updatePage(shown, page);
    shown = page;
  });
  events.onerror = () => {
    if (!isOver) line.textContent = "no connection to the run: it has ended, or its machine cannot be reached";
    else events.close(); // nothing more will come, and the page stays
  };
}

if (!recorded) followRun();
