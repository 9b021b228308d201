// Selecting tasks, and acting on all of them.

import { ask, capital, confirm } from "./acts.js";

const REASONED = new Set(["cancel", "pause"]);
/** The states in which an act makes sense are the API's default. */
const UNENDED = "";

export function startSelection() {
  const acts = document.getElementById("acts");
  if (!acts) return;
  const matching = document.getElementById("select-matching");
  const boxes = () => [...document.querySelectorAll("input[name=task]")];
  const chosen = () => boxes().filter((box) => box.checked).map((box) => box.value);

  const update = () => {
    const count = chosen().length;
    const isAll = matching?.checked;
    document.getElementById("selected").textContent = isAll ? "all that match" : count ? `${count} selected` : "none selected";
    for (const button of acts.querySelectorAll("[data-bulk]")) button.disabled = !count && !isAll;
    const all = document.getElementById("select-all");
    if (all) {
      all.checked = count > 0 && count === boxes().length;
      all.indeterminate = count > 0 && !all.checked;
    }
  };

  document.addEventListener("change", ({ target }) => {
    if (target.id === "select-all") boxes().forEach((box) => (box.checked = target.checked));
    if (target.id === "select-all" || target.id === "select-matching" || target.name === "task") update();
  });
  document.addEventListener("tenure:replaced", update);
  acts.addEventListener("click", async ({ target }) => {
    const verb = target.dataset?.bulk;
    if (!verb) return;
    const selection = matching?.checked ? { where: where(acts) } : { tasks: chosen() };
    let count = selection.tasks?.length;
    if (selection.where) {
      try {
        count = (await ask("POST", `/v1/bulk/${verb}`, { ...selection, dry_run: true })).matched;
      } catch (error) {
        document.dispatchEvent(new CustomEvent("tenure:say", { detail: { level: "bad", title: error.message } }));
        return;
      }
    }
    confirm({
      title: `${capital(verb)} ${count} ${count === 1 ? "task" : "tasks"}?`,
      text: selection.where ? "All tasks that match the filter and for which this makes sense." : "The tasks that are selected on this page.",
      verb,
      hasReason: REASONED.has(verb),
      run: async (reason) => {
        const done = await ask("POST", `/v1/bulk/${verb}`, { ...selection, ...(REASONED.has(verb) && reason ? { reason } : {}) });
        boxes().forEach((box) => (box.checked = false));
        if (matching) matching.checked = false;
        update();
        const refused = done.refused ? `, ${done.refused} refused: ${done.problems[0]?.problem.detail}` : "";
        return `${capital(verb)}: ${done.done} of ${done.matched} accepted${refused}`;
      },
    });
  });
  update();
}

function where(acts) {
  const { whereState, whereQueue, whereTag, whereWorker, whereParent } = acts.dataset;
  const wanted = { queue: whereQueue, tag: whereTag, worker: whereWorker, parent: whereParent };
  const filter = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
  if (whereState !== UNENDED && whereState !== "all") filter.state = [whereState];
  return filter;
}
