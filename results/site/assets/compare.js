"use strict";
/* Two architectures side by side: every variant that both have, or only those where something differs. */
(() => {
  const PAGE = 100, LATENCY = 0, UOPS = 2, PORTS = 3;
  const { variants, architectures } = window.uopscope;
  const $ = (id) => document.getElementById(id);
  const values = (data, i) => [data.latency[i], data.throughput[i]?.toFixed(2), data.uops[i], data.portTexts[data.ports[i]]];
  const known = (value) => value !== null && value !== undefined && value !== "";
  const differ = (a, b, k) => known(a) && known(b) && (k === PORTS ? !alike(a, b) : k === LATENCY ? contradict(a, b) : a !== b);
  /* The least and the greatest latency of "1-≤9". An upper bound contradicts only a larger number. */
  const ends = (text) => { const parts = text.split("-"); return [parts[0], parts[parts.length - 1]]; };
  const above = (a, b) => parseInt(a) > parseInt(b.replace("≤", ""));
  const apart = (a, b) => (a[0] !== "≤" && above(a, b)) || (b[0] !== "≤" && above(b, a));
  const contradict = (a, b) => { const others = ends(b); return ends(a).some((end, at) => apart(end, others[at])); };
  /* Ports that were found by time (r0, r1) have names of their own on each architecture: only their number counts. */
  const counted = (ports) => ports.replace(/[pr]([0-9A-Z]+)/g, (_, names) => `${names.length} `).split("+").sort().join("+");
  const alike = (a, b) => a === b || (/r[0-9A-Z]/.test(a + b) && counted(a) === counted(b));
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const CLASSES = ["", "", "of-uops", "of-ports"];
  let found = [], page = 0;

  function nameColumns() {
    const cells = [document.createElement("th")];
    for (let column = 0; column < 4; column++) for (const id of ["first", "second"]) {
      const th = document.createElement("th");
      th.scope = "col";
      th.className = CLASSES[column];
      th.textContent = $(id).value;
      cells.push(th);
    }
    $("names").replaceChildren(...cells);
  }
  function compare() {
    const first = architectures[$("first").value], second = architectures[$("second").value];
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const different = $("what").value === "different";
    if (!first || !second) { $("count").textContent = "There are no results to compare."; return; }
    const place = new Map(second.variant.map((v, i) => [v, i]));
    const told = new Set();
    found = [];
    first.variant.forEach((v, i) => {
      if (!place.has(v) || !words.every((word) => variants.string[v].toLowerCase().includes(word))) return;
      const pairs = values(first, i).map((value, k) => [value, values(second, place.get(v))[k]]);
      pairs.forEach((pair, k) => { if (pair.some(known)) told.add(k); });
      if (!different || pairs.some(([a, b], k) => differ(a, b, k))) found.push([v, pairs]);
    });
    /* Columns of what neither architecture knows, such as µops without counters, say nothing. */
    document.documentElement.classList.toggle("no-uops", !told.has(UOPS));
    document.documentElement.classList.toggle("no-ports", !told.has(PORTS));
    found.sort((a, b) => natural(variants.string[a[0]], variants.string[b[0]]));
    page = 0;
    nameColumns();
    show();
  }
  function line([v, pairs]) {
    const tr = document.createElement("tr"), th = document.createElement("td"), a = document.createElement("a");
    a.href = `v/${$("first").value}/${variants.slug[v]}.html`;
    a.textContent = variants.string[v];
    th.append(a);
    tr.append(th);
    for (const [k, [x, y]] of pairs.entries()) for (const value of [x, y]) {
      const td = document.createElement("td");
      td.className = CLASSES[k];
      td.textContent = value ?? "";
      if (differ(x, y, k)) td.style.fontWeight = "bold";
      tr.append(td);
    }
    return tr;
  }
  function show() {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    document.querySelector("#table tbody").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(line));
    const label = (id) => $(id).selectedOptions[0].textContent;
    $("count").textContent = `${found.length} variants, ${label("first")} left and ${label("second")} right in each pair; bold where both are known and differ`;
    $("page").textContent = `Page ${page + 1} of ${pages}`;
    $("previous").disabled = page === 0;
    $("next").disabled = page === pages - 1;
  }
  /* What is compared stands in the address, so that a view can be passed on. */
  const FIELDS = ["first", "second", "search", "what"];
  function remember() {
    history.replaceState(null, "", `#${new URLSearchParams(FIELDS.filter((id) => $(id).value).map((id) => [id, $(id).value]))}`);
  }
  function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const id of FIELDS) {
      const value = state.get(id);
      if (value !== null && (id === "search" || [...$(id).options].some((option) => option.value === value))) $(id).value = value;
    }
    if ($("second").value === $("first").value && !state.has("second"))
      $("second").value = Object.keys(architectures).find((name) => name !== $("first").value) ?? $("first").value;
    compare();
  }
  $("filters").addEventListener("input", () => { remember(); compare(); });
  window.addEventListener("hashchange", restore);
  $("previous").addEventListener("click", () => { page--; show(); });
  $("next").addEventListener("click", () => { page++; show(); });
  restore();
})();
