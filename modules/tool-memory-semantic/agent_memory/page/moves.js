// Moving about the map, by keyboard and by pointer.

const REACH = 14; // pixels between the pointer and the point it means
const ZOOM_STEP = 1.6;
const WHEEL = 400; // pixels of the wheel that zoom by e
const LINE = 16; // pixels to a line, for wheels that count lines
const DIRECTIONS = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, 1],
  ArrowDown: [0, -1],
};

let held = null; // where the pointer took hold of the map

function mapKeys(event) {
  if (forTheBrowser(event)) return;
  const here = [current, opened].find((memory) => hits.includes(memory));
  const direction = DIRECTIONS[event.key];
  const step = { PageDown: 1, PageUp: -1 }[event.key];
  if (direction) goTo(here ? nearestTowards(here, direction) : hits[0]);
  else if (step) goTo(hits[hits.indexOf(here) + step]);
  else if (event.key === "Home") goTo(hits[0]);
  else if (event.key === "End") goTo(hits[hits.length - 1]);
  else if (event.key === "Enter" && here) openMemory(here);
  else if (event.key === "+" || event.key === "=") zoomMap(ZOOM_STEP);
  else if (event.key === "-") zoomMap(1 / ZOOM_STEP);
  else if (event.key === "0") zoomAll();
  else return;
  event.preventDefault();
}

// Of all circles that touch `here` and lie wholly in this direction, the smallest that reaches
// another memory decides: what is near wins, unless it is far off to the side.
function nearestTowards(here, [right, up]) {
  let [best, least] = [null, Infinity];
  for (const memory of hits) {
    const x = memory.x - here.x;
    const y = memory.y - here.y;
    const ahead = x * right + y * up;
    const size = ahead > 0 ? (x * x + y * y) / ahead : Infinity;
    if (size < least) [best, least] = [memory, size];
  }
  return best;
}

function goTo(memory) {
  if (!memory) return;
  current = memory;
  const { width, height } = mapSize();
  const [x, y] = projection()(memory);
  const seen = x >= EDGE && y >= EDGE && x <= width - EDGE && y <= height - EDGE;
  if (!seen && view.zoom > 1) look(memory.x, memory.y, view.zoom);
  tipAt(memory);
  const place = `${number(hits.indexOf(memory) + 1)} of ${number(hits.length)}`;
  say(gist(memory.text), tagsText(memory), dayText(memory.at), place);
  soon(drawMap);
}

function enterMap() {
  if (!$("map").matches(":focus-visible")) return; // it was clicked
  goTo([current, opened].find((memory) => hits.includes(memory)) ?? hits[0]);
}

function leaveMap() {
  hideTip();
  soon(drawMap);
}

function tipAt(memory) {
  const origin = $("map").getBoundingClientRect();
  const [x, y] = projection()(memory);
  const [left, top] = [origin.left + x, origin.top + y];
  const half = pointSize / 2;
  const box = { left: left - half, right: left + half, top: top - half, bottom: top + half };
  showTip(box, dayText(memory.at), gist(memory.text), memory.tags.join(", "));
}

// By pointer

function nearestTo({ offsetX, offsetY }) {
  const spot = projection();
  let [best, least] = [null, REACH];
  for (const memory of hits) {
    const [x, y] = spot(memory);
    const distance = Math.hypot(x - offsetX, y - offsetY);
    if (distance < least) [best, least] = [memory, distance];
  }
  return best;
}

function takeMap(event) {
  if (event.button !== 0) return;
  $("map").setPointerCapture(event.pointerId);
  held = { x: event.clientX, y: event.clientY, moved: false };
  current = null;
}

function moveOverMap(event) {
  if (held) dragMap(event);
  else {
    const memory = nearestTo(event);
    $("map").classList.toggle("pointing", Boolean(memory));
    if (memory) tipAt(memory);
    else hideTip();
  }
}

function dragMap({ clientX, clientY }) {
  const [right, down] = [clientX - held.x, clientY - held.y];
  if (!held.moved && Math.hypot(right, down) <= DRAG) return;
  held = { x: clientX, y: clientY, moved: true };
  look(view.x - right / scale(), view.y + down / scale(), view.zoom);
}

function releaseMap(event) {
  const memory = held && !held.moved ? nearestTo(event) : null;
  held = null;
  if (memory) openMemory(memory);
}

function turnWheel(event) {
  if (event.deltaY > 0 && view.zoom === 1) return; // the page may scroll
  event.preventDefault();
  const { width, height } = mapSize();
  const unit = scale();
  const under = {
    x: view.x + (event.offsetX - width / 2) / unit,
    y: view.y - (event.offsetY - height / 2) / unit,
  };
  const pixels = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : LINE);
  zoomMap(Math.exp(-pixels / WHEEL), under);
}

function watchMap() {
  const map = $("map");
  map.addEventListener("keydown", mapKeys);
  map.addEventListener("focus", enterMap);
  map.addEventListener("blur", leaveMap);
  map.addEventListener("pointerdown", takeMap);
  map.addEventListener("pointermove", moveOverMap);
  map.addEventListener("pointerup", releaseMap);
  map.addEventListener("pointercancel", () => (held = null));
  map.addEventListener("pointerleave", hideTip);
  map.addEventListener("dblclick", (event) => nearestTo(event) ?? zoomAll());
  map.addEventListener("wheel", turnWheel, { passive: false });
  $("zoom-in").addEventListener("click", () => zoomMap(ZOOM_STEP));
  $("zoom-out").addEventListener("click", () => zoomMap(1 / ZOOM_STEP));
  $("zoom-all").addEventListener("click", zoomAll);
  new ResizeObserver(() => soon(drawMap)).observe(map);
}
