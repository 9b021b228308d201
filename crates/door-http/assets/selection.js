// Selecting tasks, and acting on all of them.

import { ask, capital, confirm, say } from "./acts.js";

const REASONED = new Set(["cancel", "pause"]);

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
    const { states } = target.dataset;
    if (matching?.checked && !states) {
      say({ level: "warn", title: `${capital(verb)}: no task in this list is in a state for it` });
      return;
    }
    const selection = matching?.checked ? { where: where(acts, states) } : { tasks: chosen() };
    let count = selection.tasks?.length;
    if (selection.where) {
      try {
        count = (await ask("POST", `/v1/bulk/${verb}`, { ...selection, dry_run: true })).matched;
      } catch (error) {
        say({ level: "bad", title: error.message });
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

/** What the page shows, as far as the act makes sense for it. */
function where(acts, states) {
  const { whereQueue, whereTag, whereWorker, whereParent, wherePlain } = acts.dataset;
  const wanted = { queue: whereQueue, tag: whereTag, worker: whereWorker, parent: whereParent };
  const filter = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
  return { ...filter, state: states.split(","), ...(wherePlain ? { without_elements: true } : {}) };
}
