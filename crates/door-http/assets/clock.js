// Keeps ages up to date, and shows times of day in the time zone of the viewer.

let skew = 0;

export function startClock() {
  const now = Number(document.documentElement.dataset.now);
  if (now) skew = now - Date.now();
  tick();
  setInterval(tick, 1000);
  document.addEventListener("tenure:replaced", tick);
}

function tick() {
  const now = Date.now() + skew;
  for (const time of document.querySelectorAll("time[data-age]")) {
    const millis = now - Date.parse(time.dateTime);
    time.textContent = millis < 0 ? `in ${span(-millis)}` : millis < 1000 ? "now" : `${span(millis)} ago`;
  }
  for (const time of document.querySelectorAll("time[data-since]")) {
    time.textContent = span(Math.max(0, now - Date.parse(time.dateTime)));
  }
  for (const time of document.querySelectorAll("time[data-clock]:not([data-local])")) {
    localise(time, new Date(now));
  }
}

function localise(time, now) {
  const at = new Date(time.dateTime);
  const clock = at.toLocaleTimeString([], { hour12: false });
  const isToday = at.toDateString() === now.toDateString();
  time.textContent = isToday ? clock : `${at.toLocaleDateString([], { month: "short", day: "numeric" })} ${clock}`;
  time.dataset.local = "";
}

/** The same words as the server's. */
function span(millis) {
  const seconds = Math.floor(millis / 1000);
  if (seconds < 1) return `${Math.floor(millis)} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const minutes = Math.floor(seconds / 60) % 60;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h${minutes ? ` ${minutes} min` : ""}`;
  return `${Math.floor(seconds / 86400)} d`;
}
