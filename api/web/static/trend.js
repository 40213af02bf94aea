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
  const long = times.length > 1 && times[times.length - 1] - times[0] > 90000;
  const clock = new Intl.DateTimeFormat("en-GB", {
    timeZone: box.dataset.zone, hour: "2-digit", minute: "2-digit",
    ...(long ? { month: "short", day: "numeric" } : {}),
  });
  const exact = new Intl.DateTimeFormat("en-GB", {
    timeZone: box.dataset.zone, dateStyle: "medium", timeStyle: "long",
  });
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
  const options = {
    width: box.clientWidth, height: 340,
    axes: [{ ...axis, space: long ? 110 : 70, values: (_, splits) => splits.map((t) => clock.format(t * 1000)) }, axis],
    series: [{ label: "time", value: (_, t) => (t === null ? "\u2014" : exact.format(t * 1000)) }, line("mean", 2), line("min", 0.5), line("max", 0.5)],
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
