// What the tests ask of a page: texts that are too faint, and controls without a name.

function parsed(colour) {
  const parts = (colour.match(/[\d.]+/g) ?? []).map(Number);
  if (colour.startsWith("color(")) return [parts[0] * 255, parts[1] * 255, parts[2] * 255, parts[3] ?? 1];
  return parts.length < 3 ? [0, 0, 0, 0] : [parts[0], parts[1], parts[2], parts[3] ?? 1];
}

function over(front, back) {
  return [0, 1, 2].map((index) => front[index] * front[3] + back[index] * (1 - front[3]));
}

function luminance(colour) {
  const [red, green, blue] = colour.map((value) => value / 255).map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function groundOf(element) {
  const layers = [];
  for (let one = element; one; one = one.parentElement) layers.push(parsed(getComputedStyle(one).backgroundColor));
  return layers.reverse().reduce((ground, layer) => over(layer, ground), [255, 255, 255]);
}

window.faintTexts = (root) => {
  const faint = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) || element.closest(":disabled, .tip, .unseen")) continue;
    if (!element.getClientRects().length || (root === document.body && element.closest("dialog"))) continue;
    const style = getComputedStyle(element);
    const isSvg = element instanceof SVGElement;
    const colour = parsed(isSvg ? style.fill : style.color);
    const ground = groundOf(element);
    const [light, dark] = [luminance(over(colour, ground)), luminance(ground)].sort((one, other) => other - one);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return faint;
};

window.namelessControls = () => [...document.querySelectorAll("button, a, input, select, [tabindex='0'], [role=img]")].filter((one) => {
  if (!one.getClientRects().length) return false;
  const label = one.closest("label");
  return !(one.getAttribute("aria-label") || one.textContent.trim() && one.tagName !== "SELECT" || label?.textContent.trim());
}).map((one) => one.outerHTML.slice(0, 80));

window.focused = () => {
  const one = document.activeElement;
  return [`${one.tagName}.${one.className}`, getComputedStyle(one).outlineStyle];
};

// What an attacker would do who had got markup into the page.
window.tryEverything = async (address) => {
  window.refused = [];
  document.addEventListener("securitypolicyviolation", (event) => window.refused.push(event.effectiveDirective));
  const script = document.createElement("script");
  script.textContent = "window.hacked = 1";
  document.body.append(script);
  const holder = document.createElement("div");
  holder.innerHTML = "<b onclick='window.hacked = 2'>x</b><img>";
  holder.lastChild.src = `${address}picture.png`;
  document.body.append(holder);
  holder.firstChild.click();
  // Code that a debugger runs may evaluate strings; what it leaves for later may not.
  await new Promise((done) => setTimeout(done, 50));
  try { (0, eval)("window.hacked = 3"); } catch { /* refused */ }
  try { await fetch(`${address}data.json`); } catch { /* refused */ }
  await new Promise((done) => setTimeout(done, 200));
};
