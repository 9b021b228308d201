// Notices of crashes and lost workers, on every page, and outside of it if the person allows it.

import { to } from "./namespace.js";

const SHOWN_MAX = 4;
const FADES_AFTER = { good: 8000, warn: 20000 };

export function startNotices(live) {
  const place = document.getElementById("notices");
  if (!place) return;
  const button = document.getElementById("allow-notifications");
  const canNotify = "Notification" in window && window.isSecureContext;
  if (button && canNotify && Notification.permission === "default") {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await Notification.requestPermission();
      button.hidden = true;
    });
  }
  live.addEventListener("notice", ({ detail }) => {
    show(place, detail);
    if (canNotify && Notification.permission === "granted" && document.hidden && detail.level !== "good") {
      // The tag lets several tabs show one notification.
      const notification = new Notification(detail.title, { body: detail.text, tag: `tenure-${detail.seq}` });
      notification.onclick = () => {
        window.focus();
        location.href = to(detail.path);
      };
    }
  });
  document.addEventListener("tenure:say", ({ detail }) => show(place, detail));
}

function show(place, { level, title, text, path, at }) {
  if (place.children.length >= SHOWN_MAX) {
    // The first bad one is the cause of those that follow.
    const [, second] = place.querySelectorAll(".notice");
    const least = place.querySelector("[data-level=good]") ?? place.querySelector("[data-level=warn]") ?? second;
    least.remove();
  }
  const notice = document.createElement("article");
  notice.className = "notice";
  notice.dataset.level = level;
  const heading = document.createElement("strong");
  if (path) {
    const link = document.createElement("a");
    link.href = path;
    link.textContent = title;
    heading.append(link);
  } else {
    heading.textContent = title;
  }
  const body = document.createElement("p");
  body.textContent = text ?? "";
  const close = document.createElement("button");
  close.type = "button";
  close.className = "close";
  close.setAttribute("aria-label", `Close: ${title}`);
  close.textContent = "×";
  close.addEventListener("click", () => notice.remove());
  notice.append(heading, close, body);
  if (at) {
    const time = document.createElement("time");
    time.dateTime = at;
    time.dataset.age = "";
    time.textContent = "now";
    notice.append(time);
  }
  place.append(notice);
  if (FADES_AFTER[level]) setTimeout(() => notice.remove(), FADES_AFTER[level]);
}
