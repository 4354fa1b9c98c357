/* Naming by keys, and without a new page for every step. Without this file every button works too. */
"use strict";

(() => {
  const LOOK_MS = 2000;
  const SMALL = 96;
  const main = document.getElementById("main");
  const news = document.getElementById("news");
  const page = () => document.getElementById("page");
  const form = () => document.getElementById("naming");
  const boxes = () => [...main.querySelectorAll(".tiles input")];
  let busy = false;
  if (!page()) return; // coming in, and what went wrong

  /* What is chosen is said; a guess's own button, and what is typed, need no choice. */
  function count() {
    const place = document.getElementById("count");
    if (!place) return;
    const chosen = boxes().filter((box) => box.checked).length;
    place.hidden = !chosen;
    const text = chosen ? `${chosen} ${chosen === 1 ? "image is" : "images are"} chosen:` : "";
    if (place.textContent !== text) place.textContent = text;
  }

  /* Images of few pixels are drawn as squares, for they say more than a blur. */
  function sharpen() {
    for (const image of main.querySelectorAll(".tiles img")) {
      const mark = () => image.classList.toggle("tiny", image.naturalWidth > 0 && image.naturalWidth <= SMALL);
      if (image.complete) mark(); else image.addEventListener("load", mark, { once: true });
    }
  }

  function show(text, at) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const content = fresh.getElementById("page");
    if (!content) { location.reload(); return; }
    page().replaceWith(document.importNode(content, true));
    document.title = fresh.title;
    news.replaceChildren();
    ready();
    if (at === null) return;
    const now = boxes();
    const next = now[Math.min(at, now.length - 1)];
    if (next) next.focus({ focusVisible: true }); else main.focus();
  }

  async function ask(address, settings, at) {
    if (busy) return;
    busy = true;
    try {
      const answer = await fetch(address, { headers: { accept: "text/html" }, credentials: "same-origin", ...settings });
      if (answer.redirected && new URL(answer.url).pathname === "/login") location.reload();
      else show(await answer.text(), at);
    } catch {
      const said = document.createElement("span");
      said.textContent = "The device does not answer.";
      news.replaceChildren(said);
    } finally {
      busy = false;
    }
  }

  main.addEventListener("submit", (event) => {
    event.preventDefault();
    const said = new URLSearchParams(new FormData(event.target));
    const button = event.submitter;
    if (button && button.name) {
      if (button.name !== "act" || button.value !== "new") said.delete("new");
      if (button.name === "guess") said.delete("image");
      said.append(button.name, button.value);
    }
    const first = boxes().findIndex((box) => box.checked || (button && box.value === button.value));
    ask(button && button.hasAttribute("formaction") ? button.formAction : event.target.action, { method: "POST", body: said }, Math.max(first, 0));
  });
  main.addEventListener("change", count);

  /* Keys are for the image that has the focus, and for it alone where none is chosen. */
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
  main.addEventListener("keydown", (event) => {
    const box = event.target.closest && event.target.closest(".tiles input");
    if (!box || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = boxes();
    const act = (button) => {
      if (!button) return;
      if (!all.some((one) => one.checked)) box.checked = true;
      form().requestSubmit(button);
    };
    const key = event.key;
    if (key in moves) {
      const row = key === "ArrowUp" || key === "ArrowDown" ? columns(all) : 1;
      const next = all[all.indexOf(box) + moves[key] * row];
      if (next) { next.focus(); next.closest("li").scrollIntoView({ block: "nearest" }); }
    } else if (/^[0-9]$/.test(key)) act(form().querySelector(`[data-key="${key}"]`));
    else if (key === "x" || key === "Delete") act(document.getElementById("away"));
    else if (key === "Enter") { const own = box.closest("li").querySelector("[name=guess]"); if (own) form().requestSubmit(own); }
    else if (key === "u") { const undo = document.getElementById("undo"); if (undo) undo.form.requestSubmit(undo); }
    else if (key === "n") {
      if (!all.some((one) => one.checked)) box.checked = true;
      document.getElementById("new").focus();
    } else if (key === "a") {
      const on = !all.every((one) => one.checked);
      for (const one of all) one.checked = on;
    } else return;
    event.preventDefault();
    count();
  });

  const columns = (all) => {
    const top = all[0].getBoundingClientRect().top;
    const next = all.findIndex((box) => box.getBoundingClientRect().top > top + 1);
    return next < 0 ? all.length : next;
  };

  /* What comes meanwhile waits in the corner, so that nothing moves under a finger. */
  async function look() {
    if (document.hidden || busy || !page()) return;
    let found;
    try {
      const answer = await fetch("/waiting.json", { credentials: "same-origin" });
      if (!answer.ok) return;
      found = await answer.json();
    } catch { return; }
    if (!page() || found.newest <= Number(page().dataset.newest)) return;
    if (!form()) { ask(location.href, {}, null); return; }
    if (news.firstChild) return;
    const said = document.createElement("span");
    said.textContent = "New images came.";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Show them";
    button.addEventListener("click", () => ask(location.href, {}, 0));
    news.replaceChildren(said, button);
  }

  function ready() {
    count();
    sharpen();
  }

  ready();
  const first = boxes()[0];
  if (first && !matchMedia("(hover: none)").matches) first.focus({ preventScroll: true });
  setInterval(look, LOOK_MS);
})();
