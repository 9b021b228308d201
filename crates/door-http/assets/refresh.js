// Fetches the page again when something has happened, and replaces its live parts. Only the server makes HTML.

import { here } from "./namespace.js";

const INTERVAL = 1000;

export function startRefresh(live) {
  let seen = null;
  let isBusy = false;
  let isDue = false;

  const refresh = async () => {
    if (isBusy || document.hidden || isPaused()) {
      isDue = true;
      return;
    }
    isBusy = true;
    isDue = false;
    try {
      const address = here(location.href);
      // The page of a task has said where its events begin, so that the log is not searched again.
      const first = document.querySelector("[data-first]")?.dataset.first;
      if (first) address.searchParams.set("first", first);
      const answer = await fetch(address, { headers: { accept: "text/html" } });
      if (answer.ok) replace(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch {
      // The stream says whether the broker is there.
    } finally {
      setTimeout(() => {
        isBusy = false;
        if (isDue) refresh();
      }, INTERVAL);
    }
  };

  live.addEventListener("samples", ({ detail }) => {
    const last = detail.counts.last_event;
    // The first message with samples counts as news: something may have happened since the page was rendered.
    const isNew = last !== seen;
    seen = last;
    if (isNew || document.querySelector("[data-live=always]")) refresh();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && isDue) refresh();
  });
  document.addEventListener("tenure:acted", () => {
    isBusy = false;
    refresh();
  });
}

/** While a person chooses, rows stay where they are. */
function isPaused() {
  return document.querySelector("dialog[open], [data-live] select:focus, [data-live] input:not([type=checkbox]):focus");
}

function replace(page) {
  const shown = page.documentElement.dataset.now;
  if (shown) document.documentElement.dataset.now = shown;
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (!fresh || fresh.innerHTML === part.dataset.source) continue;
    part.dataset.source = fresh.innerHTML;
    const focus = part.contains(document.activeElement) ? pathTo(document.activeElement) : null;
    const checked = [...part.querySelectorAll("input[name=task]:checked")].map((box) => box.value);
    const current = part.querySelector("tr.current")?.dataset.href;
    const opened = [...part.querySelectorAll("details[open][id]")].map((details) => details.id);
    const scrolled = part.querySelector(".scroll")?.scrollLeft ?? 0;
    part.replaceChildren(...fresh.childNodes);
    for (const box of part.querySelectorAll("input[name=task]")) box.checked = checked.includes(box.value);
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    if (current) part.querySelector(`tr[data-href="${CSS.escape(current)}"]`)?.classList.add("current");
    if (scrolled) part.querySelector(".scroll").scrollLeft = scrolled;
    if (focus) document.querySelector(focus)?.focus({ preventScroll: true });
  }
  document.dispatchEvent(new CustomEvent("tenure:replaced"));
}

/** A selector that finds the same element in the fresh part. */
function pathTo(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  if (element.name === "task") return `input[name=task][value="${CSS.escape(element.value)}"]`;
  const href = element.getAttribute("href");
  return href ? `main a[href="${CSS.escape(href)}"]` : null;
}
