/* The charts of memory and throughput. */

function svg(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

/* At most six round numbers of bytes from 0 up to a limit. */
function ticks(top) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, top)) / Math.log(1024)));
  const steps = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 250].map((step) => step * unit);
  const step = steps.find((each) => top / each <= 5) ?? steps.at(-1);
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, at) => at * step);
}

/* A chart with horizontal rules at round numbers; `lines` have points from 0 to 1 and a value. */
function chart(place, { label, lines, levels = [], top, format, ends }) {
  const width = place.clientWidth || 600, height = Math.max(150, Math.min(240, width * 0.45));
  const frame = { left: 66, right: 8, top: 14, bottom: 24 };
  const x = (at) => frame.left + at * (width - frame.left - frame.right);
  const y = (value) => height - frame.bottom - (value / (top || 1)) * (height - frame.top - frame.bottom);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const value of ticks(top)) {
    root.append(svg("line", { x1: x(0), x2: x(1), y1: y(value), y2: y(value), stroke: "var(--line)" }));
    root.append(svg("text", { x: x(0) - 6, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  for (const { points, stroke, dash = "", fill, width: wide = 2 } of lines) {
    if (!points.length) continue;
    const path = points.map(([at, value], n) => `${n ? "L" : "M"}${x(at).toFixed(1)} ${y(Math.min(value, top)).toFixed(1)}`).join("");
    if (fill) root.append(svg("path", { d: `${path}L${x(points.at(-1)[0])} ${y(0)}L${x(points[0][0])} ${y(0)}Z`, fill, "fill-opacity": 0.35 }));
    root.append(svg("path", { d: path, fill: "none", stroke, "stroke-width": wide, "stroke-dasharray": dash, "stroke-linejoin": "round" }));
  }
  for (const { value, text, stroke, dash, side = "end" } of levels) {
    root.append(svg("line", { x1: x(0), x2: x(1), y1: y(value), y2: y(value), stroke, "stroke-width": 2, "stroke-dasharray": dash }));
    root.append(svg("text", { x: side === "end" ? x(1) - 4 : x(0) + 4, y: y(value) - 5, "text-anchor": side, style: `fill:${stroke};font-weight:600` }, text));
  }
  root.append(svg("text", { x: x(0), y: height - 6 }, ends[0]), svg("text", { x: x(1), y: height - 6, "text-anchor": "end" }, ends[1]));
  place.replaceChildren(root);
  return { root, x, y: [y(0), y(top)] };
}

function key(list, entries) {
  list.replaceChildren(...entries.map(([text, stroke, dash, fill]) => {
    const item = element("li"), image = svg("svg", { viewBox: "0 0 22 14", "aria-hidden": "true" });
    if (fill) image.append(svg("rect", { width: 22, height: 14, y: 7, fill, "fill-opacity": 0.35 }));
    image.append(svg("line", { x1: 0, x2: 22, y1: 7, y2: 7, stroke, "stroke-width": 2.5, "stroke-dasharray": dash }));
    item.append(image, text);
    return item;
  }));
}

const samples = () => (data.run?.samples ?? []).map(([time, read, written, held, all]) => ({ time, read, written, held, at: (read + written) / (2 * all || 1) }));
let memoryChart = null;

/* The highest value in each of `n` equal parts of a curve; a part without a point is like the one before. */
function highest(curve, n) {
  const most = Array(n).fill(-1);
  for (const [at, value] of curve) {
    const part = Math.min(n - 1, Math.floor(at * n));
    most[part] = Math.max(most[part], value);
  }
  return most.flatMap((_, part) => {
    if (most[part] < 0) most[part] = most[part - 1];
    return [[part / n, most[part]], [(part + 1) / n, most[part]]];
  });
}

function drawMemory() {
  const { budget, peak, held, sampled } = data.memory;
  const curve = sampled ? highest(data.memory.curve, 20) : data.memory.curve;
  const buffers = peak - held, measured = samples().filter((each) => each.at <= 1);
  const isNear = budget <= 3 * peak;
  const top = (isNear ? Math.max(budget, peak) : peak * 1.3) * 1.1;
  const lines = [
    { points: curve.map(([at, value]) => [at, value + buffers]), stroke: "var(--written)", fill: "var(--read)" },
    { points: [[0, buffers], [1, buffers]], stroke: "var(--grid)", dash: "2 3", width: 1.5 },
  ];
  const entries = [["predicted", "var(--written)", "", "var(--read)"], [`buffers (${bytes(buffers)})`, "var(--grid)", "2 3"], ["budget", "var(--now)", "8 4"]];
  if (measured.some((each) => each.held)) {
    lines.push({ points: [[0, buffers], ...measured.map((each) => [each.at, each.held + buffers])], stroke: "var(--ink)", width: 1.6 });
    entries.splice(1, 0, ["measured", "var(--ink)", ""]);
  }
  const levels = isNear ? [{ value: budget, text: `budget ${bytes(budget)}`, stroke: "var(--now)", dash: "8 4" }] : [];
  levels.push({ value: peak, text: `predicted peak ${bytes(peak)}`, stroke: "var(--written)", dash: "1 4", side: "start" });
  if (isNear && Math.abs(budget - peak) < top * 0.09) { levels.pop(); }
  memoryChart = chart(find("memory-chart"), { label: `Memory during the run: at most ${bytes(peak)} of ${bytes(budget)}`, lines, levels, top, format: bytes, ends: ["start", "all data moved"] });
  key(find("memory-legend"), isNear ? entries : entries.slice(0, -1));
  const far = isNear ? "" : ` The budget of ${bytes(budget)} is far above the chart.`;
  const some = sampled ? " The run has many steps; the curve shows the most that some of them hold." : "";
  const none = curve.length ? "" : " Only the peak is drawn: this plan copies blocks as they are, moves nothing, or writes several targets at once.";
  const real = measured.length ? " The measured curve differs from the prediction step by step, because the run reads ahead and writes behind. It never exceeds the predicted peak." : "";
  find("memory-text").textContent = `The plan knows its memory before anything runs: array data in memory, and the buffers for reading and writing. The peak is ${bytes(peak)}.${far}${some}${none}${real}`;
  drawMarker();
}

/* A line in the chart of memory, at the step that the animation shows. */
function drawMarker() {
  if (!memoryChart || data.scenes.length > 1 || !scene().steps.length) return;
  memoryChart.root.querySelector(".marker")?.remove();
  const [read, held, carried] = scene().steps[state.step].slice(-3);
  const written = read - carried;
  const at = Math.max(0, Math.min(1, (read + Math.max(0, written - (held - carried))) / (2 * scene().bytes || 1)));
  const [bottom, top] = memoryChart.y, x = memoryChart.x(at);
  memoryChart.root.append(svg("line", { class: "marker", x1: x, x2: x, y1: bottom, y2: top, stroke: "var(--now)", "stroke-width": 1.5 }));
}

function drawRun() {
  const run = data.run;
  find("run").hidden = !run;
  if (!run) return;
  const moved = run.bytes.read + run.bytes.written;
  find("run-text").textContent = `The run took ${seconds(run.seconds)} and moved ${bytes(moved)}, ${bytes(moved / Math.max(run.seconds, 1e-6))} per second.` +
    (run.blocks_skipped ? ` ${number(run.blocks_skipped)} blocks were already there.` : "");
  const rows = [
    ["", run.blocks_skipped ? "predicted for all" : "predicted", "measured"],
    ["seeks to read", number(data.seeks.read), number(run.seeks.read)],
    ["seeks to write", number(data.seeks.write), number(run.seeks.write)],
    ["array data in memory", bytes(data.memory.held), bytes(run.held)],
    ["data and buffers in memory", bytes(data.memory.peak), "not more"],
    ["growth of the process", "", run.peak_memory === null ? "unknown" : bytes(run.peak_memory)],
  ];
  find("run-table").replaceChildren(...rows.map((row, at) => {
    const line = element("tr");
    line.append(...row.map((text) => element(at ? "td" : "th", text)));
    return line;
  }));
  const all = samples(), duration = all.at(-1)?.time || 1, n = Math.min(40, Math.max(4, Math.floor(all.length / 4)));
  const rates = { read: [], written: [] };
  for (const kind of ["read", "written"]) {
    let before = 0, place = 0, latest = 0;
    for (let bin = 1; bin <= n; bin += 1) {
      while (place < all.length && all[place].time <= (duration * bin) / n) { latest = all[place][kind]; place += 1; }
      const rate = (latest - before) / (duration / n);
      rates[kind].push([(bin - 1) / n, rate], [bin / n, rate]);
      before = latest;
    }
  }
  const top = Math.max(1, ...rates.read.map((each) => each[1]), ...rates.written.map((each) => each[1])) * 1.1;
  chart(find("throughput-chart"), {
    label: "Bytes of the array read and written per second", top, format: (value) => `${bytes(value)}/s`, ends: ["0 s", seconds(duration)],
    lines: [{ points: rates.read, stroke: "var(--now)", dash: "5 3" }, { points: rates.written, stroke: "var(--written)", fill: "var(--read)" }],
  });
  key(find("throughput-legend"), [["read", "var(--now)", "5 3"], ["written", "var(--written)", "", "var(--read)"]]);
}
