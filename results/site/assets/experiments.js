"use strict";
/* The experiments of a page: packed as base64 of deflated JSON, unpacked when somebody wants to see them. */
(() => {
  const details = document.getElementById("experiments");
  const element = (tag, text) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  async function unpack() {
    const bytes = Uint8Array.from(atob(document.getElementById("packed").textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
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
  function article(one) {
    const made = element("article");
    made.append(element("h3", one.purpose || one.request), element("p", `${one.request}: ${one.status}${one.detail ? ", " + one.detail : ""}`));
    made.append(element("pre", one.body.map(([code, text]) => `${code.padEnd(24)} ${text}`).join("\n")));
    for (const series of one.series) {
      for (const [counter, samples] of Object.entries(series.samples)) {
        const label = `${counter} with ${series.copies} copies${series.iterations ? ` in ${series.iterations} iterations` : ""}`;
        const sorted = [...samples].sort((a, b) => a - b);
        made.append(element("p", `${label}: ${samples.length} samples, least ${sorted[0]}, median ${sorted[sorted.length >> 1]}, greatest ${sorted[sorted.length - 1]}`));
        if (sorted[0] !== sorted[sorted.length - 1]) made.append(plot(label, samples));
      }
    }
    return made;
  }
  details.addEventListener("toggle", async () => {
    const place = details.querySelector("div");
    if (!details.open || place.childElementCount) return;
    place.textContent = "";
    try {
      place.append(...(await unpack()).map(article));
    } catch (error) {
      place.textContent = `This browser cannot unpack them: ${error.message}`;
    }
  });
})();
