"use strict";
/* The data, how values are written, and the head of the page. The scripts of a page are joined in the
   order in which page.py lists them. Text from the data enters the page as text, never as HTML. */

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString("en-US");
const by = (lengths) => lengths.map(number).join(" × ");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit && value < 100 ? value.toFixed(1) : number(Math.round(value))} ${units[unit]}`;
}

function seconds(value) {
  if (value < 60) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function drawHead() {
  const whole = data.scenes[0];
  find("kind").textContent = data.run ? "Dask IO report on a run" : "Dask IO report on a plan";
  find("source").textContent = data.source;
  find("target").textContent = data.target ?? "";
  find("arrow").hidden = data.target === null;
  const n = data.scenes.length + data.left_out;
  if (whole && (n === 1 || data.strategy === "spill")) {
    find("summary").textContent =
      `An array of ${by(whole.shape)} (${data.dtype}, ${bytes(whole.bytes)}) moves from ` +
      `${blocks(whole.source)} to ${blocks(data.scenes.at(-1).target)}.`;
  } else {
    find("summary").textContent = data.strategy === "series"
      ? `${number(n)} arrays move one after another. Below the pictures you can choose which one they show.`
      : `${number(n)} targets are written from one source. Below the pictures you can choose which one they show.`;
  }
  const total = data.seeks.read + data.seeks.write;
  const times = total / data.seeks.lower_bound;
  const once = total <= data.seeks.lower_bound ? "the fewest possible" : `${times.toFixed(times < 10 ? 2 : 0)} times the fewest possible`;
  const facts = [
    ["Seeks", number(total), once],
    ["Peak memory", bytes(data.memory.peak), `of the budget of ${bytes(data.memory.budget)}`],
    ["Moved", bytes(data.bytes.read + data.bytes.written), `${bytes(data.bytes.read)} read, ${bytes(data.bytes.written)} written`],
    ["Predicted time", data.seconds, `on a device like: ${data.device}`],
    ["Strategy", data.strategy, `${number(data.steps)} step${data.steps === 1 ? "" : "s"}`],
  ];
  if (data.run) facts.splice(3, 0, ["Measured time", seconds(data.run.seconds), data.run.verified ? "and the target was verified" : ""]);
  for (const [name, value, more] of facts) {
    const box = element("div");
    const shown = element("dd", value);
    shown.append(element("small", more));
    box.append(element("dt", name), shown);
    find("facts").append(box);
  }
  find("visits").hidden = !data.visits;
  find("visits").textContent = data.visits && `${data.visits[0].toUpperCase()}${data.visits.slice(1)}.`;
  find("footer").textContent = `Made by Dask IO ${data.version}. This page is one file and loads nothing from a network.`;
}

function blocks(side) {
  const plural = side.blocks === 1 ? "block" : "blocks";
  return `${number(side.blocks)} ${side.format} ${plural} of ${by(side.longest)}`;
}
