// Tags: how many memories have each, its colour, and the buttons that filter by it.

const FEW_CHIPS = 20;
const MOST_CHIPS = 300;
const CHIP = ".chip, #all-chips:not([hidden])";

const tagCounts = countTags();
const colours = colourTags();
let allChips = false;

function countTags() {
  const counts = new Map();
  for (const { tags } of memories) {
    for (const tag of tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  }
  return new Map([...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)));
}

// Each colour goes to the tag that most memories still without a colour have. A tag that more than
// half of all memories have says little, so it comes last.
function colourTags() {
  const chosen = new Map();
  for (const frequent of [false, true]) {
    while (chosen.size < HUES) {
      const colourless = new Map();
      for (const memory of memories) {
        if (memory.hue >= 0) continue;
        for (const tag of memory.tags) {
          if (tagCounts.get(tag) > memories.length / 2 !== frequent) continue;
          colourless.set(tag, (colourless.get(tag) ?? 0) + 1);
        }
      }
      if (!colourless.size) break;
      const tag = [...colourless].reduce((best, next) => (next[1] > best[1] ? next : best))[0];
      const hue = chosen.size;
      chosen.set(tag, hue);
      for (const memory of memories) {
        if (memory.hue < 0 && memory.tags.includes(tag)) memory.hue = hue;
      }
    }
  }
  return chosen;
}

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
  const focused = focusedTag("chips");
  // The chosen and the coloured ones first; in short form only as many as fit on a line, or a few.
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
  tabStop($("chips"), CHIP);
  focusTag("chips", focused);
}

// Chips are made again with each change; the focus stays on the same tag.

function focusedTag(holder) {
  return document.activeElement?.closest(`#${holder} .chip`)?.dataset.tag;
}

function focusTag(holder, tag) {
  if (tag === undefined) return;
  [...$(holder).querySelectorAll(".chip")].find((made) => made.dataset.tag === tag)?.focus();
}

function pressChip(event) {
  const button = event.target.closest("button");
  if (button?.id === "all-chips") {
    allChips = !allChips;
    showChips();
    $("all-chips").focus();
  } else if (button) toggleTag(button.dataset.tag);
}
