"use strict";
{
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const body = (table) => table.tBodies[0];

  // A table is sorted by the data-v of a column, or by its text. The first column of the modules has the order of the
  // tree.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
  function sort(heading) {
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const first = heading.classList.contains("num") ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = all("tr", body(table));
    rows.sort((a, b) => sign * compare(valueOf(a, column), valueOf(b, column)));
    body(table).append(...rows);
  }

  // A row is shown if it has the text that is searched for, what the selections of its section want, and, in the tree,
  // if no module around it is closed. A module also stays for the sake of those in it.
  const search = document.querySelector("#search");
  function show() {
    const wanted = search.value.trim().toLowerCase();
    for (const table of all("table.rows")) {
      const selects = all("select", table.closest("section"));
      const rows = all("tr", body(table));
      const closed = rows.filter((row) => row.querySelector("[aria-expanded=false]")).map((row) => `${row.dataset.name}.`);
      const found = rows.filter(
        (row) =>
          (!wanted || row.dataset.text.includes(wanted)) &&
          selects.every((select) => !select.value || row.dataset[select.name].split(" ").includes(select.value)),
      );
      const narrowed = found.length < rows.length;
      const names = found.map((row) => row.dataset.name).filter(Boolean);
      for (const row of rows) {
        const name = row.dataset.name;
        const isFound = found.includes(row) || (name && names.some((other) => other.startsWith(`${name}.`)));
        row.hidden = !isFound || (!narrowed && Boolean(name) && closed.some((prefix) => name.startsWith(prefix)));
      }
      table.closest("section").querySelector(".none").hidden = rows.some((row) => !row.hidden);
    }
  }

  function zoom(range) {
    const scroll = document.querySelector(".scroll");
    const lanes = scroll.querySelector(".lanes");
    const middle = (scroll.scrollLeft + scroll.clientWidth / 2) / lanes.clientWidth;
    lanes.style.width = `${100 * 2 ** range.value}%`;
    scroll.scrollLeft = middle * lanes.clientWidth - scroll.clientWidth / 2;
  }

  document.addEventListener("click", (event) => {
    const heading = event.target.closest("th button");
    const twist = event.target.closest(".twist");
    if (heading) sort(heading.parentElement);
    if (twist) {
      twist.setAttribute("aria-expanded", twist.getAttribute("aria-expanded") === "false");
      show();
    }
  });
  document.addEventListener("input", (event) => (event.target.type === "range" ? zoom(event.target) : show()));
  document.addEventListener("change", (event) => event.target.matches("select") && show());
}
