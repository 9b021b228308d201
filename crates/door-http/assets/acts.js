// Acts: a dialog asks before each, the API does it, a notice says how it went.

import { here } from "./namespace.js";

/**
 * Asks, then acts. `plan` has a title, a text, the word on the button, whether a reason is asked for, and `run`, which
 * gets the reason and returns what to say.
 */
export function confirm(plan) {
  const dialog = document.getElementById("confirm");
  const part = (name) => document.getElementById(`confirm-${name}`);
  part("title").textContent = plan.title;
  part("text").textContent = plan.text;
  part("do").textContent = plan.verb;
  part("do").classList.toggle("danger", plan.verb === "cancel");
  part("do").disabled = false;
  part("reason").value = "";
  part("reason-field").hidden = !plan.hasReason;
  part("problem").hidden = true;
  part("back").onclick = () => dialog.close();
  dialog.querySelector("form").onsubmit = async (event) => {
    event.preventDefault();
    part("do").disabled = true;
    try {
      const said = await plan.run(part("reason").value.trim());
      dialog.close();
      say({ level: "good", title: said });
      document.dispatchEvent(new CustomEvent("tenure:acted"));
    } catch (error) {
      part("problem").textContent = error.message;
      part("problem").hidden = false;
      part("do").disabled = false;
    }
  };
  dialog.showModal();
  (plan.hasReason ? part("reason") : part("do")).focus();
}

/** Asks the API, in the namespace of the page. A problem becomes an error with its sentence. */
export async function ask(method, path, body) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  const answer = await fetch(here(path), { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 204) return null;
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(value.detail ? `${value.detail} (${value.action})` : `HTTP ${answer.status}`);
  return value;
}

export function say(notice) {
  document.dispatchEvent(new CustomEvent("tenure:say", { detail: notice }));
}

/** Buttons with `data-act` act on the thing that `data-path` names; forms with `data-put` set something. */
export function startActs() {
  document.getElementById("log-out")?.addEventListener("click", async () => {
    await ask("POST", "/v1/logout");
    location.href = "/";
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-act]");
    if (!button) return;
    const { act, path, what, method = "POST" } = button.dataset;
    const hasReason = button.dataset.reason === "true";
    const isValue = button.dataset.value;
    confirm({
      title: `${capital(act)} ${what}?`,
      text: button.dataset.text ?? "",
      verb: act,
      hasReason,
      run: async (reason) => {
        const body = isValue ? JSON.parse(isValue) : hasReason && reason ? { reason } : undefined;
        await ask(method, path, body);
        return `${capital(act)}: accepted for ${what}`;
      },
    });
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.("form[data-submit]");
    if (!form) return;
    event.preventDefault();
    submitTask(form);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.("form[data-put]");
    if (!form) return;
    event.preventDefault();
    const body = {};
    for (const field of form.querySelectorAll("input[name]")) {
      if (field.value !== "") body[field.name] = Number(field.value) * Number(field.dataset.times ?? 1);
    }
    const isEmpty = Object.keys(body).length === 0;
    confirm({
      title: form.dataset.title,
      text: isEmpty ? "The fields are empty: this removes the setting." : "",
      verb: isEmpty ? "remove" : "set",
      hasReason: false,
      run: async () => {
        const path = form.dataset.put.replace("{tag}", encodeURIComponent(form.querySelector("[data-name]")?.value ?? ""));
        await ask(isEmpty ? "DELETE" : "PUT", path, isEmpty ? undefined : body);
        form.reset();
        return "Saved";
      },
    });
  });
}

/** Submits the task that a form describes. The form says what is wrong with it. */
async function submitTask(form) {
  const { queue, name, kind, content } = Object.fromEntries(new FormData(form));
  const problem = form.querySelector(".problem");
  const button = form.querySelector("button[type=submit]");
  problem.hidden = true;
  button.disabled = true;
  const body = kind === "command" ? { command: ["sh", "-c", content] } : content;
  try {
    const accepted = await ask("POST", "/v1/tasks", { queue, body, ...(name ? { name } : {}) });
    const title = accepted.known ? `Task ${name} is known already` : `Submitted to ${queue}`;
    const path = `/tasks/${accepted.task}`;
    say({ level: "good", title, text: accepted.unserved?.message, path });
    // The notice fades, and the list may show other tasks.
    const submitted = form.querySelector(".submitted");
    const link = submitted.querySelector("a");
    link.href = path;
    link.textContent = accepted.known ? title : `${title}: ${name || accepted.task.slice(-8)}`;
    submitted.hidden = false;
    form.querySelector("#submit-name").value = "";
    form.querySelector("#submit-content").value = "";
    document.dispatchEvent(new CustomEvent("tenure:acted"));
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  } finally {
    button.disabled = false;
  }
}

export function capital(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
