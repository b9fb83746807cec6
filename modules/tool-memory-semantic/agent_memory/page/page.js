"use strict";

// Texts and tags reach the page by textContent alone, and never Plotly, which reads some HTML in
// labels: the legend, the labels at the pointer and the list are made here.
(() => {
  const HUES = 6;
  const LISTED = 100; // entries put into the list at a time
  const NEIGHBOURS = 5;
  const GIST_CHARS = 300;
  const FEW_CHIPS = 20;
  const MOST_CHIPS = 300;
  const DAY = 86_400_000;

  const $ = (id) => document.getElementById(id);
  const store = JSON.parse($("data").textContent);
  const memories = store.memories.map((memory) => ({
    ...memory,
    at: new Date(memory.time),
    hay: searchable([memory.text, ...memory.tags].join("\n")),
    hue: -1,
  }));
  const byId = new Map(memories.map((memory) => [memory.id, memory]));
  const tagCounts = countTags();
  const colours = colourTags();
  const bins = memories.length ? makeBins() : [];
  const filter = { words: [], tags: new Set(), period: null }; // period: first and last bin
  let anyTime = memories; // what words and tags let through
  let hits = memories; // what the period lets through as well
  let opened = null;
  let listed = LISTED;
  let allChips = false;

  const fine = matchMedia("(pointer: fine)").matches;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  // The list answers each key at once; the plots follow with the next frame, and once for all.
  const waiting = new Set();

  function soon(...tasks) {
    if (!waiting.size) {
      requestAnimationFrame(() => {
        const todo = [...waiting];
        waiting.clear();
        for (const task of todo) task();
      });
    }
    for (const task of tasks) waiting.add(task);
  }

  // Words

  function searchable(text) {
    return text.normalize("NFC").toLowerCase();
  }

  const format = (options) => {
    const formatter = new Intl.DateTimeFormat(undefined, options);
    return (date) => formatter.format(date);
  };
  const dayText = format({ day: "numeric", month: "short", year: "numeric" });
  const localText = format({ dateStyle: "full", timeStyle: "short" });
  const monthText = format({ month: "long", year: "numeric" });
  const number = (value) => new Intl.NumberFormat("en").format(value);
  const plural = (count) => `${number(count)} ${count === 1 ? "memory" : "memories"}`;

  function gist(text) {
    if (text.length <= GIST_CHARS) return text;
    return text.slice(0, GIST_CHARS).replace(/[\uD800-\uDBFF]$/, "") + "…";
  }

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Colours

  function style(variable) {
    return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  }

  function hueName(hue) {
    return hue < 0 ? "--other" : `--hue-${hue}`;
  }

  function dot(hue) {
    const made = element("span", "dot");
    made.style.setProperty("--dot", `var(${hueName(hue)})`);
    return made;
  }

  function countTags() {
    const counts = new Map();
    for (const { tags } of memories) {
      for (const tag of tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
    }
    return new Map([...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)));
  }

  // Each colour goes to the tag that most memories without a colour have. What more than half of
  // all memories have tells little, so it comes last.
  function colourTags() {
    const chosen = new Map();
    for (const frequent of [false, true]) {
      while (chosen.size < HUES) {
        const waiting = new Map();
        for (const memory of memories) {
          if (memory.hue >= 0) continue;
          for (const tag of memory.tags) {
            if (tagCounts.get(tag) > memories.length / 2 !== frequent) continue;
            waiting.set(tag, (waiting.get(tag) ?? 0) + 1);
          }
        }
        if (!waiting.size) break;
        const tag = [...waiting].reduce((best, next) => (next[1] > best[1] ? next : best))[0];
        const hue = chosen.size;
        chosen.set(tag, hue);
        for (const memory of memories) {
          if (memory.hue < 0 && memory.tags.includes(tag)) memory.hue = hue;
        }
      }
    }
    return chosen;
  }

  // Filter

  function inPeriod(memory) {
    return !filter.period || (memory.bin >= filter.period[0] && memory.bin <= filter.period[1]);
  }

  function matches(memory) {
    return (
      (!filter.tags.size || memory.tags.some((tag) => filter.tags.has(tag))) &&
      filter.words.every((word) => memory.hay.includes(word))
    );
  }

  function applyFilter() {
    anyTime = memories.filter(matches);
    hits = anyTime.filter(inPeriod);
    listed = LISTED;
    $("scroller").scrollTop = 0;
    showList();
    showChips();
    if (opened) $("tags").replaceChildren(...opened.tags.map(chip));
    const filtered = filter.words.length || filter.tags.size || filter.period;
    $("clear").hidden = !filtered;
    $("count").textContent = filtered
      ? `${number(hits.length)} of ${plural(memories.length)}`
      : plural(memories.length);
    $("period").hidden = !filter.period;
    if (filter.period) {
      const text = `${periodText(filter.period)} ✕`;
      $("period").textContent = text;
      $("period").setAttribute("aria-label", `Show all times, not only ${text}`);
    }
    soon(fade, drawTime);
  }

  function search() {
    filter.words = searchable($("words").value).split(/\s+/).filter(Boolean);
    applyFilter();
  }

  function clearFilter() {
    $("words").value = "";
    filter.words = [];
    filter.tags.clear();
    filter.period = null;
    applyFilter();
  }

  function toggleTag(tag) {
    if (!filter.tags.delete(tag)) filter.tags.add(tag);
    applyFilter();
  }

  function choosePeriod(period) {
    filter.period = period;
    applyFilter();
  }

  function toggleBin(bin) {
    const chosen = filter.period?.every((end) => end === bin);
    choosePeriod(chosen ? null : [bin, bin]);
  }

  // Tags

  function chip(tag) {
    const made = element("button", "chip");
    made.type = "button";
    made.dataset.tag = tag;
    made.setAttribute("aria-pressed", filter.tags.has(tag));
    if (colours.has(tag)) made.append(dot(colours.get(tag)));
    made.append(element("bdi", "", tag), element("small", "", number(tagCounts.get(tag))));
    made.title = tag;
    return made;
  }

  function showChips() {
    const focused = document.activeElement?.closest?.("#chips .chip")?.dataset.tag;
    // The chosen and the coloured ones first; in short form as many as fit into a line, or a few.
    const order = [...new Set([...colours.keys(), ...filter.tags, ...tagCounts.keys()])];
    const chips = order.slice(0, allChips ? MOST_CHIPS : FEW_CHIPS).map(chip);
    const toggle = element("button", "quiet");
    toggle.type = "button";
    toggle.id = "all-chips";
    toggle.setAttribute("aria-expanded", allChips);
    $("chips").replaceChildren(...chips, toggle);
    const tell = () => {
      const rest = order.length - chips.length;
      toggle.textContent = allChips ? "Fewer tags" : `${number(rest)} more`;
      toggle.hidden = !rest && !allChips;
    };
    tell();
    const lines = innerWidth < 700 ? 3 : innerWidth < 1000 ? 2 : 1;
    while (!allChips && chips.length > 1 && $("chips").offsetHeight > lines * 34) {
      chips.pop().remove();
      tell();
    }
    chips.find((made) => made.dataset.tag === focused)?.focus();
  }

  // List

  function entry(memory) {
    const button = element("button", "entry");
    button.type = "button";
    button.dataset.id = memory.id;
    const text = element("span", "gist", gist(memory.text));
    text.dir = "auto";
    const meta = element("span", "meta");
    const when = element("span", "", dayText(memory.at));
    when.prepend(dot(memory.hue));
    meta.append(when, ...memory.tags.map((tag) => element("bdi", "", tag)));
    button.append(text, meta);
    const item = element("li");
    item.append(button);
    return item;
  }

  function showList() {
    $("list").replaceChildren(...hits.slice(0, listed).map(entry));
    finishList();
  }

  function showMore() {
    $("list").append(...hits.slice(listed, listed + LISTED).map(entry));
    listed += LISTED;
    finishList();
  }

  function finishList() {
    const rest = hits.length - listed;
    $("more").hidden = rest <= 0;
    $("more").textContent = `Show ${number(Math.min(rest, LISTED))} more of ${number(rest)}`;
    markOpened();
    markFound();
  }

  function markOpened() {
    for (const button of $("list").querySelectorAll(".entry")) {
      button.toggleAttribute("aria-current", button.dataset.id === opened?.id);
      if (button.hasAttribute("aria-current")) button.setAttribute("aria-current", "true");
    }
  }

  // The words that were searched, marked without touching the text.
  function markFound() {
    if (!CSS.highlights) return;
    CSS.highlights.delete("found");
    if (!filter.words.length) return;
    const words = filter.words.map((word) => word.replace(/[\\^$.*+?()[\]{}|\/-]/g, "\\$&"));
    const pattern = new RegExp(words.join("|"), "gi");
    const found = new Highlight();
    for (const holder of [...$("list").querySelectorAll(".gist, bdi"), $("text")]) {
      const node = holder.firstChild;
      for (const match of node?.data.matchAll(pattern) ?? []) {
        const range = new Range();
        range.setStart(node, match.index);
        range.setEnd(node, match.index + match[0].length);
        found.add(range);
      }
    }
    CSS.highlights.set("found", found);
  }

  function moveInList(event) {
    const buttons = [...$("list").querySelectorAll(".entry")];
    const now = buttons.indexOf(document.activeElement);
    const last = buttons.length - 1;
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: last }[event.key];
    if (now < 0 || to === undefined) return;
    event.preventDefault();
    if (to === buttons.length && !$("more").hidden) {
      showMore();
      $("list").children[to].firstChild.focus();
    } else {
      buttons[to]?.focus();
    }
  }

  // The opened memory; the address says which one it is

  function openFromAddress() {
    const memory = byId.get(location.hash.slice(1));
    if (memory === (opened ?? undefined)) return;
    opened = memory ?? null;
    $("pane").hidden = !opened;
    if (opened) showOpened();
    markOpened();
    markFound();
    soon(drawRing);
  }

  function open(id) {
    location.hash = id;
  }

  function close() {
    const { id } = opened;
    history.pushState(null, "", "#");
    openFromAddress();
    [...$("list").querySelectorAll(".entry")].find((made) => made.dataset.id === id)?.focus();
  }

  function showOpened() {
    $("id").textContent = opened.id;
    $("copy").textContent = "Copy id";
    $("text").textContent = opened.text;
    $("tags").replaceChildren(...opened.tags.map(chip));
    const utc = opened.at.toISOString().slice(0, 16).replace("T", " ");
    $("when").textContent = `${localText(opened.at)} · ${utc} UTC`;
    const links = neighbours(opened).map((memory) => {
      const link = element("a");
      link.href = `#${memory.id}`;
      const text = element("span", "", gist(memory.text));
      text.dir = "auto";
      link.append(dot(memory.hue), text);
      const item = element("li");
      item.append(link);
      return item;
    });
    $("near").hidden = !links.length;
    $("near").querySelector("ul").replaceChildren(...links);
    $("pane").scrollTop = 0;
    const behavior = calm.matches ? "auto" : "smooth";
    const top = $("pane").getBoundingClientRect().top;
    if (top < 0 || top > innerHeight - 160) {
      $("pane").scrollIntoView({ block: "start", behavior });
    }
  }

  function neighbours(memory) {
    const distance = (other) => (other.x - memory.x) ** 2 + (other.y - memory.y) ** 2;
    return memories
      .filter((other) => other !== memory)
      .map((other) => [distance(other), other])
      .sort((a, b) => a[0] - b[0])
      .slice(0, NEIGHBOURS)
      .map(([, other]) => other);
  }

  async function copyId() {
    try {
      await navigator.clipboard.writeText(opened.id);
      $("copy").textContent = "Copied";
    } catch {
      getSelection().selectAllChildren($("id"));
      $("copy").textContent = "Selected";
    }
  }

  // Time, in days, weeks, months or years of the reader's own calendar

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

  // A label where a month or a year begins, or for each day, as far as there is room.
  function timeTicks(slots) {
    const { unit } = bins[0];
    const span = unit === "month" && bins.length > 24 ? "year" : unit;
    const name = {
      day: format({ day: "numeric", month: "short" }),
      week: format({ month: "short" }),
      month: format({ month: "short" }),
      year: format({ year: "numeric" }),
    }[span];
    const ends = bins.map(({ to }) => new Date(to - 1));
    const width = (($("time").clientWidth - 44) * bins.length) / slots;
    const room = Math.max(1, Math.floor(width / 64));
    let ticks = [...bins.keys()].filter(
      (bin) => bin === 0 || name(ends[bin]) !== name(ends[bin - 1]));
    const step = Math.ceil(ticks.length / room);
    ticks = ticks.filter((_, place) => place % step === 0);
    // A first month of few days would run into the second.
    if (ticks[1] < bins.length / room) ticks.shift();
    let year = span === "week" || span === "month" ? 0 : Infinity; // told where it changes
    const texts = ticks.map((bin) => {
      const text = name(ends[bin]);
      if (ends[bin].getFullYear() <= year) return text;
      year = ends[bin].getFullYear();
      return `${text} ${year}`;
    });
    return { tickvals: ticks, ticktext: texts };
  }

  // The two plots

  const config = {
    displayModeBar: false,
    displaylogo: false,
    responsive: true,
    doubleClick: false,
  };
  const hidden = { visible: false, zeroline: false, showgrid: false };
  const clear = { paper_bgcolor: "transparent", plot_bgcolor: "transparent", showlegend: false };
  // Grey points first, so that the coloured ones lie above them.
  const drawn = [...memories].sort((a, b) => (a.hue < 0 ? 0 : 1) - (b.hue < 0 ? 0 : 1));
  const pointSize = Math.max(5, 15 - Math.log10(memories.length + 1) * 2.5);

  // The more points lie upon each other, the fainter each must be.
  const faded = 0.16 - Math.log10(memories.length + 1) * 0.03;
  document.documentElement.style.setProperty("--faded", faded);

  function drawMap() {
    const palette = new Map();
    for (let hue = -1; hue < HUES; hue += 1) palette.set(hue, style(hueName(hue)));
    const points = {
      type: "scatter",
      mode: "markers",
      x: drawn.map((memory) => memory.x),
      y: drawn.map((memory) => memory.y),
      hoverinfo: "none",
      marker: {
        size: pointSize,
        color: drawn.map((memory) => palette.get(memory.hue)),
        line: { width: memories.length > 3000 ? 0 : 1, color: style("--card") },
        opacity: 1,
      },
    };
    const layout = {
      ...clear,
      margin: { l: 20, r: 20, t: 20, b: 20 },
      hovermode: "closest",
      hoverdistance: 14,
      dragmode: fine ? "pan" : false,
      xaxis: { ...hidden },
      yaxis: { ...hidden, scaleanchor: "x" },
      uirevision: "stay",
      shapes: ring(),
    };
    Plotly.react($("map"), [points], layout, { ...config, scrollZoom: fine });
    fade();
  }

  // By class: to let Plotly draw ten thousand points again takes a second.
  function fade() {
    const shown = new Set(hits);
    const paths = $("map").querySelectorAll(".points path");
    drawn.forEach((memory, index) => paths[index].classList.toggle("faded", !shown.has(memory)));
  }

  // The opened memory is ringed, with thin lines to its neighbours.
  function ring() {
    if (!opened) return [];
    const line = { color: style("--ink"), width: 1 };
    const lines = neighbours(opened).map((other) => ({
      type: "line",
      layer: "below",
      x0: opened.x,
      y0: opened.y,
      x1: other.x,
      y1: other.y,
      opacity: 0.45,
      line,
    }));
    const radius = pointSize / 2 + 5;
    return [
      ...lines,
      {
        type: "circle",
        xsizemode: "pixel",
        ysizemode: "pixel",
        xanchor: opened.x,
        yanchor: opened.y,
        x0: -radius,
        x1: radius,
        y0: -radius,
        y1: radius,
        line: { color: style("--ink"), width: 2 },
      },
    ];
  }

  function drawRing() {
    Plotly.relayout($("map"), { shapes: ring() });
  }

  function zoom(factor) {
    const { xaxis, yaxis } = $("map").layout;
    const around = (range, centre) => range.map((end) => centre + (end - centre) * factor);
    const middle = (range) => (range[0] + range[1]) / 2;
    Plotly.relayout($("map"), {
      "xaxis.range": around(xaxis.range, opened ? opened.x : middle(xaxis.range)),
      "yaxis.range": around(yaxis.range, opened ? opened.y : middle(yaxis.range)),
    });
  }

  function zoomAll() {
    Plotly.relayout($("map"), { "xaxis.autorange": true, "yaxis.autorange": true });
  }

  function font() {
    return { family: getComputedStyle(document.body).fontFamily, size: 12, color: style("--soft") };
  }

  function drawTime() {
    const layers = [...Array(HUES).keys(), -1];
    const counts = new Map([...layers, "rest"].map((layer) => [layer, bins.map(() => 0)]));
    for (const memory of anyTime) {
      counts.get(inPeriod(memory) ? memory.hue : "rest")[memory.bin] += 1;
    }
    const bars = [...counts].map(([layer, y]) => ({
      type: "bar",
      x: [...bins.keys()],
      y,
      hoverinfo: "none",
      marker: { color: style(layer === "rest" ? "--rest" : hueName(layer)), line: { width: 0 } },
    }));
    const slots = Math.max(12, bins.length); // a lone bar should not fill the card
    const middle = (bins.length - 1) / 2;
    const layout = {
      ...clear,
      margin: { l: 22, r: 22, t: 6, b: 24 },
      barmode: "stack",
      bargap: bins.length > 120 ? 0.1 : 0.25,
      hovermode: "x",
      hoverdistance: -1,
      dragmode: fine ? "select" : false,
      selectdirection: "h",
      newselection: { line: { color: style("--soft"), width: 1, dash: "solid" } },
      selections: [],
      font: font(),
      xaxis: {
        range: [middle - slots / 2, middle + slots / 2],
        fixedrange: true,
        showgrid: false,
        zeroline: false,
        tickmode: "array",
        ticklabeloverflow: "allow",
        tickangle: 0,
        ...timeTicks(slots),
      },
      yaxis: { ...hidden, fixedrange: true, rangemode: "tozero" },
    };
    Plotly.react($("time"), bars, layout, config);
    const [from, to] = filter.period ?? [];
    $("time").setAttribute("aria-valuemax", bins.length);
    $("time").setAttribute("aria-valuenow", filter.period ? from + 1 : 0);
    $("time").setAttribute("aria-valuetext", filter.period ? periodText([from, to]) : "all times");
  }

  function moveInTime(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const start = filter.period?.[0] ?? (step > 0 ? -1 : bins.length);
    const to = Math.max(0, Math.min(bins.length - 1, start + step));
    choosePeriod([to, to]);
  }

  // The label at the pointer

  function hoverPoint({ points: [point] }) {
    const memory = drawn[point.pointIndex];
    const text = gist(memory.text);
    showTip($("map"), point.bbox, dayText(memory.at), text, memory.tags.join(", "));
  }

  function hoverBar({ points: [point] }) {
    const count = anyTime.filter((memory) => memory.bin === point.x).length;
    showTip($("time"), point.bbox, binText(bins[point.x]), plural(count), "");
  }

  function showTip(plot, box, when, text, tags) {
    const tip = $("tip");
    tip.querySelector(".tip-when").textContent = when;
    tip.querySelector(".tip-text").textContent = text;
    tip.querySelector(".tip-tags").textContent = tags;
    tip.hidden = false;
    const origin = plot.getBoundingClientRect();
    const middle = origin.left + (box.x0 + box.x1) / 2;
    const most = innerWidth - tip.offsetWidth - 8;
    const left = Math.max(8, Math.min(most, middle - tip.offsetWidth / 2));
    const above = origin.top + box.y0 - tip.offsetHeight - 10;
    const top = above > 8 ? above : origin.top + box.y1 + 12;
    tip.style.transform = `translate(${left}px, ${top}px)`;
    plot.classList.add("pointing");
  }

  function hideTip() {
    $("tip").hidden = true;
    $("map").classList.remove("pointing");
    $("time").classList.remove("pointing");
  }

  function watchPlots() {
    $("map").on("plotly_hover", hoverPoint);
    $("map").on("plotly_unhover", hideTip);
    $("map").on("plotly_click", ({ points: [point] }) => open(drawn[point.pointIndex].id));
    $("map").on("plotly_relayouting", hideTip);
    $("map").on("plotly_doubleclick", zoomAll);
    $("time").on("plotly_hover", hoverBar);
    $("time").on("plotly_unhover", hideTip);
    $("time").on("plotly_click", ({ points: [point] }) => toggleBin(point.x));
    $("time").on("plotly_selected", (event) => {
      if (!event?.range) return;
      const bin = (end) => Math.max(0, Math.min(bins.length - 1, Math.round(end)));
      choosePeriod(event.range.x.map(bin).sort((a, b) => a - b));
    });
  }

  // Everything together

  function showHeader() {
    const facts = [plural(memories.length), `model ${store.model}`];
    if (memories.length) {
      const first = dayText(memories[memories.length - 1].at);
      const last = dayText(memories[0].at);
      facts.push(first === last ? first : `${first} – ${last}`);
    }
    $("facts").textContent = facts.join(" · ");
    $("bins").textContent = bins.length > 1 ? `by ${bins[0].unit}` : "";
    if (colours.size && memories.some((memory) => memory.hue < 0)) {
      $("legend").append(dot(-1), "other or no tag");
    }
  }

  function keys(event) {
    const typing = event.target.closest?.("input");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      $("words").select();
      $("words").focus();
    } else if (event.key === "Escape") {
      if (typing) {
        $("words").value = "";
        search();
      } else if (event.target === $("time") && filter.period) choosePeriod(null);
      else if (opened) close();
    }
  }

  showHeader();
  if (!memories.length) {
    $("empty").hidden = false;
    return;
  }
  for (const part of [$("search"), $("chips"), document.querySelector("main")]) part.hidden = false;
  $("words").addEventListener("input", search);
  $("search").addEventListener("submit", (event) => event.preventDefault());
  $("clear").addEventListener("click", clearFilter);
  $("period").addEventListener("click", () => choosePeriod(null));
  $("more").addEventListener("click", showMore);
  $("copy").addEventListener("click", copyId);
  $("close").addEventListener("click", close);
  $("zoom-in").addEventListener("click", () => zoom(0.6));
  $("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
  $("zoom-all").addEventListener("click", zoomAll);
  $("list").addEventListener("keydown", moveInList);
  $("time").addEventListener("keydown", moveInTime);
  $("list").addEventListener("click", (event) => {
    const button = event.target.closest(".entry");
    if (button) open(button.dataset.id);
  });
  for (const holder of [$("chips"), $("tags")]) {
    holder.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button?.id === "all-chips") {
        allChips = !allChips;
        showChips();
        $("all-chips").focus();
      } else if (button) toggleTag(button.dataset.tag);
    });
  }
  addEventListener("keydown", keys);
  addEventListener("hashchange", openFromAddress);
  addEventListener("scroll", hideTip, true);
  addEventListener("resize", () => soon(showChips, drawTime));
  dark.addEventListener("change", () => soon(drawMap, drawTime));
  drawMap();
  drawTime();
  watchPlots();
  applyFilter();
  openFromAddress();
})();
