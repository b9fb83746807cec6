// Which memories are shown: by words, by tags, and by period.

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
  showList();
  showChips();
  if (opened) showTags();
  const filtered = filter.words.length || filter.tags.size || filter.period;
  $("clear").hidden = !filtered;
  $("count").textContent = filtered
    ? `${number(hits.length)} of ${plural(memories.length)}`
    : plural(memories.length);
  $("period").hidden = !filter.period;
  if (filter.period) {
    const text = periodText(filter.period);
    $("period").textContent = `${text} ✕`;
    $("period").setAttribute("aria-label", `Show all times, not only ${text}`);
  }
  tellTime();
  soon(drawMap, drawTime);
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
  entries()[0].focus(); // the button that was pressed is gone
}

function toggleTag(tag) {
  if (!filter.tags.delete(tag)) filter.tags.add(tag);
  applyFilter();
}

function choosePeriod(period) {
  filter.period = period;
  applyFilter();
}
