// The live log of events. The stream has its own connection, because it carries every event.

import { follow } from "./stream.js";

const ROWS_MAX = 1000;

export function startEventLog() {
  const log = document.getElementById("event-log");
  if (!log) return;
  const pause = document.getElementById("pause-log");
  let held = [];

  const add = (rows) => {
    const template = document.createElement("template");
    template.innerHTML = rows; // rendered and escaped by the server
    log.prepend(template.content);
    while (log.children.length > ROWS_MAX) log.lastElementChild.remove();
    document.getElementById("no-events")?.remove();
    document.dispatchEvent(new CustomEvent("tenure:replaced"));
  };
  const isHeld = () => pause.getAttribute("aria-pressed") === "true";
  const rows = ({ html }) => {
    if (!html) return;
    if (!isHeld()) return add(html);
    held.push(html);
    held = held.slice(-ROWS_MAX);
    pause.textContent = `Continue (${held.length} new)`;
  };
  const address = (last) => {
    const stream = new URL(log.dataset.stream, location.href);
    if (last) stream.searchParams.set("from", Number(last) + 1);
    return stream;
  };
  follow({ address, on: { rows } });
  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!isHeld()));
    if (!isHeld()) {
      held.forEach(add);
      held = [];
    }
    pause.textContent = isHeld() ? "Continue" : "Pause";
  });
}
