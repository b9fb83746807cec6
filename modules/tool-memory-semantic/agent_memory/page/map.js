// The map by meaning, on a canvas: ten thousand elements would be slow.

const EDGE = 24; // pixels around the points
const MOST_ZOOM = 400;
const TURN = Math.PI * 2;

// `x` and `y` are the middle of what is seen, in the units of the memories; `zoom` 1 shows all.
const view = { x: 0, y: 0, zoom: 1 };
let current = null; // the memory that the arrow keys have reached

// Grey points first, so that the coloured ones lie above them.
const drawn = [...memories].sort((a, b) => (a.hue < 0 ? 0 : 1) - (b.hue < 0 ? 0 : 1));
const pointSize = Math.max(5, 15 - Math.log10(memories.length + 1) * 2.5);
// The more points overlap, the fainter those must be that are filtered out.
const faded = 0.16 - Math.log10(memories.length + 1) * 0.03;
const extent = { x: farthest("x"), y: farthest("y") };

function farthest(axis) {
  return memories.reduce((most, memory) => Math.max(most, Math.abs(memory[axis])), 0) || 1;
}

function mapSize() {
  return { width: $("map").clientWidth, height: $("map").clientHeight };
}

// Pixels to a unit of the map.
function scale() {
  const { width, height } = mapSize();
  return view.zoom * Math.min((width / 2 - EDGE) / extent.x, (height / 2 - EDGE) / extent.y);
}

// A function that says where a memory is drawn, in pixels from the top left of the map.
function projection() {
  const { width, height } = mapSize();
  const unit = scale();
  return ({ x, y }) => [width / 2 + (x - view.x) * unit, height / 2 - (y - view.y) * unit];
}

// Drawing

function drawMap() {
  if (!hasMap) return;
  const canvas = $("map");
  const { width, height } = mapSize();
  const ratio = devicePixelRatio;
  canvas.width = Math.round(width * ratio); // which also clears it
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const spot = projection();
  drawLines(pen, spot);
  drawPoints(pen, spot, ratio);
  if (opened) ring(pen, spot(opened), 5, 2, style("--ink"));
  if (current && document.activeElement === canvas) {
    ring(pen, spot(current), 9, 3, style("--accent"));
  }
}

function drawPoints(pen, spot, ratio) {
  const stamps = new Map();
  for (let hue = -1; hue < HUES; hue += 1) stamps.set(hue, stamp(style(hueName(hue)), ratio));
  const shown = new Set(hits);
  const half = pointSize / 2 + 1;
  const layer = (some, opacity) => {
    pen.globalAlpha = opacity;
    for (const memory of some) {
      const [x, y] = spot(memory);
      pen.drawImage(stamps.get(memory.hue), x - half, y - half, half * 2, half * 2);
    }
  };
  layer(drawn.filter((memory) => !shown.has(memory)), faded);
  layer(drawn.filter((memory) => shown.has(memory)), 1);
  layer([opened, current].filter((memory) => shown.has(memory)), 1);
}

// A picture of a point: copying it is faster than drawing a circle.
function stamp(colour, ratio) {
  const made = element("canvas");
  const half = pointSize / 2 + 1;
  made.width = made.height = Math.ceil(half * 2 * ratio);
  const pen = made.getContext("2d");
  pen.scale(made.width / (half * 2), made.width / (half * 2));
  const rim = memories.length > 3000 ? 0 : 1;
  if (rim) disc(pen, half, half, pointSize / 2 + rim / 2, style("--card"));
  disc(pen, half, half, (pointSize - rim) / 2, colour);
  return made;
}

function disc(pen, x, y, radius, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, TURN);
  pen.fill();
}

// With a rim on both sides, so that it shows among many points, too.
function ring(pen, [x, y], away, width, colour) {
  for (const [line, ink] of [[width + 3, style("--card")], [width, colour]]) {
    pen.strokeStyle = ink;
    pen.lineWidth = line;
    pen.beginPath();
    pen.arc(x, y, pointSize / 2 + away, 0, TURN);
    pen.stroke();
  }
}

// From the opened memory to its neighbours.
function drawLines(pen, spot) {
  if (!opened) return;
  pen.strokeStyle = style("--ink");
  pen.globalAlpha = 0.45;
  pen.beginPath();
  for (const other of near) {
    pen.moveTo(...spot(opened));
    pen.lineTo(...spot(other));
  }
  pen.stroke();
  pen.globalAlpha = 1;
}

// The view

function look(x, y, zoom) {
  view.zoom = Math.max(1, Math.min(MOST_ZOOM, zoom));
  const within = (value, most) => Math.max(-most, Math.min(most, value));
  [view.x, view.y] = view.zoom === 1 ? [0, 0] : [within(x, extent.x), within(y, extent.y)];
  $("map").classList.toggle("zoomed", view.zoom > 1);
  hideTip();
  soon(drawMap);
}

// Zooms; what is at (`x`, `y`), in units of the map, stays in place.
function zoomMap(factor, { x, y } = current ?? opened ?? view) {
  const part = view.zoom / Math.max(1, Math.min(MOST_ZOOM, view.zoom * factor));
  look(x + (view.x - x) * part, y + (view.y - y) * part, view.zoom * factor);
}

function zoomAll() {
  look(0, 0, 1);
}
