/* The seeks of all strategies, and the reason for the choice. */

const meanings = {
  sweep: "goes through the array once and keeps what is incomplete in memory",
  bundle: "writes all targets from one sweep",
  keep: "the published resplit algorithm",
  naive: "reads a block and writes its parts at once, like a simple loop",
  clustered: "a published algorithm for splits and merges",
  multiple: "a published algorithm for splits and merges",
  reread: "reads some blocks several times to save memory",
  spill: "goes through scratch files on disk, in two passes",
  copy: "copies stored blocks unchanged",
  series: "moves several arrays one after another",
};

function drawSeeks() {
  const total = data.seeks.read + data.seeks.write;
  const rows = data.candidates.filter((each) => each.seeks).map((each) => [each.strategy, each.seeks, each.chosen]);
  if (!rows.length) rows.push([data.strategy, total, true]);
  if (data.naive) rows.push(["naive", data.naive, false]);
  rows.sort((one, other) => other[1] - one[1]);
  rows.push(["lower bound", data.seeks.lower_bound, false]);
  const lowest = Math.max(0, Math.floor(Math.log10(Math.max(1, data.seeks.lower_bound))) - 1);
  const decades = Math.max(1, Math.ceil(Math.log10(Math.max(10, ...rows.map((row) => row[1]))) - lowest));
  const list = find("seeks");
  list.style.setProperty("--decade", `${100 / decades}%`);
  list.replaceChildren(...rows.map(([name, seeks, chosen]) => {
    const bound = name === "lower bound";
    const row = element("div", "", { class: `bar${chosen ? " chosen" : ""}${bound ? " bound" : ""}`, role: "listitem" });
    const part = Math.max(0.5, (100 * (Math.log10(Math.max(1, seeks)) - lowest)) / decades);
    const track = element("div", "", { class: "track" }), fill = element("div", "", { class: "fill" });
    fill.style.width = `${Math.min(100, part)}%`;
    const value = element("span", number(seeks), { class: `value${part > 55 ? " inside" : ""}` });
    if (part > 55) fill.append(value); else { value.style.left = `${part}%`; }
    if (part > 55) value.style.top = "-.1rem";
    track.append(fill, ...(part > 55 ? [] : [value]));
    row.append(element("div", `${name}${chosen ? " ✓" : ""}`, { class: "name" }), track);
    return row;
  }));
}

function drawCandidates() {
  find("strategies").hidden = !data.candidates.length;
  find("reason").textContent = data.reason && `${data.reason[0].toUpperCase()}${data.reason.slice(1)}.`;
  const names = ["strategy", "seeks", "memory", "steps", "time"];
  const head = element("thead"), first = element("tr"), body = element("tbody");
  first.append(...names.map((name) => element("th", name, { scope: "col" })));
  head.append(first);
  for (const each of data.candidates) {
    const row = element("tr", "", each.chosen ? { class: "chosen" } : {});
    const name = element("td", `${each.strategy}${each.chosen ? " ✓ chosen" : ""}`);
    name.append(element("small", meanings[each.strategy] ?? ""));
    row.append(name);
    if (each.seeks === null) {
      row.append(element("td", `does not fit${each.why_not ? `: ${each.why_not}` : ""}`, { colspan: 4, class: "wide" }));
    } else {
      const values = [number(each.seeks), each.memory, number(each.steps), each.seconds];
      row.append(...values.map((value, at) => element("td", value, { "data-label": names[at + 1] })));
    }
    body.append(row);
  }
  find("candidates").replaceChildren(head, body);
}
