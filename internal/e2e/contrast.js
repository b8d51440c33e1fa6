// Lists the texts in sight whose contrast is below WCAG's AA: 4.5 to 1, for large letters 3 to 1.
(() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colours) => {
    paint.clearRect(0, 0, 1, 1);
    for (const c of colours) { paint.fillStyle = c; paint.fillRect(0, 0, 1, 1); }
    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (c) => c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    const colours = [];
    for (let at = e; at; at = at.parentElement) {
      const rect = at.localName === "svg" && at.querySelector(":scope > rect");
      if (rect) { colours.unshift(getComputedStyle(rect).fill); break; }
      colours.unshift(getComputedStyle(at).backgroundColor);
    }
    return ["white", ...colours];
  };
  const faint = [];
  const seen = new Set();
  for (const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walk.nextNode();) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || ["title", "desc", "script", "style"].includes(e.localName) || !e.checkVisibility()) continue;
    const style = getComputedStyle(e);
    const ink = e instanceof SVGElement ? style.fill : style.color;
    const ground = behind(e);
    const id = ink + ground + style.fontSize;
    if (seen.has(id)) continue;
    seen.add(id);
    const [a, b] = [light(rgb([...ground, ink])), light(rgb(ground))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || size >= 18.66 && parseInt(style.fontWeight) >= 700;
    if (ratio < (large ? 3 : 4.5)) faint.push(ratio.toFixed(2) + " " + ink + " on " + ground.join() + ": " + walk.currentNode.data.trim().slice(0, 40));
  }
  return faint;
})()
