// A stream of events from the broker that outlives a restart of it.

import { here } from "./namespace.js";

const REOPENS_AFTER = 3000;

/**
 * Listens until the stream is over. `address` gets the id of the last event and returns where the stream goes on, in the namespace of the page; `on`
 * has a function for each name of an event, which gets its data and its id; `lost` is called when the stream breaks;
 * `isOver` gets the data of the last event of a stream and says whether nothing follows.
 */
export function follow({ address, on, lost, isOver }) {
  let last = "";
  const open = () => {
    const source = new EventSource(here(address(last)));
    const reopen = () => {
      source.close();
      lost?.();
      setTimeout(again, REOPENS_AFTER);
    };
    for (const [name, take] of Object.entries(on)) {
      source.addEventListener(name, (event) => {
        if (event.lastEventId) last = event.lastEventId;
        take(JSON.parse(event.data), event.lastEventId);
      });
    }
    // A broker that stops says so, and a key that is revoked ends the stream as well.
    source.addEventListener("end", (event) => {
      if (isOver?.(JSON.parse(event.data))) source.close();
      else reopen();
    });
    // The browser connects again by itself, unless the answer was not a stream: for example while the broker starts.
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) reopen();
      else lost?.();
    };
  };
  // A script does not see why a stream is refused, so it asks for something small first.
  const again = async () => {
    try {
      const answer = await fetch(here("/v1/counts"));
      if (answer.status === 401) location.assign("/");
      else if (answer.status < 500) open();
      else setTimeout(again, REOPENS_AFTER);
    } catch {
      setTimeout(again, REOPENS_AFTER);
    }
  };
  open();
}
