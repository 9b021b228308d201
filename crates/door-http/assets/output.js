// What a task prints, as it comes. It is text, and never becomes anything else.

const CHARS_MAX = 200000;

export function startOutput() {
  const pre = document.getElementById("output-text");
  if (!pre) return;
  const note = document.getElementById("output-note");
  const source = new EventSource(pre.dataset.stream);
  let attempt = null;
  source.onmessage = (event) => {
    const piece = JSON.parse(event.data);
    const isAtEnd = pre.scrollHeight - pre.scrollTop - pre.clientHeight < 40;
    let text = piece.text ?? `[${piece.bytes} bytes that are not text]\n`;
    if (attempt !== null && piece.attempt !== attempt) text = `\n[attempt ${piece.attempt}]\n${text}`;
    attempt = piece.attempt;
    pre.append(text);
    if (pre.textContent.length > CHARS_MAX) pre.textContent = `[…]\n${pre.textContent.slice(-CHARS_MAX / 2)}`;
    if (isAtEnd) pre.scrollTop = pre.scrollHeight;
    note.textContent = "";
    pre.hidden = false;
  };
  source.addEventListener("end", () => {
    source.close();
    if (pre.hidden) note.textContent = "The task has printed nothing that is kept.";
  });
}
