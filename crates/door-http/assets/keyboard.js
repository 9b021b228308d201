// Keys: / searches, j and k move through rows, Enter opens, x selects, n turns the page, g and a letter goes to a page, ? helps.

import { to } from "./namespace.js";

const PAGES = { o: "/", t: "/tasks", w: "/workers", q: "/queues", h: "/hooks", s: "/schedules", p: "/topics", e: "/events" };

export function startKeyboard() {
  let isGoing = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const { key } = event;
    if (isGoing) {
      isGoing = false;
      if (PAGES[key]) location.href = to(PAGES[key]);
      return;
    }
    const act = {
      "/": () => document.getElementById("search")?.focus(),
      j: () => move(1),
      k: () => move(-1),
      x: () => current()?.querySelector("input[type=checkbox]")?.click(),
      n: () => document.getElementById("next-page")?.click(),
      g: () => {
        isGoing = true;
        setTimeout(() => (isGoing = false), 1500);
      },
      "?": () => document.getElementById("help")?.showModal(),
      Enter: () => {
        const isControl = event.target.closest("a, button, input, summary, select");
        if (isControl || !current()) return false;
        location.href = to(current().dataset.href);
      },
    }[key];
    if (act && act() !== false) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest?.("tr[data-href]");
    if (!row || event.target.closest("a, button, input, label") || String(window.getSelection())) return;
    location.href = to(row.dataset.href);
  });
}

function isTyping(element) {
  return element.isContentEditable || /^(textarea|select)$/i.test(element.tagName)
    || (element.tagName === "INPUT" && element.type !== "checkbox");
}

function current() {
  return document.querySelector("main tr.current");
}

function move(by) {
  const rows = [...document.querySelectorAll("main tr[data-href]")];
  if (!rows.length) return;
  const at = rows.indexOf(current());
  rows[at]?.classList.remove("current");
  const row = rows[Math.min(rows.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  row.classList.add("current");
  row.scrollIntoView({ block: "nearest" });
  row.querySelector("a")?.focus({ preventScroll: true });
}
