"use strict";
/* The table of all variants: filters, sorts and pages through rows of (variant, architecture). */
(() => {
  const PAGE = 100;
  const { variants, architectures } = window.uopscope;
  const $ = (id) => document.getElementById(id);
  let rows = [];
  for (const [name, data] of Object.entries(architectures)) {
    for (let i = 0; i < data.variant.length; i++) rows.push({ name, data, i, v: data.variant[i] });
  }
  const haystack = variants.string.map((s, v) => `${s} ${variants.iforms[variants.iform[v]]}`.toLowerCase());
  const rank = [];
  variants.string.map((s, v) => [s, v]).sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)).forEach(([, v], at) => { rank[v] = at; });
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const number = (x) => (x === null ? Infinity : x);
  const keys = {
    string: (r) => rank[r.v],
    extension: (r) => variants.extensions[variants.extension[r.v]],
    architecture: (r) => r.name,
    latency: (r) => number(r.data.maximum[r.i]),
    throughput: (r) => number(r.data.throughput[r.i]),
    uops: (r) => number(r.data.uops[r.i]),
    ports: (r) => r.data.portTexts[r.data.ports[r.i]] || "~",
  };
  let found = [], page = 0, sort = "string", descending = false;

  function range(text) {
    const match = /^\s*(\d+)?\s*(-)?\s*(\d+)?\s*$/.exec(text);
    if (!match || (!match[1] && !match[3])) return null;
    const low = Number(match[1] ?? 0);
    return [low, match[2] ? Number(match[3] ?? Infinity) : low];
  }
  /* Ports of a term such as 2*p06, p60, FP01 or just 06, in one spelling. */
  function portSet(term) {
    const match = /^(?:\d+\*)?([a-z]*?)([0-9a-j]*)$/i.exec(term.trim());
    if (!match) return term.trim().toLowerCase();
    return (match[1].toLowerCase() || "p") + [...match[2].toUpperCase()].sort().join("");
  }
  function portTest(text) {
    if (!text.trim()) return null;
    const wanted = portSet(text);
    return (ports) => ports.split("+").some((term) => portSet(term) === wanted);
  }
  function filter() {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const arch = $("architecture").value, extension = $("extension").value, isa = $("isa").value;
    const type = $("operands").value, uops = range($("uops").value), latency = range($("latency").value);
    const ports = portTest($("ports").value);
    const matches = variants.string.map((_, v) =>
      words.every((word) => haystack[v].includes(word)) &&
      (!extension || variants.extensions[variants.extension[v]] === extension) &&
      (!isa || variants.isaSets[variants.isaSet[v]] === isa) &&
      (!type || variants.types[v].includes(type[0]) === true) &&
      (type !== "reg" || !/[mi]/.test(variants.types[v])));
    found = rows.filter((r) => matches[r.v] && (!arch || r.name === arch) &&
      (!uops || (r.data.uops[r.i] !== null && r.data.uops[r.i] >= uops[0] && r.data.uops[r.i] <= uops[1])) &&
      (!latency || (r.data.maximum[r.i] !== null && r.data.maximum[r.i] >= latency[0] && r.data.minimum[r.i] <= latency[1])) &&
      (!ports || ports(r.data.portTexts[r.data.ports[r.i]] || "")));
    page = 0;
    show();
  }
  /* The filters stand in the address, so that a view can be passed on. */
  const FIELDS = ["search", "architecture", "extension", "isa", "operands", "ports", "uops", "latency"];
  function remember() {
    const state = new URLSearchParams();
    for (const id of FIELDS) if ($(id).value) state.set(id, $(id).value);
    history.replaceState(null, "", `#${state}`);
  }
  function restore() {
    const state = new URLSearchParams(location.hash.slice(1));
    for (const id of FIELDS) $(id).value = state.get(id) ?? "";
    filter();
  }
  function arrange() {
    const key = keys[sort], sign = descending ? -1 : 1;
    const marked = rows.map((row) => [key(row), row]);
    marked.sort((a, b) => order(a[0], b[0]) * sign || rank[a[1].v] - rank[b[1].v] || order(a[1].name, b[1].name));
    rows = marked.map((pair) => pair[1]);
    filter();
  }
  function cell(text, column) {
    const td = document.createElement("td");
    if (column) td.className = `of-${column}`;
    td.textContent = text ?? "";
    return td;
  }
  function line(r) {
    const tr = document.createElement("tr"), first = document.createElement("td"), a = document.createElement("a");
    a.href = `v/${r.name}/${variants.slug[r.v]}.html`;
    a.textContent = variants.string[r.v];
    first.append(a);
    const throughput = r.data.throughput[r.i];
    tr.append(first, cell(variants.extensions[variants.extension[r.v]]), cell(r.name + (r.data.simulated[r.i] ? " (simulated)" : "")), cell(r.data.latency[r.i]),
      cell(throughput === null ? "" : throughput.toFixed(2)), cell(r.data.uops[r.i], "uops"), cell(r.data.portTexts[r.data.ports[r.i]], "ports"));
    return tr;
  }
  function show() {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(Math.max(page, 0), pages - 1);
    document.querySelector("#table tbody").replaceChildren(...found.slice(page * PAGE, (page + 1) * PAGE).map(line));
    $("count").textContent = `${found.length} of ${rows.length} results`;
    $("page").textContent = `Page ${page + 1} of ${pages}`;
    $("previous").disabled = page === 0;
    $("next").disabled = page === pages - 1;
    for (const button of document.querySelectorAll("[data-sort]")) {
      const th = button.closest("th");
      if (button.dataset.sort === sort) th.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
  }
  for (const [id, values] of [["extension", variants.extensions], ["isa", variants.isaSets]])
    for (const value of [...values].sort()) $(id).append(new Option(value));
  $("filters").addEventListener("input", () => { remember(); filter(); });
  $("filters").addEventListener("reset", () => setTimeout(() => { remember(); filter(); }));
  window.addEventListener("hashchange", restore);
  /* Columns and filters of what no architecture knows, such as µops without counters, say nothing. */
  for (const [field, known] of [["uops", (r) => r.data.uops[r.i] !== null], ["ports", (r) => r.data.portTexts[r.data.ports[r.i]]]])
    if (!rows.some(known)) document.documentElement.classList.add(`no-${field}`);
  $("previous").addEventListener("click", () => { page--; show(); });
  $("next").addEventListener("click", () => { page++; show(); });
  document.querySelector("#table thead").addEventListener("click", (event) => {
    const by = event.target.dataset.sort;
    if (!by) return;
    descending = by === sort && !descending;
    sort = by;
    arrange();
  });
  arrange();
  restore();
})();
