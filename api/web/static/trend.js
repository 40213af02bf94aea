// Replaces the drawn chart by a zoomable one (uPlot) with the same numbers; gaps stay gaps.
"use strict";
const box = document.getElementById("trend");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const draw = (history) => {
  const drawn = box.querySelector("figure");
  const times = history.samples.map((sample) => Date.parse(sample.at) / 1000);
  const line = (label, width) => ({
    label, stroke: colour("--now"), width, spanGaps: false, points: { show: false },
    value: (_, value) => (value === null ? "\u2014" : `${value.toFixed(2)} ${box.dataset.unit}`),
  });
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
  const options = {
    width: box.clientWidth, height: 340, axes: [axis, axis],
    series: [{}, line("mean", 2), line("min", 0.5), line("max", 0.5)],
  };
  const column = (key) => history.samples.map((sample) => sample[key]);
  const chart = new window.uPlot(options, [times, column("mean"), column("min"), column("max")], box);
  drawn.hidden = true;
  window.addEventListener("resize", () => chart.setSize({ width: box.clientWidth, height: 340 }));
};

if (box && window.uPlot) {
  fetch(box.dataset.source, { headers: { accept: "application/json" } })
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer.status)))
    .then(draw)
    .catch(() => box.classList.add("drawn-only"));
}
