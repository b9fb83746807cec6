// The list, some at a time.

const LISTED = 100; // entries put into the list at a time
let listed = LISTED;

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
  listed = LISTED;
  $("scroller").scrollTop = 0;
  $("list").replaceChildren(...hits.slice(0, listed).map(entry));
  tabStop($("list"), ".entry");
  finishList();
}

// Adds more entries to the list, and returns whether there were any.
function showMore() {
  const next = hits.slice(listed, listed + LISTED).map(entry);
  for (const item of next) item.firstChild.tabIndex = -1;
  $("list").append(...next);
  listed += LISTED;
  finishList();
  return next.length > 0;
}

function pressMore() {
  const first = listed;
  showMore();
  entries()[first].focus();
}

function finishList() {
  const rest = hits.length - listed;
  $("more").hidden = rest <= 0;
  $("more").textContent = `Show ${number(Math.min(rest, LISTED))} more of ${number(rest)}`;
  markOpened();
  markFound();
}

function entries() {
  return [...$("list").querySelectorAll(".entry")];
}

function entryOf(memory) {
  return entries().find((button) => button.dataset.id === memory.id);
}

function markOpened() {
  for (const button of entries()) {
    if (button.dataset.id === opened?.id) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

// Marks the words of the search without changing the text.
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
