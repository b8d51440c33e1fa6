// Comforts on top of a page that is whole without them: tooltips, zoom and search in the flame graphs,
// tables that sort, buttons that copy. Text from the page is only ever put back as text.
"use strict";
(() => {
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

  // Flame graphs
  const percent = (e, name) => parseFloat(e.getAttribute(name) ?? "0");
  const within = (a, b) => a.x >= b.x - 0.002 && a.x + a.w <= b.x + b.w + 0.002;
  const flame = (svg) => {
    const box = svg.closest(".flame-box");
    // A box is one frame, or several below each other with the same numbers: names come first in its text.
    const frames = [...svg.children].map((e) => {
      const text = e.querySelector("title").textContent;
      const names = text.split("\n");
      names.length = names.findIndex((line) => line.startsWith("total ") || line === "the fingerprint stands here");
      return { e, text, names, x: percent(e, "x"), w: percent(e, "width"), y: percent(e, "y"), h: percent(e.querySelector("rect"), "height") + 1 };
    });
    const whole = frames[0];
    let zoomed = whole;
    let current = whole;

    const says = make("p", "at-frame", "Click a frame to zoom in. By keyboard: arrows move, Enter zooms in, Escape zooms out.");
    says.setAttribute("aria-live", "polite");
    const out = button("Zoom out", () => zoom(whole));
    out.hidden = true;
    const search = make("input");
    search.type = "search";
    search.placeholder = "Find a function";
    search.setAttribute("aria-label", "Find a function in this flame graph");
    const found = make("output");
    const tools = make("div", "flame-tools");
    tools.append(search, found, out, button("Save as SVG", save));
    box.before(tools);
    box.after(says);
    svg.classList.add("zoomable");

    function name(f, w) {
      const wide = w / 100 * svg.clientWidth > 36;
      if (wide && !f.e.querySelector("text")) {
        f.names.forEach((line, i) => {
          const t = document.createElementNS(svg.namespaceURI, "text");
          t.setAttribute("x", "4");
          t.setAttribute("y", 13 + 19 * i);
          t.textContent = line.replace(/^.*\/(?=[^\/]*$)/, "");
          f.e.append(t);
        });
      }
      f.e.querySelectorAll("text").forEach((t) => t.setAttribute("visibility", wide ? "visible" : "hidden"));
    }
    function zoom(to) {
      zoomed = to;
      out.hidden = to === whole;
      for (const f of frames) {
        const above = f.y < to.y && within(to, f);
        const shown = above || (f.y >= to.y && within(f, to));
        f.e.setAttribute("display", shown ? "inline" : "none");
        if (!shown) continue;
        const x = above ? 0 : (f.x - to.x) / to.w * 100;
        const w = above ? 100 : f.w / to.w * 100;
        f.e.setAttribute("x", x + "%");
        f.e.setAttribute("width", w + "%");
        f.e.classList.toggle("above", above);
        name(f, w);
      }
    }
    function go(to) {
      if (!to) return;
      current.e.classList.remove("on");
      current = to;
      to.e.classList.add("on");
      says.textContent = to.text;
    }
    function find() {
      const q = search.value.trim().toLowerCase();
      let share = 0;
      let n = 0; // frames, not boxes
      const outermost = [];
      for (const f of frames) {
        const hits = q === "" ? 0 : f.names.filter((name) => name.toLowerCase().includes(q)).length;
        const hit = hits > 0;
        f.e.classList.toggle("hit", hit);
        f.e.classList.toggle("out", q !== "" && !hit);
        if (!hit) continue;
        n += hits;
        if (outermost.some((o) => within(f, o))) continue;
        outermost.push(f);
        share += f.w;
      }
      found.textContent = q === "" ? "" : n + (n === 1 ? " frame" : " frames") + ", " + share.toFixed(1) + " % of all change";
    }
    function save() {
      const copy = svg.cloneNode(true);
      copy.setAttribute("xmlns", svg.namespaceURI);
      copy.setAttribute("width", "1200");
      const link = make("a");
      link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
      link.download = "flame.svg";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }
    search.addEventListener("input", find);
    svg.addEventListener("click", (event) => {
      const f = frames.find((f) => f.e.contains(event.target));
      if (!f) return;
      go(f);
      zoom(f === zoomed ? whole : f);
    });
    const shown = (f) => f.e.getAttribute("display") !== "none";
    const nearest = (list) => list.filter(shown).sort((a, b) => Math.abs(a.x - current.x) - Math.abs(b.x - current.x))[0];
    const beside = (f) => f !== current && f.y <= current.y && f.y + f.h > current.y;
    const moves = {
      ArrowUp: () => go(nearest(frames.filter((f) => f.y + f.h === current.y && within(current, f)))),
      ArrowDown: () => go(nearest(frames.filter((f) => f.y === current.y + current.h && within(f, current)))),
      ArrowLeft: () => go(nearest(frames.filter((f) => beside(f) && f.x < current.x))),
      ArrowRight: () => go(nearest(frames.filter((f) => beside(f) && f.x > current.x))),
      Enter: () => { go(current); zoom(current); },
      Escape: () => zoom(whole),
    };
    box.addEventListener("keydown", (event) => {
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      move();
    });
  };
  document.querySelectorAll(".flame").forEach(flame);

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
})();
