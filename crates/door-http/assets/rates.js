// Rates: how fast a number grows, from one look at it to the next.

const seen = new Map();

export function startRates() {
  look();
  document.addEventListener("tenure:replaced", look);
}

function look() {
  const now = performance.now();
  for (const cell of document.querySelectorAll("[data-rate]")) {
    const key = cell.dataset.rate;
    if (!key) continue;
    const value = Number(cell.dataset.value);
    const before = seen.get(key);
    // A part that was not replaced has nothing new to say.
    if (before && now - before.at < 500) {
      cell.textContent = before.text;
      continue;
    }
    const rate = before ? Math.max(0, ((value - before.value) * 1000) / (now - before.at)) : 0;
    const text = before ? `${rate < 10 && rate > 0 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en")}/s` : "";
    seen.set(key, { value, at: now, text });
    cell.textContent = text;
  }
}
