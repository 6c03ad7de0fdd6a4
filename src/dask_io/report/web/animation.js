/* The animation: which blocks have been read, wait in memory, and have been written. */

const still = matchMedia("(prefers-reduced-motion: reduce)");
const state = { scene: 0, step: 0, view: "slice", axes: [0, 1, 2], fixed: [], follows: true, speed: 1, timer: 0 };
const scene = () => data.scenes[state.scene];
/* The bounds of a step along an axis: start and stop of what is read, then of what is complete. */
const bounds = (step, axis) => scene().along[axis][scene().steps[step][axis]];
const nAxes = () => scene().shape.length;
const named = (axis) => scene().axes[axis] || `axis ${axis}`;
/* Whether what a step writes consists of whole blocks of the target. */
const isWhole = (step) => scene().shape.every((_, axis) => scene().whole[axis][scene().steps[step][axis]]);

function pattern(context, kind) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const brush = tile.getContext("2d");
  brush.fillStyle = colour(kind);
  if (kind === "held") {
    brush.globalAlpha = 0.35; brush.fillRect(0, 0, 8, 8); brush.globalAlpha = 1;
    brush.strokeStyle = colour(kind); brush.lineWidth = 2.2;
    brush.beginPath();
    for (const shift of [-8, 0, 8]) { brush.moveTo(shift - 1, 9); brush.lineTo(shift + 9, -1); }
    brush.stroke();
  } else {
    brush.fillRect(0, 0, 8, 8);
    if (kind === "done" || kind === "now") { brush.fillStyle = colour("paper"); brush.fillRect(kind === "done" ? 1 : 0, 2, kind === "done" ? 3 : 8, kind === "done" ? 3 : 1.2); }
  }
  return context.createPattern(tile, "repeat");
}

function prepare(canvas, height) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

function inSlice(step, shown, from) {
  for (let axis = 0; axis < nAxes(); axis += 1) {
    if (shown.includes(axis)) continue;
    const range = bounds(step, axis);
    if (state.fixed[axis] < range[from] || state.fixed[axis] >= range[from + 1]) return false;
  }
  return true;
}

function drawSlice(side) {
  const canvas = find(`${side}-canvas`);
  const margin = { left: 4, top: 4, right: 4, bottom: 20 };
  const flat = nAxes() === 1;
  const [down, across] = flat ? [null, 0] : state.axes;
  const span = (axis) => (axis === null ? 1 : scene().corner[axis][1] - scene().corner[axis][0]) || 1;
  const width = canvas.clientWidth - margin.left - margin.right;
  const ratio = flat ? 0.2 : Math.min(1.15, Math.max(0.3, span(down) / span(across)));
  const height = width * ratio;
  const context = prepare(canvas, height + margin.top + margin.bottom);
  const x = (at) => margin.left + ((at - scene().corner[across][0]) / span(across)) * width;
  const y = (at) => (down === null ? margin.top + at * height : margin.top + ((at - scene().corner[down][0]) / span(down)) * height);
  const rows = (step, from) => (down === null ? [0, 0, 0, 0].map((_, n) => n % 2) : bounds(step, down)).slice(from, from + 2);
  const shown = [down, across];

  context.fillStyle = colour("paper");
  context.fillRect(margin.left, margin.top, width, height);
  context.save();
  context.beginPath(); context.rect(margin.left, margin.top, width, height); context.clip();
  const paint = (step, from, fill, outline) => {
    if (!inSlice(step, shown, from)) return;
    const [left, right] = bounds(step, across).slice(from, from + 2).map(x);
    const [top, bottom] = rows(step, from).map(y);
    if (right <= left || bottom <= top) return;
    context.fillStyle = fill;
    context.fillRect(left, top, right - left, bottom - top);
    if (outline) { context.strokeStyle = outline; context.lineWidth = 2.5; context.strokeRect(left + 1.25, top + 1.25, right - left - 2.5, bottom - top - 2.5); }
  };
  if (scene().steps.length) {
    const kinds = Object.fromEntries(["read", "now", "held", "written", "done"].map((kind) => [kind, pattern(context, kind)]));
    for (let step = 0; step <= state.step; step += 1) {
      if (side === "target") paint(step, 0, kinds.held);
      else if (step < state.step) paint(step, 0, kinds.read);
    }
    if (side === "source") paint(state.step, 0, kinds.now, colour("ink"));
    else for (let step = 0; step <= state.step; step += 1) paint(step, 2, step < state.step ? kinds.written : kinds.done, step === state.step && colour("ink"));
  }
  context.strokeStyle = colour("grid"); context.lineWidth = 1;
  context.beginPath();
  const lines = (axis, place, limit) => {
    const ends = axis === null ? [] : scene()[side].bounds[axis];
    if (ends === null) return;
    let before = -Infinity;
    for (const end of ends) {
      const at = Math.round(place(end)) + 0.5;
      if (at - before >= 3 || ends.length * 3 < limit) { draw(at); before = at; }
    }
    function draw(at) {
      if (axis === across) { context.moveTo(at, margin.top); context.lineTo(at, margin.top + height); }
      else { context.moveTo(margin.left, at); context.lineTo(margin.left + width, at); }
    }
  };
  const dense = [[down, height], [across, width]].filter(([axis, room]) => axis !== null && isDense(side, axis, room));
  if (!isDense(side, down, height)) lines(down, y, height);
  if (!isDense(side, across, width)) lines(across, x, width);
  context.stroke();
  context.restore();
  context.strokeStyle = colour("ink");
  context.strokeRect(margin.left, margin.top, width, height);
  context.fillStyle = colour("soft"); context.font = "12px system-ui, sans-serif"; context.textBaseline = "top";
  const label = down === null ? `${named(0)} →` : `${named(across)} →   ${named(down)} ↓`;
  context.fillText(label, margin.left, margin.top + height + 5);
  return dense.map(([axis]) => axis);
}

/* Blocks narrower than three pixels are not drawn. */
function isDense(side, axis, room) {
  if (axis === null) return false;
  const ends = scene()[side].bounds[axis];
  return ends === null || (ends.length + 1) * 3 > room;
}

function drawSolid(side) {
  const canvas = find(`${side}-canvas`);
  const [deep, down, across] = [state.axes[2], state.axes[0], state.axes[1]];
  const size = (axis) => scene().corner[axis][1] - scene().corner[axis][0] || 1;
  const longest = Math.max(size(deep), size(down), size(across));
  const unit = (axis) => Math.max(0.25, size(axis) / longest) / size(axis);
  const [a, b, c] = [across, deep, down].map((axis) => size(axis) * unit(axis));
  const room = canvas.clientWidth - 8;
  const scale = Math.min(room / ((a + b) * 0.866), 1.1 * room / (c + (a + b) / 2));
  const context = prepare(canvas, (c + (a + b) / 2) * scale + 24);
  const shift = [(canvas.clientWidth - (a - b) * 0.866 * scale) / 2, 4];
  const at = (u, v, w) => [shift[0] + (u - v) * 0.866 * scale, shift[1] + ((u + v) / 2 + w) * scale];
  const place = (axis, value) => (value - scene().corner[axis][0]) * unit(axis);
  const face = (corners, fill, shade) => {
    context.beginPath();
    corners.forEach((corner, n) => (n ? context.lineTo(...at(...corner)) : context.moveTo(...at(...corner))));
    context.closePath();
    context.fillStyle = fill; context.fill();
    if (shade) { context.fillStyle = `rgba(0,0,0,${shade})`; context.fill(); }
    context.stroke();
  };
  context.lineWidth = 1; context.strokeStyle = colour("line");
  const none = "rgba(0,0,0,0)";
  face([[0, 0, 0], [a, 0, 0], [a, 0, c], [0, 0, c]], none);
  face([[0, 0, 0], [0, b, 0], [0, b, c], [0, 0, c]], none);
  face([[0, 0, c], [a, 0, c], [a, b, c], [0, b, c]], none);
  const from = side === "source" ? 0 : 2;
  const boxes = [];
  for (let step = 0; step <= state.step && step < scene().steps.length; step += 1) {
    if (!inSlice(step, [deep, down, across], from)) continue;
    const box = [across, deep, down].map((axis) => {
      const [low, high] = bounds(step, axis).slice(from, from + 2);
      const [start, stop] = scene().corner[axis];
      return [place(axis, Math.max(low, start)), place(axis, Math.min(high, stop))];
    });
    if (box.every(([low, high]) => high > low)) boxes.push([box, step === state.step]);
  }
  /* From back to front: lower boxes first, then those further away. */
  boxes.sort(([p], [q]) => q[2][0] - p[2][0] || p[0][0] + p[1][0] - q[0][0] - q[1][0]);
  const fills = side === "source" ? [colour("read"), colour("now")] : [colour("written"), colour("done")];
  context.strokeStyle = colour("ink"); context.lineWidth = 0.6;
  for (const [[[u, U], [v, V], [w, W]], isNow] of boxes) {
    const fill = fills[Number(isNow)];
    face([[u, v, w], [U, v, w], [U, V, w], [u, V, w]], fill, 0);
    face([[U, v, w], [U, V, w], [U, V, W], [U, v, W]], fill, 0.3);
    face([[u, V, w], [U, V, w], [U, V, W], [u, V, W]], fill, 0.15);
  }
  context.fillStyle = colour("soft"); context.font = "12px system-ui, sans-serif"; context.textBaseline = "bottom";
  context.fillText(`${named(across)} ↘  ${named(deep)} ↙  ${named(down)} ↓`, 4, canvas.clientHeight - 2);
  return [];
}

function swatch(kind) {
  const canvas = element("canvas", "", { "aria-hidden": "true" });
  canvas.width = 22; canvas.height = 14;
  const context = canvas.getContext("2d");
  context.fillStyle = kind === "none" ? colour("paper") : pattern(context, kind);
  context.fillRect(0, 0, 22, 14);
  context.strokeStyle = colour("grid"); context.strokeRect(0.5, 0.5, 21, 13);
  return canvas;
}

function drawLegend() {
  const words = { none: "not yet", now: "read in this step", read: "read before", held: "waits in memory", done: "written in this step", written: "written before" };
  const solid = state.view === "solid";
  find("legend").replaceChildren(...Object.entries(words).filter(([kind]) => !solid || kind !== "held").map(([kind, text]) => {
    const item = element("li");
    item.append(swatch(kind), text);
    return item;
  }));
}

function drawScene() {
  const now = scene(), last = now.steps.length - 1;
  if (state.follows && last >= 0) {
    for (let axis = 0; axis < nAxes(); axis += 1) {
      /* A position where the step both reads and, if it completes anything, writes. */
      const [start, stop, doneStart, doneStop] = bounds(state.step, axis);
      state.fixed[axis] = Math.min(stop - 1, doneStop > doneStart ? Math.max(start, doneStart) : start);
    }
    for (const slider of document.querySelectorAll("[data-fixed]")) slider.value = state.fixed[slider.dataset.fixed];
  }
  for (const side of ["source", "target"]) {
    const dense = (state.view === "solid" ? drawSolid : drawSlice)(side);
    const title = side === "source" ? "Source: what has been read" : "Target: what has been written";
    const note = dense.length ? `; too thin to draw along ${dense.map(named).join(" and ")}` : "";
    find(`${side}-caption`).replaceChildren(title, element("small", `${blocks(now[side])}${note}`));
  }
  find("step").max = Math.max(0, last);
  find("step").value = state.step;
  if (last < 0) { find("status").textContent = "The array is empty: there is nothing to move."; return; }
  const [read, held, carried] = now.steps[state.step].slice(-3);
  const ranges = (from) => now.shape.map((_, axis) => bounds(state.step, axis).slice(from, from + 2));
  const done = ranges(2);
  const writes = done.every(([low, high]) => high > low);
  const verb = isWhole(state.step) ? "completes and writes" : "writes the parts of blocks in";
  const region = (each) => each.map(([low, high]) => `${low}:${high}`).join(", ");
  const shown = now.is_whole ? number(now.n_steps) : `${number(last + 1)} shown`;
  const text = `Step ${number(state.step + 1)} of ${shown}: reads ${region(ranges(0))}; ` +
    `${writes ? `${verb} ${region(done)}` : "writes nothing yet"}. ` +
    `In memory: ${bytes(held)}, then ${bytes(carried)}. ${Math.floor((100 * read) / now.bytes)} % of the array has been read.`;
  find("status").textContent = text;
  find("step").setAttribute("aria-valuetext", text);
  find("source-canvas").setAttribute("aria-label", `Source. ${text}`);
  find("target-canvas").setAttribute("aria-label", `Target. ${text}`);
  drawMarker();
}

function goTo(step) {
  state.step = Math.min(Math.max(0, step), Math.max(0, scene().steps.length - 1));
  drawScene();
}

function play(on) {
  clearInterval(state.timer);
  state.timer = 0;
  const last = scene().steps.length - 1;
  if (on && state.step >= last) state.step = 0;
  if (on && last > 0) {
    /* All steps in about twenty seconds, but with reduced motion at most two pictures a second. */
    const wait = still.matches ? 500 : Math.min(700, Math.max(40, 20000 / last / state.speed));
    const stride = still.matches ? 1 : Math.max(1, Math.round((last * state.speed * wait) / 20000));
    state.timer = setInterval(() => {
      goTo(state.step + stride);
      if (state.step >= last) play(false);
    }, wait);
  }
  const button = find("play");
  button.setAttribute("aria-pressed", String(state.timer !== 0));
  button.replaceChildren(state.timer ? "❚❚" : "▶", element("span", state.timer ? "Pause" : "Play"));
  find("status").setAttribute("aria-live", state.timer ? "off" : "polite");
}

function select(name, options, value, changed) {
  const label = element("label", name);
  const chosen = element("select");
  for (const [key, text] of options) {
    const option = element("option", text, { value: key });
    option.selected = String(key) === String(value);
    chosen.append(option);
  }
  chosen.addEventListener("change", () => changed(chosen.value));
  label.append(chosen);
  return label;
}

function drawChoices() {
  const n = nAxes(), made = [];
  const names = scene().shape.map((length, axis) => [axis, `${named(axis)} (${number(length)})`]);
  const choose = (place) => (value) => {
    const taken = state.axes.indexOf(Number(value));
    if (taken >= 0) state.axes[taken] = state.axes[place];
    state.axes[place] = Number(value);
    drawChoices(); drawScene();
  };
  if (data.scenes.length > 1) made.push(select("Show", data.scenes.map((each, at) => [at, each.name]), state.scene, (value) => openScene(Number(value))));
  if (n > 2) made.push(select("View", [["slice", "slice"], ["solid", "three axes"]], state.view, (value) => { state.view = value; drawChoices(); drawLegend(); drawScene(); }));
  if (n > 1) made.push(select("Down", names, state.axes[0], choose(0)), select("Across", names, state.axes[1], choose(1)));
  if (n > 2 && state.view === "solid") made.push(select("Depth", names, state.axes[2], choose(2)));
  const shown = state.axes.slice(0, state.view === "solid" ? 3 : 2);
  const others = n > 2 ? names.filter(([axis]) => !shown.includes(axis)) : [];
  for (const [axis] of others) {
    const [low, high] = scene().corner[axis];
    const label = element("label", `Position along ${named(axis)}`);
    const slider = element("input", "", { type: "range", min: low, max: Math.max(low, high - 1), "data-fixed": axis });
    slider.value = state.fixed[axis];
    slider.addEventListener("input", () => { state.follows = false; follow.checked = false; state.fixed[axis] = Number(slider.value); drawScene(); });
    label.append(slider);
    made.push(label);
  }
  const follow = element("input", "", { type: "checkbox" });
  if (others.length) {
    follow.checked = state.follows;
    follow.addEventListener("change", () => { state.follows = follow.checked; drawScene(); });
    const label = element("label", "", { class: "inline" });
    label.append(follow, "follow the steps");
    made.push(label);
  }
  made.push(select("Speed", [[0.25, "slow"], [1, "normal"], [4, "fast"]], state.speed, (value) => { state.speed = Number(value); if (state.timer) play(true); }));
  find("choices").replaceChildren(...made);
}

function openScene(at) {
  play(false);
  state.scene = at;
  const now = scene();
  const isCut = (axis) => [now.source, now.target].some((side) => side.bounds[axis] === null || side.bounds[axis].length);
  const axes = now.shape.map((_, axis) => axis);
  state.axes = [...axes.filter(isCut), ...axes.filter((axis) => !isCut(axis))];
  state.axes = [...state.axes.slice(0, 3).sort((one, other) => one - other), ...state.axes.slice(3)];
  if (axes.length > 2) state.axes = [state.axes[1], state.axes[2], state.axes[0]];
  state.view = "slice";
  state.fixed = now.corner.map(([low]) => low);
  /* Before anyone plays, a step in the middle that writes shows every state. */
  const writes = (step) => axes.every((axis) => bounds(step, axis)[3] > bounds(step, axis)[2]);
  const middle = Math.floor(now.steps.length * 0.55);
  const found = now.steps.slice(middle).findIndex((_, at) => writes(middle + at));
  state.step = middle + Math.max(0, found);
  const left = data.left_out ? ` ${number(data.left_out)} more parts are not shown.` : "";
  const part = now.is_whole ? "" : `The array is large, so this shows only the corner ${now.corner.map(([low, high]) => `${low}:${high}`).join(", ")}, where the run begins: ${number(now.steps.length)} of ${number(now.n_steps)} steps. The others continue in the same way.`;
  const whole = now.steps.every((_, step) => isWhole(step));
  const how = whole ? "Target blocks that are now complete are written. Everything else waits in memory." : "It writes target blocks in parts, as far as they are in memory.";
  find("how").textContent = `Each step reads one box of the source. ${how}`;
  find("scene-note").hidden = !(part || left);
  find("scene-note").textContent = part + left;
  drawChoices(); drawLegend(); drawScene();
}
