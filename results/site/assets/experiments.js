"use strict";
/* The experiments of a page: loaded and unpacked when somebody wants to see them (results/site/experiments.py). */
(() => {
  const ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const details = document.getElementById("experiments");
  const element = (tag, text) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  function load(script) {
    return new Promise((resolve, reject) => {
      window.uopscopeExperiments = resolve;
      const tag = element("script");
      tag.src = script;
      tag.onerror = () => reject(new Error(`${script} is missing`));
      document.head.append(tag);
    });
  }
  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }
  function samplesOf(packed) {
    if (!Array.isArray(packed[0])) return packed;
    let sum = 0;
    const values = packed[0].map((difference) => (sum += difference));
    return [...packed[1]].map((letter) => values[ALPHABET.indexOf(letter)]);
  }
  function plot(label, samples) {
    const low = Math.min(...samples), high = Math.max(...samples), name = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(name, "svg");
    svg.setAttribute("class", "samples");
    svg.setAttribute("viewBox", "0 0 240 30");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${label}: ${samples.length} samples from ${low} to ${high}`);
    samples.forEach((value, i) => {
      const dot = document.createElementNS(name, "circle");
      dot.setAttribute("cx", String(4 + (232 * i) / Math.max(1, samples.length - 1)));
      dot.setAttribute("cy", String(high === low ? 15 : 26 - (22 * (value - low)) / (high - low)));
      dot.setAttribute("r", "2");
      svg.append(dot);
    });
    return svg;
  }
  function article([want, mode, purpose, status, detail, code, series], lines) {
    const made = element("article");
    made.append(element("h3", purpose), element("p", `${want}, ${mode}: ${status}${detail ? ", " + detail : ""}`));
    const pre = element("pre", code.map((line) => `${lines[line][0].padEnd(24)} ${lines[line][1]}`).join("\n"));
    pre.tabIndex = 0;
    made.append(pre);
    for (const [copies, iterations, counters] of series) {
      for (const [at, [counter, packed]] of Object.entries(counters).entries()) {
        const samples = samplesOf(packed);
        const label = `${counter}${at ? " (sorted)" : ""} with ${copies} copies${iterations ? ` in ${iterations} iterations` : ""}`;
        const sorted = [...samples].sort((a, b) => a - b);
        made.append(element("p", `${label}: ${samples.length} samples, least ${sorted[0]}, median ${sorted[sorted.length >> 1]}, greatest ${sorted[sorted.length - 1]}`));
        if (sorted[0] !== sorted[sorted.length - 1]) made.append(plot(label, samples));
      }
    }
    return made;
  }
  function derivation([quantity, text]) {
    const made = element("p", `${quantity}: ${text}`);
    made.className = "derivation";
    return made;
  }
  details.addEventListener("toggle", async () => {
    const place = details.querySelector("div");
    if (!details.open || place.childElementCount) return;
    place.textContent = "";
    try {
      const { lines, variants } = await unpack(await load(details.dataset.script));
      const [derivations, experiments] = variants[Number(details.dataset.number)];
      place.append(...derivations.map(derivation), ...experiments.map((one) => article(one, lines)));
    } catch (error) {
      place.textContent = `This browser cannot show them: ${error.message}`;
    }
  });
})();
