"use strict";

// The scripts of the page are joined into one, in the order that __init__.py gives. Texts and tags
// reach the page only through textContent.

const HUES = 6; // tags that have a colour
const GIST_CHARS = 300;

const $ = (id) => document.getElementById(id);
const store = JSON.parse($("data").textContent);
const memories = store.memories.map((memory) => ({ // newest first
  ...memory,
  at: new Date(memory.time),
  hay: searchable([memory.text, ...memory.tags].join("\n")),
  hue: -1,
}));
const hasMap = memories.length > 0 && "x" in memories[0];
const filter = { words: [], tags: new Set(), period: null }; // period: first and last bin
let anyTime = memories; // what words and tags let through
let hits = memories; // what the period lets through as well
let opened = null;

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

// The list answers each key at once; the drawings follow once, with the next frame.
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

const formatted = (options) => {
  const format = new Intl.DateTimeFormat(undefined, options);
  return (date) => format.format(date);
};
const dayText = formatted({ day: "numeric", month: "short", year: "numeric" });
const localText = formatted({ dateStyle: "full", timeStyle: "short" });
const monthText = formatted({ month: "long", year: "numeric" });
const number = (value) => new Intl.NumberFormat("en").format(value);
const plural = (count) => `${number(count)} ${count === 1 ? "memory" : "memories"}`;

function gist(text) {
  if (text.length <= GIST_CHARS) return text;
  return text.slice(0, GIST_CHARS).replace(/[\uD800-\uDBFF]$/, "") + "…";
}

// Tells a screen reader about one memory, which nothing else on the page does.
function say(...parts) {
  $("spoken").replaceChildren(...parts.filter(Boolean).map((part) => element("p", "", part)));
}

function tagsText(memory) {
  return memory.tags.length ? `Tags: ${memory.tags.join(", ")}` : "";
}

// Elements

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function hueName(hue) {
  return hue < 0 ? "--other" : `--hue-${hue}`;
}

function style(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

function dot(hue) {
  const made = element("span", "dot");
  made.style.setProperty("--dot", `var(${hueName(hue)})`);
  return made;
}

// Makes many buttons one stop of the Tab key; the arrow keys go from one to the next. `more` adds
// some at the end and returns whether it could.
function rove(holder, selector, more = () => false) {
  holder.addEventListener("focusin", (event) => {
    const chosen = event.target.closest(selector);
    if (chosen) tabStop(holder, selector, chosen);
  });
  holder.addEventListener("keydown", (event) => {
    if (forTheBrowser(event)) return;
    const all = [...holder.querySelectorAll(selector)];
    const now = all.indexOf(document.activeElement);
    const to = {
      ArrowDown: now + 1,
      ArrowRight: now + 1,
      ArrowUp: now - 1,
      ArrowLeft: now - 1,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    if (now < 0 || to === undefined) return;
    event.preventDefault();
    const target = to === all.length && more() ? holder.querySelectorAll(selector)[to] : all[to];
    target?.focus();
  });
}

// Alt with the left arrow, for example, goes back to the page before.
function forTheBrowser(event) {
  return event.ctrlKey || event.metaKey || event.altKey;
}

function tabStop(holder, selector, chosen = holder.querySelector(selector)) {
  for (const each of holder.querySelectorAll(selector)) each.tabIndex = each === chosen ? 0 : -1;
}

// The label at the pointer, or at the point that has the focus; `box` is in pixels of the window.

function showTip(box, when, text, tags) {
  const tip = $("tip");
  tip.querySelector(".tip-when").textContent = when;
  tip.querySelector(".tip-text").textContent = text;
  tip.querySelector(".tip-tags").textContent = tags;
  tip.hidden = false;
  const most = innerWidth - tip.offsetWidth - 8;
  const left = Math.max(8, Math.min(most, (box.left + box.right - tip.offsetWidth) / 2));
  const above = box.top - tip.offsetHeight - 10;
  const top = above > 8 ? above : box.bottom + 12;
  tip.style.transform = `translate(${left}px, ${top}px)`;
}

function hideTip() {
  $("tip").hidden = true;
}
