// What may be looked through. The page changes nothing: a command in the terminal does.

function caseItem({ kind, ids, command }) {
  const item = element("li");
  item.append(element("h3", "", kind));
  for (const id of ids) {
    const link = element("a", "", gist(byId.get(id).text));
    link.href = `#${id}`;
    link.dir = "auto";
    item.append(link);
  }
  const copy = element("button", "quiet", "Copy");
  const code = element("code", "", command);
  copy.type = "button";
  copy.setAttribute("aria-label", `Copy: ${command}`);
  copy.addEventListener("click", () => copyText(copy, code));
  const line = element("p");
  line.append(code, copy);
  item.append(line);
  return item;
}

function showCases() {
  $("review").hidden = !store.cases.length;
  $("review").querySelector("summary").textContent = `To look through: ${store.cases.length}`;
  $("review").addEventListener("toggle", () => {
    if (!$("cases").firstChild) $("cases").append(...store.cases.map(caseItem));
  });
}
