/* The page as it changes: one stream of events, whose id is the index of the ledger's newest entry.

   Numbers and states are drawn anew where they stand: elements with `data-live` and an id. What would
   move what somebody reads (lists, tables, plots) waits, and the corner says how much: "3 new entries
   since you came. Show them". A hidden page listens no more, and asks for what it missed when it is
   seen again. */
"use strict";

(() => {
  const body = document.body;
  if (body.dataset.since === undefined || !window.EventSource) return;

  const QUIET_MS = 1500;
  let last = Number(body.dataset.since);
  const first = last;
  let source = null;
  let timer = 0;
  let shown = false;
  const stream = document.getElementById("stream");
  const newest = document.getElementById("newest");
  const news = document.getElementById("news");

  const say = (word) => { if (stream && stream.textContent !== word) stream.textContent = word; };
  const plural = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

  function listen() {
    if (source || document.hidden) return;
    source = new EventSource(`/events?since=${last}`);
    source.onopen = () => say("Live at");
    source.onerror = () => {
      say("No connection since");
      if (source && source.readyState === EventSource.CLOSED) { leave(); setTimeout(listen, 3000); }
    };
    source.addEventListener("entries", (event) => {
      const change = JSON.parse(event.data);
      last = Math.max(last, change.last);
      if (newest) {
        newest.textContent = `#${last.toLocaleString("en")}`;
        newest.href = `/ledger?entry=${last}#entry`;
      }
      tell();
      soon();
    });
    source.addEventListener("presence", soon);
  }

  function leave() {
    if (source) source.close();
    source = null;
  }

  function tell() {
    const count = last - first - (shown ? shown : 0);
    if (count <= 0) return;
    if (!news.firstChild) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Show them";
      button.addEventListener("click", show);
      news.append(document.createElement("span"), button);
    }
    news.firstChild.textContent = `${plural(count, "new entry", "new entries")} since you came.`;
  }

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  async function fetched() {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
    if (answer.redirected || !answer.ok) throw new Error(String(answer.status));
    return parse(await answer.text());
  }

  function soon() {
    if (!timer) timer = setTimeout(refresh, QUIET_MS);
  }

  const reads = (element) => {
    const chosen = document.getSelection();
    return element.contains(document.activeElement) ||
      (chosen && !chosen.isCollapsed && chosen.containsNode(element, true));
  };

  /* Draw numbers and states anew, each where it stands; what somebody is at stays. */
  async function refresh() {
    timer = 0;
    const parts = [...document.querySelectorAll("[data-live][id]")];
    if (!parts.length) return;
    let page;
    try { page = await fetched(); } catch { return; }
    for (const part of parts) {
      const fresh = page.getElementById(part.id);
      if (!fresh || reads(part) || fresh.innerHTML === part.innerHTML) continue;
      part.replaceChildren(...fresh.childNodes);
      if (window.htmx) window.htmx.process(part);
    }
    if (page.title) document.title = page.title;
    for (const time of page.querySelectorAll(".foot time")) {
      const ours = document.querySelector(".foot time");
      if (ours) ours.replaceWith(time);
    }
  }

  async function show() {
    let page;
    try { page = await fetched(); } catch { location.reload(); return; }
    const main = document.getElementById("main");
    main.replaceChildren(...page.getElementById("main").childNodes);
    shown = last - first;
    news.replaceChildren();
    document.title = page.title;
    if (window.htmx) window.htmx.process(main);
    document.dispatchEvent(new CustomEvent("fleet:shown"));
    main.focus({ preventScroll: true });
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) leave(); else listen();
  });
  listen();
})();
