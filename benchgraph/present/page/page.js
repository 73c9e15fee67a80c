"use strict";
// Filter, sorting, copying, the pictures and the plots' labels. The page says everything but the pictures without it.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const said = document.getElementById("said");

  // ---- texts that the page holds packed: pictures, and the details of cases where there are many ----
  let texts = null;
  async function unpack() {
    const bytes = Uint8Array.from(atob(document.getElementById("store").textContent), (c) => c.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(plain).text());
  }
  async function held(number) {
    texts ??= unpack();
    return (await texts)[Number(number)];
  }
  async function fill(place) {
    if (place.dataset.text === undefined || place.firstChild) return;
    place.textContent = "…";
    try {
      place.innerHTML = await held(place.dataset.text);  // escaped when the page was written
    } catch {
      place.textContent = "This browser cannot unpack the details.";
    }
  }
  async function draw(figure) {
    if (figure.firstChild) return;
    figure.textContent = "…";
    try {
      const svg = new DOMParser().parseFromString(await held(figure.dataset.picture), "image/svg+xml").documentElement;
      for (const node of all("[id]", svg)) {  // other pictures have ops of the same numbers
        if (node.tagName === "marker") node.id = `end${figure.dataset.picture}`;
        else node.removeAttribute("id");
      }
      for (const path of all("[marker-end]", svg)) path.setAttribute("marker-end", `url(#end${figure.dataset.picture})`);
      figure.replaceChildren(svg);
    } catch {
      figure.textContent = "This browser cannot unpack the picture.";
    }
  }
  document.addEventListener("toggle", async (event) => {
    const details = event.target;
    if (!details.open) return;
    if (details.classList.contains("cut")) all(":scope > [data-picture]", details).forEach(draw);
    await Promise.all(all(":scope > .details", details).map(fill));
    const cuts = all(".cut", details);
    if (cuts.length && !cuts.some((cut) => cut.open)) cuts[0].open = true;  // the first policy's is what people look for
  }, true);

  // ---- rows ----
  document.addEventListener("click", async (event) => {
    const copy = event.target.closest(".copy");
    if (copy) {
      const text = copy.parentNode.querySelector("code").textContent;
      said.textContent = "";
      const done = await put(text);
      said.textContent = done ? "Copied" : "Not copied: select the line and copy it";
      copy.textContent = done ? "Copied" : "Select and copy";
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
      return;
    }
    const row = event.target.closest("tr.main");
    if (row && !String(getSelection()) && !event.target.closest(".name")) row.nextElementSibling.querySelector("details").open ^= true;
  });
  async function put(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {  // some browsers give pages from files no clipboard
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }
  function openTarget() {
    const body = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (!body || body.tagName !== "TBODY") return;
    const details = body.querySelector("details");
    details.open = true;
    body.hidden = false;
    details.querySelector("summary").focus({ preventScroll: true });
    body.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", openTarget);

  // ---- a run: its filter, its columns, its plots ----
  for (const run of all(".run")) {
    const table = run.querySelector("table.cases");
    if (!table) continue;
    const bodies = [...table.tBodies];
    const marks = new Map();
    for (const mark of all(".chart a[data-series]", run)) {
      const key = mark.getAttribute("href").slice(1);
      marks.has(key) ? marks.get(key).push(mark) : marks.set(key, [mark]);
    }
    const words = bodies.map((body) => `${body.dataset.status} ${body.querySelector(".name").textContent}`.toLowerCase());
    const form = run.querySelector(".filter");
    const shown = run.querySelector(".shown");

    const filter = () => {
      const wanted = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const statuses = new Set(all("[name=status]:checked", form).map((box) => box.value));
      let count = 0;
      bodies.forEach((body, i) => {
        const keep = statuses.has(body.dataset.status) && wanted.every((word) => words[i].includes(word));
        count += keep;
        if (body.hidden !== keep) return;
        body.hidden = !keep;
        for (const mark of marks.get(body.id) ?? []) mark.style.display = keep ? "" : "none";
      });
      shown.value = `${count} of ${bodies.length} cases`;
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    filter();  // browsers keep what was typed when they load a page again

    // A number or a text; what is not there stands last in both directions.
    const keyOf = (body, column) => {
      const cell = body.rows[0].cells[column];
      if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
      return cell.textContent.trim() || null;
    };
    for (const button of all(".heads button", table)) {
      button.addEventListener("click", () => {
        const head = button.parentNode;
        const down = head.getAttribute("aria-sort") === "ascending";
        all("[aria-sort]", table).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const column = Number(button.dataset.column);
        const keyed = bodies.map((body, i) => [keyOf(body, column), i, body]);
        keyed.sort(([a, i], [b, j]) => {
          if (a === b) return i - j;
          if (a === null) return 1;
          if (b === null) return -1;
          return (a < b ? -1 : 1) * (down ? -1 : 1);
        });
        table.append(...keyed.map(([, , body]) => body));
        said.textContent = `Sorted by ${button.textContent}, ${down ? "descending" : "ascending"}`;
      });
    }
  }

  // ---- plots: what a mark is, and the keyboard: one stop of Tab for each plot, arrows from mark to mark, Enter follows ----
  const tip = document.getElementById("tip");
  const marksOf = (plot) => all("a[data-series]", plot).filter((mark) => mark.style.display !== "none");
  for (const plot of all(".chart svg")) {
    plot.removeAttribute("aria-hidden");
    all("a[data-series]", plot).forEach((mark, i) => {
      mark.setAttribute("tabindex", i ? "-1" : "0");
      const row = document.getElementById(mark.getAttribute("href").slice(1)).rows[0];
      mark.setAttribute("aria-label", row.querySelector(".name code").textContent);
    });
  }
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  document.addEventListener("keydown", (event) => {
    const mark = event.target.closest?.(".chart a[data-series]");
    if (!mark || !STEPS[event.key]) return;
    event.preventDefault();
    const marks = marksOf(mark.closest("svg"));
    const next = marks[(marks.indexOf(mark) + STEPS[event.key] + marks.length) % marks.length];
    mark.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, (event) => {
    const mark = event.target.closest(".chart a[data-series]");
    tip.hidden = !mark;
    if (!mark) return;
    const row = document.getElementById(mark.getAttribute("href").slice(1)).rows[0];
    const numbers = [...row.cells].filter((cell) => cell.dataset.head && cell.textContent)
      .map((cell) => `${cell.dataset.head} ${cell.textContent}`).join(" · ");
    const name = document.createElement("code");
    name.textContent = row.querySelector(".name code").textContent;
    tip.replaceChildren(name, document.createElement("br"), numbers);
    const { left, top, bottom } = mark.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = top > tip.offsetHeight + 12 ? `${top - tip.offsetHeight - 8}px` : `${bottom + 8}px`;
  });
  openTarget();
})();
