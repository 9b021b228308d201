// What a task prints, as it comes. It is text, and never becomes anything else.

import { follow } from "./stream.js";

const CHARS_MAX = 200000;

export function startOutput() {
  const pre = document.getElementById("output-text");
  if (!pre) return;
  const note = document.getElementById("output-note");
  let attempt = null;
  const message = (piece) => {
    const isAtEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
    let text = piece.text ?? `[${piece.bytes} ${piece.bytes === 1 ? "byte that is" : "bytes that are"} not text]\n`;
    if (attempt !== null && piece.attempt !== attempt) text = `\n[attempt ${piece.attempt}]\n${text}`;
    attempt = piece.attempt;
    pre.append(text);
    if (pre.textContent.length > CHARS_MAX) pre.textContent = `[…]\n${pre.textContent.slice(-CHARS_MAX / 2)}`;
    if (isAtEnd) pre.scrollTop = pre.scrollHeight;
    note.textContent = "";
    pre.hidden = false;
  };
  const address = (last) => {
    const stream = new URL(pre.dataset.stream, location.href);
    if (last) stream.searchParams.set("after", last);
    return stream;
  };
  // A problem, such as a broker that stops, has a code. The end of the task has none.
  const isOver = (end) => {
    if (end.code === "unknown-task") return true;
    if (end.code) return false;
    if (pre.hidden) note.textContent = "The task has printed nothing that is kept.";
    return true;
  };
  follow({ address, on: { message }, isOver });
}
