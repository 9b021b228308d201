// The stream that every page listens to. A browser opens few connections to one server, so of all open tabs one has
// the connection and passes on what comes; when it is closed, another one takes over.

import { follow } from "./stream.js";

const CHANNEL = "tenure-live";
const LAST = "tenure-last-event";
const NAMES = ["samples", "notice", "live", "gap"];

/** Returns a target that fires `samples`, `notice` and `state` events. */
export function listen() {
  const target = new EventTarget();
  const namespace = document.documentElement.dataset.namespace ?? "";
  const channel = "BroadcastChannel" in window ? new BroadcastChannel(`${CHANNEL}-${namespace}`) : null;
  const fire = (name, data) => target.dispatchEvent(new CustomEvent(name, { detail: data }));
  const history = [];

  const state = document.getElementById("connection");
  const show = (name, word) => {
    if (!state || state.dataset.state === name) return;
    state.dataset.state = name;
    state.querySelector(".word").textContent = word;
  };

  const take = (name, data, id) => {
    if (id) sessionStorage.setItem(`${LAST}-${namespace}`, id);
    show("live", "live");
    if (name === "samples") {
      history.push(...data.samples);
      history.splice(0, Math.max(0, history.length - 600));
    }
    fire(name, data);
  };

  if (channel) {
    channel.onmessage = ({ data }) => {
      if (data.name === "history?") {
        if (history.length && leads) channel.postMessage({ name: "history", samples: history });
      } else if (data.name === "history") {
        if (!leads && history.length < data.samples.length) {
          history.splice(0, history.length, ...data.samples);
          fire("history", { samples: history });
        }
      } else if (data.name === "lost") {
        show("lost", "reconnecting");
      } else {
        take(data.name, data.data, data.id);
      }
    };
    channel.postMessage({ name: "history?" });
  }

  let leads = false;
  const open = () => {
    leads = true;
    follow({
      address: () => {
        const last = Number(sessionStorage.getItem(`${LAST}-${namespace}`));
        return last > 0 ? `/live?from=${last + 1}` : "/live";
      },
      on: Object.fromEntries(NAMES.map((name) => [name, (data, id) => {
        channel?.postMessage({ name, data, id });
        take(name, data, id);
      }])),
      lost: () => {
        show("lost", "reconnecting");
        channel?.postMessage({ name: "lost" });
      },
    });
  };

  if (channel && navigator.locks) {
    navigator.locks.request(`${CHANNEL}-${namespace}`, () => {
      open();
      return new Promise(() => {});
    });
  } else {
    open();
  }
  target.history = history;
  return target;
}
