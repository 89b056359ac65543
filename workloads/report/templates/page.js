// Filters and sorts the table of cases; without scripts the table is whole, wrong cases first.
"use strict";
(() => {
  const table = document.getElementById("cases");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const counter = document.getElementById("shown");
  const text = document.getElementById("filter-text");
  const selects = [...document.querySelectorAll(".filters select")];

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      const fits = words.every((word) => content.includes(word)) &&
        selects.every((select) => !select.value || row.dataset[select.name] === select.value);
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    counter.textContent = `${shown} of ${rows.length} cases`;
  }

  function sort(header) {
    const column = header.cellIndex;
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const isNumber = rows.every((row) => key(row) === "" || Number.isFinite(Number(key(row))));
    const order = (a, b) => isNumber ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b));
    rows.sort((a, b) => up ? order(a, b) : order(b, a));
    body.append(...rows);
  }

  text.addEventListener("input", filter);
  for (const select of selects) select.addEventListener("change", filter);
  for (const header of table.tHead.rows[0].cells) {
    header.querySelector("button").addEventListener("click", () => sort(header));
  }
  filter();
})();
