
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const order = "CUWNIP";
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  const compare = (column) => (one, other) => {
    const a = one.cells[column].textContent.trim(), b = other.cells[column].textContent.trim();
    return column === 0 ? a.localeCompare(b, "en", {numeric: true}) : order.indexOf(a) - order.indexOf(b);
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", "ascending");
      body.append(...Array.from(body.rows).sort(compare(column)));
    });
  });
}
