// Everything together.

function showHeader() {
  const facts = [plural(memories.length), `model ${store.model}`];
  if (memories.length) {
    const first = dayText(memories[memories.length - 1].at);
    const last = dayText(memories[0].at);
    facts.push(first === last ? first : `${first} – ${last}`);
  }
  $("facts").textContent = facts.join(" · ");
}

function keys(event) {
  const words = $("words");
  const typing = event.target === words;
  if (event.key === "/" && !typing && !forTheBrowser(event)) {
    event.preventDefault();
    words.select();
    words.focus();
  } else if (event.key === "Escape") {
    if (typing && words.value) {
      words.value = "";
      search();
    } else if (opened) closeMemory();
    else if (event.target === $("time")) choosePeriod(null);
  }
}

function start() {
  for (const part of [$("search"), $("chips"), document.querySelector("main")]) part.hidden = false;
  document.querySelector("main").classList.toggle("mapless", !hasMap);
  $("map-card").hidden = !hasMap;
  $("no-map").hidden = hasMap;
  $("bins").textContent = bins.length > 1 ? `by ${bins[0].unit}` : "";
  if (colours.size && memories.some((memory) => memory.hue < 0)) {
    $("legend").append(dot(-1), "other or no tag");
  }
  $("words").addEventListener("input", search);
  $("search").addEventListener("submit", (event) => event.preventDefault());
  $("clear").addEventListener("click", clearFilter);
  $("period").addEventListener("click", () => {
    choosePeriod(null);
    $("time").focus(); // the button that was pressed is gone
  });
  $("chips").addEventListener("click", pressChip);
  $("tags").addEventListener("click", pressChip);
  $("list").addEventListener("click", (event) => {
    const button = event.target.closest(".entry");
    if (button) openMemory(byId.get(button.dataset.id));
  });
  $("more").addEventListener("click", pressMore);
  $("copy").addEventListener("click", copyId);
  $("close").addEventListener("click", closeMemory);
  rove($("chips"), CHIP);
  rove($("list"), ".entry", showMore);
  watchMap();
  watchTime();
  addEventListener("keydown", keys);
  addEventListener("hashchange", openFromAddress);
  addEventListener("scroll", hideTip, true);
  addEventListener("resize", () => soon(showChips, drawTime));
  dark.addEventListener("change", () => soon(drawMap));
  applyFilter();
  openFromAddress();
}

showHeader();
if (memories.length) start();
else $("empty").hidden = false;
