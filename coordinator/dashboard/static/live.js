/* The page as it changes: one stream of events, whose id is the index of the ledger's newest entry.

   The content is asked for anew and taken over as one, node by node, so that no two figures on a page
   are of different moments. What somebody is at stays, and so does the order of rows; the corner says
   when they would stand otherwise: "Rows are in another order now. Sort them". Lists with `data-still`
   wait, too: "3 new entries since you came. Show them". A hidden page listens no more, and asks for
   what it missed when it is seen again. */
"use strict";

(() => {
  const body = document.body;
  if (body.dataset.waits !== undefined) { wait(); return; }
  if (body.dataset.since === undefined || !window.EventSource) return;

  const QUIET_MS = 1000;
  const AGES_MS = 15000; // ages go on where nothing happens
  let last = Number(body.dataset.since);
  const first = last;
  let source = null;
  let timer = 0;
  let shown = 0;
  const stream = document.getElementById("stream");
  const newest = document.getElementById("newest");
  const news = document.getElementById("news");

  /* There is no fleet yet: look again, without a new page, so that what is marked stays marked. */
  async function wait() {
    const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
    if (answer && !answer.headers.has("retry-after")) location.reload();
    else setTimeout(wait, 2000);
  }

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
      soon();
    });
    source.addEventListener("presence", soon);
  }

  function leave() {
    if (source) source.close();
    source = null;
  }

  /* Offer what waits: entries of a list that stays as it is, or another order of rows. */
  function tell(moved) {
    const count = document.querySelector("#main [data-still]") ? last - first - shown : 0;
    if (count <= 0 && !moved) { news.replaceChildren(); return; }
    if (!news.firstChild) {
      const button = document.createElement("button");
      button.type = "button";
      button.addEventListener("click", show);
      news.append(document.createElement("span"), button);
    }
    const entries = `${plural(count, "new entry", "new entries")} since you came.`;
    news.firstChild.textContent = count > 0 ? entries : "Rows are in another order now.";
    news.lastChild.textContent = count > 0 ? "Show them" : "Sort them";
  }

  const parse = (text) => new DOMParser().parseFromString(text, "text/html");

  async function fetched() {
    const address = new URL(location.href);
    const filter = document.getElementById("filter");
    if (filter && filter.value !== filter.defaultValue) address.searchParams.set("filter", filter.value);
    const answer = await fetch(address, { headers: { accept: "text/html" }, credentials: "same-origin" });
    if (answer.redirected || !answer.ok) throw new Error(String(answer.status));
    return parse(await answer.text());
  }

  function soon() {
    if (!timer) timer = setTimeout(refresh, QUIET_MS);
  }

  const SMALL = new Set(["tr", "li", "p", "dd", "figure", "form"]);
  const isRead = (element) => {
    if (!SMALL.has(element.localName)) return false;
    const chosen = document.getSelection();
    return element.contains(document.activeElement) ||
      (chosen && !chosen.isCollapsed && chosen.containsNode(element, true));
  };
  const stays = (node) => node instanceof Element && (
    node.dataset.still !== undefined || isRead(node) ||
    (node.localName === "input" && node.type !== "hidden"));

  /* Put rows that are here already in the order in which they stand; say whether that is another. */
  function keepOrder(fresh) {
    let moved = false;
    for (const body of fresh.querySelectorAll("tbody[id]")) {
      const ours = document.getElementById(body.id);
      if (!ours) continue;
      const place = new Map([...ours.rows].map((row, at) => [row.id, at]));
      const known = [...body.rows].filter((row) => place.has(row.id));
      const kept = [...known].sort((one, other) => place.get(one.id) - place.get(other.id));
      moved ||= known.some((row, at) => row !== kept[at]);
      let next = 0;
      body.replaceChildren(...[...body.rows].map((row) => (place.has(row.id) ? kept[next++] : row)));
    }
    return moved;
  }

  function follow(ours, fresh) {
    Idiomorph.morph(ours, fresh.innerHTML, {
      morphStyle: "innerHTML",
      callbacks: {
        beforeNodeMorphed: (node) => !stays(node),
        beforeNodeRemoved: (node) => !(node instanceof Element && isRead(node)),
        beforeAttributeUpdated: (name, node) => !(name === "open" && node.localName === "details"),
      },
    });
    if (window.htmx) window.htmx.process(ours);
  }

  async function refresh() {
    timer = 0;
    let page;
    try { page = await fetched(); } catch { return; }
    const main = document.getElementById("main"), fresh = page.getElementById("main");
    const moved = keepOrder(fresh);
    follow(main, fresh);
    const ours = document.querySelector(".foot"), foot = page.querySelector(".foot");
    if (ours && foot) follow(ours, foot);
    const entry = page.getElementById("newest");
    if (newest && entry) { newest.textContent = entry.textContent; newest.href = entry.href; }
    document.title = page.title;
    tell(moved);
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
    main.focus({ preventScroll: true });
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) leave(); else listen();
  });
  setInterval(() => { if (!document.hidden) soon(); }, AGES_MS);
  listen();
})();
