// Memories over time, in days, weeks, months or years of the reader's own calendar.

const DAY = 86_400_000;
const SIDE = 22; // pixels left and right of the bars, for half a label
const FOOT = 24; // pixels below them
const FEWEST_SLOTS = 12; // a lone bar should not fill the card
const DRAG = 4; // pixels that a click may stray
const SVG = "http://www.w3.org/2000/svg";

const bins = memories.length ? makeBins() : [];
let dragged = null; // from and to, in pixels

function makeBins() {
  const first = memories[memories.length - 1].at;
  const last = memories[0].at;
  const days = (last - first) / DAY;
  const unit = days <= 45 ? "day" : days <= 550 ? "week" : days <= 3650 ? "month" : "year";
  const start = new Date(first); // not from numbers: a year below 100 would be one of the 1900s
  start.setHours(0, 0, 0, 0);
  if (unit === "week") start.setDate(start.getDate() - ((start.getDay() + 6) % 7));
  if (unit === "month" || unit === "year") start.setDate(1);
  if (unit === "year") start.setMonth(0);
  const made = [];
  for (let from = start; from <= last; ) {
    const to = new Date(from);
    if (unit === "day") to.setDate(to.getDate() + 1);
    else if (unit === "week") to.setDate(to.getDate() + 7);
    else if (unit === "month") to.setMonth(to.getMonth() + 1);
    else to.setFullYear(to.getFullYear() + 1);
    to.setHours(0, 0, 0, 0); // where summer time begins at midnight, a day begins at one
    made.push({ from, to, unit });
    from = to;
  }
  let bin = made.length - 1; // memories come newest first
  for (const memory of memories) {
    while (memory.at < made[bin].from) bin -= 1;
    memory.bin = bin;
  }
  return made;
}

function binText({ from, to, unit }) {
  if (unit === "year") return String(from.getFullYear());
  if (unit === "month") return monthText(from);
  return unit === "day" ? dayText(from) : `${dayText(from)} – ${dayText(new Date(to - 1))}`;
}

function periodText([first, last]) {
  if (first === last) return binText(bins[first]);
  if (bins[0].unit === "year") return `${binText(bins[first])} – ${binText(bins[last])}`;
  return `${dayText(bins[first].from)} – ${dayText(new Date(bins[last].to - 1))}`;
}

// Where each bin is, in pixels from the left of the drawing.
function slots() {
  const room = $("time").clientWidth - 2 * SIDE;
  const width = room / Math.max(FEWEST_SLOTS, bins.length);
  return { width, left: SIDE + (room - width * bins.length) / 2 };
}

function binAt(x) {
  const { width, left } = slots();
  return Math.max(0, Math.min(bins.length - 1, Math.floor((x - left) / width)));
}

function drawTime() {
  const { width, left } = slots();
  const height = $("time").clientHeight - FOOT;
  const gap = width * (bins.length > 120 ? 0.1 : 0.25);
  const layers = [...Array(HUES).keys(), -1, "rest"]; // from the ground up
  const counts = bins.map(() => new Map());
  for (const memory of anyTime) {
    const layer = inPeriod(memory) ? memory.hue : "rest";
    counts[memory.bin].set(layer, (counts[memory.bin].get(layer) ?? 0) + 1);
  }
  const totals = counts.map((count) => [...count.values()].reduce((a, b) => a + b, 0));
  const unit = (height - 6) / Math.max(1, ...totals);
  const shapes = [];
  counts.forEach((count, bin) => {
    let y = height;
    for (const layer of layers.filter((each) => count.has(each))) {
      y -= count.get(layer) * unit;
      const x = left + bin * width + gap / 2;
      const bar = rectangle("bar", x, y, width - gap, count.get(layer) * unit);
      bar.style.setProperty("--dot", `var(${layer === "rest" ? "--rest" : hueName(layer)})`);
      bar.dataset.count = count.get(layer);
      bar.classList.toggle("rest", layer === "rest");
      shapes.push(bar);
    }
  });
  if (dragged) {
    const [from, to] = [...dragged].sort((a, b) => a - b);
    shapes.push(rectangle("dragged", from, 0, to - from, height));
  }
  $("time").firstElementChild.replaceChildren(...shapes, ...labels(left, width, height));
}

function rectangle(className, x, y, width, height) {
  const made = document.createElementNS(SVG, "rect");
  made.setAttribute("class", className);
  for (const [name, value] of Object.entries({ x, y, width, height })) {
    made.setAttribute(name, value.toFixed(2));
  }
  return made;
}

function labels(left, width, height) {
  return ticks(width).map(([bin, text]) => {
    const made = document.createElementNS(SVG, "text");
    made.setAttribute("x", left + (bin + 0.5) * width);
    made.setAttribute("y", height + 16);
    made.textContent = text;
    return made;
  });
}

// A label where a month or a year begins, or for each day, as far as there is room.
function ticks(width) {
  const { unit } = bins[0];
  const span = unit === "month" && bins.length > 24 ? "year" : unit;
  const name = formatted({
    day: { day: "numeric", month: "short" },
    week: { month: "short" },
    month: { month: "short" },
    year: { year: "numeric" },
  }[span]);
  const ends = bins.map(({ to }) => new Date(to - 1));
  const room = Math.max(1, Math.floor((width * bins.length) / 64));
  let labelled = [...bins.keys()].filter(
    (bin) => bin === 0 || name(ends[bin]) !== name(ends[bin - 1]));
  const step = Math.ceil(labelled.length / room);
  labelled = labelled.filter((_, place) => place % step === 0);
  // The label of a first month with few days would run into the second.
  if (labelled[1] < bins.length / room) labelled.shift();
  let year = span === "week" || span === "month" ? 0 : Infinity; // shown where it changes
  return labelled.map((bin) => {
    const text = name(ends[bin]);
    if (ends[bin].getFullYear() <= year) return [bin, text];
    year = ends[bin].getFullYear();
    return [bin, `${text} ${year}`];
  });
}

// By keyboard it is a slider, from one period that has memories to the next.

function tellTime() {
  const { period } = filter;
  const time = $("time");
  time.setAttribute("aria-valuemax", bins.length);
  time.setAttribute("aria-valuenow", period ? period[0] + 1 : 0);
  const text = period ? `${periodText(period)}: ${plural(hits.length)}` : "all times";
  time.setAttribute("aria-valuetext", text);
}

function moveInTime(event) {
  if (forTheBrowser(event)) return;
  const { period } = filter;
  if (event.key === "Enter" && hits.length) {
    openMemory(hits[0]);
    return;
  }
  const forward = { ArrowLeft: false, ArrowRight: true, Home: true, End: false }[event.key];
  if (forward === undefined) return;
  event.preventDefault();
  const start = event.key.startsWith("Arrow") ? period?.[forward ? 1 : 0] : undefined;
  const used = [...new Set(anyTime.map((memory) => memory.bin))]; // newest first
  const to = forward
    ? used.findLast((bin) => bin > (start ?? -1))
    : used.find((bin) => bin < (start ?? bins.length));
  if (to === undefined) return;
  const wider = event.shiftKey && period;
  choosePeriod(wider ? [Math.min(to, period[0]), Math.max(to, period[1])] : [to, to]);
}

function watchTime() {
  const time = $("time");
  const xOf = (event) => event.clientX - time.getBoundingClientRect().left;
  time.addEventListener("keydown", moveInTime);
  time.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    time.setPointerCapture(event.pointerId);
    dragged = [xOf(event), xOf(event)];
  });
  time.addEventListener("pointermove", (event) => {
    if (dragged) {
      dragged[1] = xOf(event);
      hideTip();
      soon(drawTime);
    } else hoverBar(binAt(xOf(event)));
  });
  time.addEventListener("pointerup", () => {
    if (!dragged) return;
    const [from, to] = dragged;
    dragged = null;
    const chosen = [from, to].map(binAt).sort((a, b) => a - b);
    const again = filter.period?.every((end) => end === chosen[0]);
    if (Math.abs(to - from) > DRAG) choosePeriod(chosen);
    else choosePeriod(again ? null : [binAt(from), binAt(from)]);
  });
  time.addEventListener("pointercancel", () => {
    dragged = null;
    soon(drawTime);
  });
  time.addEventListener("pointerleave", hideTip);
}

function hoverBar(bin) {
  const count = anyTime.filter((memory) => memory.bin === bin).length;
  const { width, left } = slots();
  const { x, top, bottom } = $("time").getBoundingClientRect();
  const box = { left: x + left + bin * width, right: x + left + (bin + 1) * width, top, bottom };
  showTip(box, binText(bins[bin]), plural(count), "");
}
