"use strict";
(() => {
  const root = document.documentElement;
  const theme = () => {  /* Airflow keeps the theme that was chosen under this name */
    let chosen = null;
    try { chosen = localStorage.getItem("theme"); } catch { /* kept apart from Airflow */ }
    if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen; else delete root.dataset.theme;
  };
  theme();
  addEventListener("storage", theme);

  const value = (cell) => {
    const text = cell ? cell.textContent.trim() : "";
    const number = Number(text.replace(/,/g, ""));
    return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
  };
  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1;

  const makeSortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => (rising ? 1 : -1) * compare(value(a.cells[column]), value(b.cells[column])));
        table.tBodies[0].append(...rows);
      });
    });
  };

  const makeSearchable = (input) => {
    const rows = [...document.getElementById(input.dataset.rows).tBodies[0].rows];
    input.closest("form").hidden = false;
    input.closest("form").addEventListener("submit", (event) => event.preventDefault());
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
  };

  const highlight = (graph) => {
    const nodes = [...graph.querySelectorAll("[data-node]")];
    const edges = [...graph.querySelectorAll("[data-from]")];
    const reach = (name, from, to) => {
      const seen = new Set([name]);
      for (const node of seen) edges.forEach((edge) => { if (edge.dataset[from] === node) seen.add(edge.dataset[to]); });
      return seen;
    };
    const show = (name) => {
      const near = new Set(name ? [...reach(name, "from", "to"), ...reach(name, "to", "from")] : []);
      const up = name ? reach(name, "to", "from") : near, down = name ? reach(name, "from", "to") : near;
      nodes.forEach((node) => node.classList.toggle("dim", Boolean(name) && !near.has(node.dataset.node)));
      edges.forEach((edge) => {
        const along = (up.has(edge.dataset.from) && up.has(edge.dataset.to))
          || (down.has(edge.dataset.from) && down.has(edge.dataset.to));
        edge.classList.toggle("lit", Boolean(name) && along);
        edge.classList.toggle("dim", Boolean(name) && !along);
      });
    };
    nodes.forEach((node) => {
      for (const event of ["mouseenter", "focus"]) node.addEventListener(event, () => show(node.dataset.node));
      for (const event of ["mouseleave", "blur"]) node.addEventListener(event, () => show(graph.dataset.chosen));
    });
    show(graph.dataset.chosen);
  };

  const leadOut = (link) => link.addEventListener("click", (event) => {
    /* Airflow's frame may not navigate the window around it, but that window may navigate itself. */
    if (parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
    try {
      const outer = parent.document.createElement("a");
      outer.href = link.href;
      parent.document.body.append(outer);
      outer.click();
      outer.remove();
      event.preventDefault();
    } catch { /* the frame is kept apart: an ordinary link */ }
  });

  const markMore = (box) => {  /* a shadow at the edge where the rest can be scrolled to */
    const mark = () => box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    box.addEventListener("scroll", mark, { passive: true });
    new ResizeObserver(mark).observe(box);
  };

  const showWork = (form) => form.addEventListener("submit", () => {  /* until the answer replaces the page */
    const button = form.querySelector("button:not([type=button])");
    if (!button || form.getAttribute("role") === "search") return;
    const text = button.textContent;
    form.setAttribute("aria-busy", "true");
    button.textContent = `${text} …`;
    setTimeout(() => { button.disabled = true; }, 0);
    addEventListener("pageshow", () => {  /* also when it is come back to */
      form.removeAttribute("aria-busy");
      button.textContent = text;
      button.disabled = false;
    }, { once: true });
  });

  addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".wide").forEach(markMore);
    document.querySelectorAll("table.sortable").forEach(makeSortable);
    document.querySelectorAll("input[data-rows]").forEach(makeSearchable);
    document.querySelectorAll("svg.lineage").forEach(highlight);
    document.querySelectorAll("a[data-airflow]").forEach(leadOut);
    document.querySelectorAll("form").forEach(showWork);
  });
})();
