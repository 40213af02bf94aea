// Says so when the live stream is lost: an old page must not look like a live one.
"use strict";
const mark = (lost) => document.body.classList.toggle("lost", lost);
let timer = 0;
const alive = () => {
  mark(false);
  clearTimeout(timer);
  timer = setTimeout(() => mark(true), 20000);
};
document.body.addEventListener("htmx:sseOpen", alive);
document.body.addEventListener("htmx:sseMessage", alive);
document.body.addEventListener("htmx:sseError", () => mark(true));
