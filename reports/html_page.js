// Comforts on top of a page that is whole without them: tooltips, tables that sort, buttons that copy. Text from the
// page is only ever put back as text.
const make = (tag, name, text) => {
  const e = document.createElement(tag);
  if (name) e.className = name;
  if (text) e.textContent = text;
  return e;
};
const button = (text, action) => {
  const b = make("button", "tool", text);
  b.type = "button";
  b.addEventListener("click", action);
  return b;
};

// Tooltips say at once what a title would say after a while. The title is taken away meanwhile.
const tip = make("div", "tip");
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
let put = () => {};
const place = (event) => {
  const box = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 8);
  const below = event.clientY + 18 + box.height < window.innerHeight;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = (below ? event.clientY + 18 : Math.max(8, event.clientY - box.height - 10)) + "px";
};
document.addEventListener("pointerover", (event) => {
  put();
  if (event.pointerType === "touch") return;
  const owner = event.target.closest(".chart g, .flame > svg");
  const title = owner && owner.querySelector(":scope > title");
  if (!title) return;
  tip.textContent = title.textContent;
  title.remove();
  put = () => { owner.prepend(title); tip.hidden = true; put = () => {}; };
  tip.hidden = false;
  place(event);
});
document.addEventListener("pointermove", (event) => { if (!tip.hidden) place(event); });
document.addEventListener("pointerleave", () => put());
document.addEventListener("scroll", () => put(), { passive: true });

// Tables sort by their heads: numbers with their units, everything else as words.
const units = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, ms: 1e-3, s: 1 };
const key = (row, i) => {
  const text = row.cells[i].textContent.trim();
  const m = /^([+\u2212-]?)([\d.,]+)\s*(B|KiB|MiB|GiB|ms|s)?(?![\w.])/.exec(text);
  return m ? (m[1] && m[1] !== "+" ? -1 : 1) * parseFloat(m[2].replaceAll(",", "")) * (units[m[3]] || 1) : text;
};
const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
document.querySelectorAll("table.sortable").forEach((table) => {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((th, i) => {
    if (!th.textContent.trim()) return;
    const b = make("button", "", th.textContent);
    b.type = "button";
    b.addEventListener("click", () => {
      const down = th.getAttribute("aria-sort") !== "descending";
      heads.forEach((h) => h.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [key(row, i), row]);
      rows.sort((a, b) => (down ? -1 : 1) * compare(a[0], b[0]));
      table.tBodies[0].append(...rows.map((r) => r[1]));
    });
    th.replaceChildren(b);
  });
});

// Paper has no folds: all variants and all gates are printed.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll(".folded, #gates details")].filter((d) => !d.open);
  unfolded.forEach((d) => { d.open = true; });
});
addEventListener("afterprint", () => unfolded.forEach((d) => { d.open = false; }));

// Copy buttons
const copy = async (b, text) => {
  const label = b.textContent;
  try {
    await navigator.clipboard.writeText(text);
    b.textContent = "Copied";
  } catch {
    b.textContent = "Press Ctrl+C";
  }
  setTimeout(() => { b.textContent = label; }, 1500);
};
const copies = (parent, what) => {
  const b = button("Copy", (event) => {
    getSelection().selectAllChildren(what);
    copy(event.currentTarget, what.innerText);
  });
  b.classList.add("copy");
  parent.append(b);
};
document.querySelectorAll(".command").forEach((c) => copies(c, c.querySelector("code")));
document.querySelectorAll(".stack .body").forEach((s) => copies(s, s.querySelector(".frames")));
