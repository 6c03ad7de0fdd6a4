/* The controls, and the first drawing. */

function drawAll() {
  drawLegend(); drawMemory(); drawRun(); drawSeeks(); drawCandidates();
  if (data.scenes.length) drawScene();
}

find("play").addEventListener("click", () => play(!state.timer));
find("back").addEventListener("click", () => { play(false); goTo(state.step - 1); });
find("forward").addEventListener("click", () => { play(false); goTo(state.step + 1); });
find("step").addEventListener("input", (event) => { play(false); goTo(Number(event.target.value)); });
find("player").addEventListener("keydown", (event) => {
  const moves = { ArrowLeft: state.step - 1, ArrowRight: state.step + 1, Home: 0, End: Infinity };
  if (event.target.tagName === "BUTTON" && event.key === " ") return;
  if (event.key === " ") play(!state.timer);
  else if (event.key in moves) { play(false); goTo(moves[event.key]); }
  else return;
  event.preventDefault();
});
let waiting = 0;
window.addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(drawAll); });
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", drawAll);

drawHead();
if (data.scenes.length) openScene(0);
drawAll();
