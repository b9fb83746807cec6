// The opened memory; the address says which one it is.

const NEIGHBOURS = 5;
const byId = new Map(memories.map((memory) => [memory.id, memory]));
let near = []; // its neighbours on the map
let openedFrom = null; // the element that had the focus

function openFromAddress() {
  const memory = byId.get(location.hash.slice(1)) ?? null;
  if (memory === opened) return;
  const focused = document.activeElement;
  const inside = $("pane").contains(focused);
  opened = memory;
  if (opened && !inside) openedFrom = focused;
  if (opened !== current) current = null; // the arrow keys continue from the opened one
  $("pane").hidden = !opened;
  if (opened) showOpened();
  if (opened && inside) $("pane").focus({ preventScroll: true }); // a link in it may be gone
  markOpened();
  markFound();
  soon(drawMap);
}

function openMemory(memory) {
  location.hash = memory.id;
}

function closeMemory() {
  const memory = opened;
  const inside = $("pane").contains(document.activeElement);
  history.pushState(null, "", "#");
  openFromAddress();
  say("Closed");
  if (!inside && document.activeElement !== document.body) return;
  const back = openedFrom?.isConnected && openedFrom !== document.body ? openedFrom : null;
  (back ?? entryOf(memory))?.focus();
}

function showOpened() {
  $("id").textContent = opened.id;
  $("copy").textContent = "Copy id";
  $("text").textContent = opened.text;
  showTags();
  const utc = opened.at.toISOString().slice(0, 16).replace("T", " ");
  const from = opened.from && `from ${opened.from}`;
  const said = { agent: "said by the agent", tool: "said by a page or tool" }[opened.said];
  const replaced = opened.replaced && `replaced by ${opened.replaced}`;
  const facts = [localText(opened.at), `${utc} UTC`, said, from, replaced];
  $("when").textContent = facts.filter(Boolean).join(" · ");
  const recalled = recalledText(opened);
  $("recalled").hidden = !recalled;
  $("recalled").textContent = recalled;
  near = neighbours(opened);
  const links = near.map((memory) => {
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
  say("Opened", opened.text, tagsText(opened), localText(opened.at), recalled);
  $("pane").scrollTop = 0;
  const top = $("pane").getBoundingClientRect().top;
  if (top < 0 || top > innerHeight - 160) {
    $("pane").scrollIntoView({ block: "start", behavior: calm.matches ? "auto" : "smooth" });
  }
}

function recalledText({ recalled, last }) {
  if (!store.recorded) return "";
  if (!recalled) return `Not recalled since ${dayText(new Date(store.recorded))}`;
  const times = recalled === 1 ? "once" : `${number(recalled)} times`;
  return `Recalled ${times}, last on ${localText(new Date(last))}`;
}

function showTags() {
  const focused = focusedTag("tags");
  $("tags").replaceChildren(...opened.tags.map(chip));
  focusTag("tags", focused);
}

function neighbours(memory) {
  if (!hasMap) return [];
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
    await navigator.clipboard.writeText($("id").textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren($("id"));
    $("copy").textContent = "Selected";
  }
}
